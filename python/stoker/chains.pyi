# SPDX-License-Identifier: Apache-2.0
# Written by _stub.py; a test compares.  Methods hide int and float: hence builtins.
import builtins
from collections.abc import Callable, Sequence
from typing import Any

codecs: tuple[str, ...]
steps: list[tuple[str, str, list[tuple[str, str, str | None, str]]]]

def from_(*fields: str, default: Any = None) -> Chain: ...
def begin(name: str) -> Callable[..., Chain]: ...
def python_name(name: str) -> str: ...
def describe(text: str, args: Any) -> str: ...

class Called(str):
    function: Any
    name: str
    def numbered(self, which: builtins.int) -> str: ...

class Chain:
    _calls: tuple[str, ...]
    def __init__(self, *calls: str) -> None: ...
    @classmethod
    def from_transform(cls, transform: Any, *fields: str, approximate: bool = False) -> Chain: ...
    def call(self, function: Callable[[Any], Any], dtype: Any = None, shape: builtins.int | Sequence[builtins.int] | None = None) -> Chain:
        '''A function of your own on the value at this point, in worker processes.
            dtype, shape: it returns numbers of this type, and of this shape, with -1 where rows differ
        '''

    def image(self,
            exif: bool | None = None,
            exact: bool | None = None,
            mode: str | None = None,
            bits: builtins.int | None = None) -> Chain:
        """decode a picture to RGB; its content says what it is (JPEG, PNG, WebP, PPM)
        exif: turn it upright by its EXIF orientation; default false
        exact: the only way: false is taken, and warned of; default true
        mode: rgb; gray: one channel; gray16: one of 16 bits; index: of a palette, for masks; default rgb
        bits: 8: gray of 16 bits becomes its high byte; absent: it is refused
        """

    def pictures(self,
            same: bool | None = None,
            root: str | None = None,
            exif: bool | None = None) -> Chain:
        """all pictures of a sample: fields 0.jpg, 1.jpg, ..., a list column, a JSON list
        same: all pictures of a sample get the same draws; default false
        root: the folder of files that a list names; else fields are named
        exif: turn them upright by their EXIF orientation; default false
        """

    def video(self,
            frames: builtins.int | None = None,
            stride: builtins.int | None = None,
            start: str | builtins.float | Sequence[builtins.float] | None = None,
            fps: builtins.float | None = None,
            at: str | None = None,
            first: str | None = None,
            step: builtins.int | None = None,
            offsets: builtins.float | Sequence[builtins.float] | None = None,
            tolerance: builtins.float | None = None,
            keyframes: bool | None = None,
            rate: builtins.float | None = None,
            timeout: builtins.float | None = None,
            pad: str | None = None) -> Chain:
        """a clip of a video (MP4, MOV, Matroska, WebM, numbered pictures): rows are (frames, ...)
        frames: frames of a clip; default 16
        stride: every so many-th frame; default 1
        start: random, center, a frame's number; or uniform: all over the video; default random
        fps: in place of stride: frames per second, by their times
        at: in place of start: the output that has the time, in seconds; or one for each frame
        first: in place of start: the output that has the first frame's number
        step: with first: clips begin so many frames apart; in order, a frame is decoded once
        offsets: with at: frames so many seconds from it, nearest by time
        tolerance: with at: seconds that a frame may be from its time, else the sample is bad
        keyframes: no other frames are counted; default false
        rate: of numbered pictures (000001.jpg): how many there are in a second; videos have times
        timeout: seconds of CPU time that decoding a clip may take, else the sample is bad; absent: 30, and one for each packet
        pad: of a video that is too short: last, wrap, or error; default last
        """

    def int(self) -> Chain:
        """a decimal integer, as i64"""

    def float(self) -> Chain:
        """a decimal number, as f32"""

    def ints(self,
            shape: builtins.int | Sequence[builtins.int] | None = None,
            null: builtins.int | None = None) -> Chain:
        """a list of integers, [1, 2] or 1 2, as i64
        shape: of a row, as (-1, 4): one side may be -1; lists may be nested then; absent: (-1)
        null: what stands for a null, of lists that are written as text; absent: it is refused
        """

    def floats(self,
            shape: builtins.int | Sequence[builtins.int] | None = None,
            null: builtins.float | None = None) -> Chain:
        """a list of numbers, [0.5, 2] or 0.5 2, as f32
        shape: of a row, as (-1, 4): one side may be -1; lists may be nested then; absent: (-1)
        null: what stands for a null, of lists that are written as text; absent: it is refused
        """

    def text(self) -> Chain:
        """UTF-8 text; after json(...) a string without its quotes; of a decimal all its digits"""

    def bytes(self) -> Chain:
        """the field as it is"""

    def json(self,
            path: str | None = None) -> Chain:
        """one value of a JSON field, as text
        path: steps to the value: keys and array indexes parted by dots; absent: all of it
        """

    def npy(self,
            shape: builtins.int | Sequence[builtins.int] | None = None,
            dtype: str | None = None) -> Chain:
        """an array as numpy.save() writes it
        shape: of every row, so that they stack; absent: each has its own
        dtype: of every row: u8 i8 u16 i16 i32 u32 i64 f16 f32 f64; absent: any
        """

    def raw(self,
            dtype: str,
            shape: builtins.int | Sequence[builtins.int] | None = None) -> Chain:
        """numbers as memory has them, without a header
        dtype: of the numbers: u8 i8 u16 i16 i32 u32 i64 f16 bf16 f32 f64
        shape: of every row, so that they stack; the first side may be -1; absent: (-1)
        """

    def vocab(self,
            file: str) -> Chain:
        """a text label as its line's number in a file, i64
        file: one name a line, quoted: 'names.txt'
        """

    def gunzip(self) -> Chain:
        """unpack gzip, at most 256 MiB; done unasked where from(x) finds x.gz"""

    def unzstd(self) -> Chain:
        """unpack Zstandard, at most 256 MiB; done unasked where from(x) finds x.zst"""

    def unlz4(self) -> Chain:
        """unpack LZ4 frames, at most 256 MiB; done unasked where from(x) finds x.lz4"""

    def open(self,
            root: str | None = None) -> Chain:
        """the file that a field of a manifest or a column of a table names: from(path) | open(root="/data") | image
        root: folder of the files; else that of the manifest or table
        """

    def tokens(self,
            block: builtins.int,
            stride: builtins.int | None = None,
            random: bool | None = None,
            shift: builtins.int | None = None,
            share: bool | None = None,
            separator: builtins.int | None = None,
            pack: str | None = None,
            give: str | None = None,
            pad: builtins.int | None = None,
            repack: bool | None = None) -> Chain:
        """windows of token files: tokens(block=1024), labels: tokens(block=1024, shift=1)
        block: tokens of a row
        stride: tokens from a window to the next; absent: block
        random: windows begin anywhere, drawn again each epoch; default false
        shift: how far after the window's begin: 1 gives the labels; default 0
        share: outputs are views of one buffer, shifted, not copies; default false
        separator: a token to put after every document (Megatron's .idx)
        pack: rows of whole documents, longer ones cut: best or first fit
        give: of packed rows: tokens (absent: these), positions, documents, mask
        pad: what fills packed rows; absent: 0, with shift -100
        repack: pack: the epoch's order, so that rows are others each time; default false
        """

    def masks(self) -> Chain:
        """polygons and run lengths of annotations as planes of 0 and 1: (objects, height, width)"""

    def class_map(self) -> Chain:
        """before image(mode=index) of masks: pixels are labels + 1, not numbers of objects"""

    def sound(self,
            rate: builtins.int | None = None,
            mono: bool | None = None,
            channel: str | builtins.float | Sequence[builtins.float] | None = None,
            filter: str | None = None) -> Chain:
        """decode a recording to f32 samples; its content says what it is (WAV, FLAC, ...)
        rate: samples per second; absent: as each recording is stored
        mono: the mean of all channels, rows of (samples); false: (channels, samples); default true
        channel: one channel alone: its number, a field that says it, or random
        filter: of the resampler: hq, or torchaudio; default hq
        """

    def resize(self,
            size: builtins.int | Sequence[builtins.int],
            max_size: builtins.int | None = None,
            interpolation: str | None = None,
            antialias: bool | None = None,
            exact: str | None = None) -> Chain:
        """resize; one number: the shorter side
        size: the shorter side, or (height, width)
        max_size: the longer side is at most this
        interpolation: nearest, bilinear, bicubic or lanczos; default bilinear
        antialias: a picture that shrinks is smoothed first; default true
        exact: the pixels are those of pillow or torchvision, to the bit
        """

    def center_crop(self,
            size: builtins.int | Sequence[builtins.int]) -> Chain:
        """cut out the middle; black where the picture is smaller
        size: side, or (height, width)
        """

    def random_resized_crop(self,
            size: builtins.int | Sequence[builtins.int],
            scale: builtins.float | Sequence[builtins.float] | None = None,
            ratio: builtins.float | Sequence[builtins.float] | None = None,
            interpolation: str | None = None,
            antialias: bool | None = None,
            exact: str | None = None) -> Chain:
        """a random part of the picture, resized
        size: side of the output, or (height, width)
        scale: least and most share of the picture's area; default (0.08, 1)
        ratio: least and most width / height; default (0.75, 1.3333333333333333)
        interpolation: nearest, bilinear, bicubic or lanczos; random: bilinear or bicubic for each picture; default bilinear
        antialias: a picture that shrinks is smoothed first; default true
        exact: the pixels are those of pillow or torchvision, to the bit
        """

    def resize_to_patches(self,
            patch: str | builtins.float | Sequence[builtins.float],
            max_patches: builtins.int | None = None,
            merge: builtins.int | None = None,
            min_pixels: builtins.int | None = None,
            max_pixels: builtins.int | None = None,
            max_ratio: builtins.float | None = None,
            pad: bool | None = None,
            max_side: builtins.int | None = None,
            interpolation: str | None = None,
            exact: str | None = None) -> Chain:
        """resize to whole patches, the ratio kept
        patch: side of a patch, or naflex, siglip2, qwen2_vl, qwen3_vl or kimi
        max_patches: the picture is as large as so many patches allow
        merge: sides are multiples of patch * merge; 1
        min_pixels: Qwen's rule: at least so many pixels ...
        max_pixels: ... and at most so many
        max_ratio: a picture gets at most so many times as large
        pad: Kimi's rule: only made smaller, then padded to whole patches
        max_side: with pad: patches of a side
        interpolation: nearest, bilinear, bicubic or lanczos; the model's, else bicubic
        exact: the pixels are those of pillow or torchvision, to the bit; the model's
        """

    def random_resized_crop_to_patches(self,
            patch: str | builtins.float | Sequence[builtins.float],
            max_patches: builtins.int | None = None,
            scale: builtins.float | Sequence[builtins.float] | None = None,
            ratio: builtins.float | Sequence[builtins.float] | None = None,
            merge: builtins.int | None = None,
            min_pixels: builtins.int | None = None,
            max_pixels: builtins.int | None = None,
            max_ratio: builtins.float | None = None,
            interpolation: str | None = None,
            exact: str | None = None) -> Chain:
        """a random part of the picture, resized to whole patches
        patch: side of a patch, or naflex, siglip2, qwen2_vl, qwen3_vl or kimi
        max_patches: the part is as large as so many patches allow
        scale: least and most share of the picture's area; default (0.08, 1)
        ratio: least and most of what its ratio is multiplied by; default (0.8, 1.25)
        merge: sides are multiples of patch * merge; 1
        min_pixels: Qwen's rule: at least so many pixels ...
        max_pixels: ... and at most so many
        max_ratio: the part gets at most so many times as large
        interpolation: nearest, bilinear, bicubic or lanczos; the model's, else bicubic; random: bilinear or bicubic for each picture
        exact: the pixels are those of pillow or torchvision, to the bit; the model's
        """

    def resize_to_bucket(self,
            *sizes: str,
            area: builtins.int | None = None,
            step: builtins.int | None = None,
            least: builtins.int | None = None,
            most: builtins.int | None = None,
            no_upscale: bool | None = None,
            crop: str | None = None,
            interpolation: str | None = None,
            exact: str | None = None) -> Chain:
        """resize and crop to the bucket whose ratio is nearest
        sizes: sizes of the buckets: "512x768", "768x512"; height first
        area: in place of sizes: about so many pixels each
        step: with area: sides are multiples of this, ...; default 64
        least: ... not shorter than this ...; default 256
        most: ... and not longer; default 1024
        no_upscale: with area: a smaller picture is only cut to whole steps, not enlarged; default false
        crop: which part is kept: center or random; default center
        interpolation: nearest, bilinear, bicubic or lanczos; default bilinear
        exact: the pixels are those of pillow or torchvision, to the bit
        """

    def hflip(self,
            p: builtins.float | None = None) -> Chain:
        """mirror left to right, at random
        p: how often; default 0.5
        """

    def vflip(self,
            p: builtins.float | None = None) -> Chain:
        """mirror top to bottom, at random
        p: how often; default 0.5
        """

    def pad(self,
            padding: builtins.int | Sequence[builtins.int],
            fill: builtins.int | Sequence[builtins.int] | None = None,
            padding_mode: str | None = None) -> Chain:
        """widen the picture on each side
        padding: pixels: one number, or (left, top, right, bottom)
        fill: 0 to 255: gray, or (red, green, blue); default 0
        padding_mode: constant, edge, reflect or symmetric; default constant
        """

    def random_crop(self,
            size: builtins.int | Sequence[builtins.int],
            padding: builtins.int | Sequence[builtins.int] | None = None,
            pad_if_needed: bool | None = None,
            fill: builtins.int | Sequence[builtins.int] | None = None,
            padding_mode: str | None = None) -> Chain:
        """a window of this size at a random place
        size: side of the output, or (height, width)
        padding: pixels, added first: one number, or (left, top, right, bottom); default 0
        pad_if_needed: pad what is smaller than the crop; default false
        fill: 0 to 255: gray, or (red, green, blue); default 0
        padding_mode: constant, edge, reflect or symmetric; default constant
        """

    def letterbox(self,
            size: builtins.int | Sequence[builtins.int],
            fill: builtins.int | Sequence[builtins.int] | None = None,
            interpolation: str | None = None,
            antialias: bool | None = None,
            exact: str | None = None) -> Chain:
        """resize into a box with the ratio kept, and pad to it
        size: side of the box, or (height, width)
        fill: 0 to 255: gray, or (red, green, blue); default 114
        interpolation: nearest, bilinear, bicubic or lanczos; default bilinear
        antialias: a picture that shrinks is smoothed first; default true
        exact: the pixels are those of pillow or torchvision, to the bit
        """

    def scale_jitter(self,
            size: builtins.int | Sequence[builtins.int],
            scale: builtins.float | Sequence[builtins.float] | None = None,
            interpolation: str | None = None,
            antialias: bool | None = None,
            exact: str | None = None) -> Chain:
        """resize to a box, times a random factor
        size: side of the box, or (height, width)
        scale: least and most of what fits the box; default (0.1, 2)
        interpolation: nearest, bilinear, bicubic or lanczos; default bilinear
        antialias: a picture that shrinks is smoothed first; default true
        exact: the pixels are those of pillow or torchvision, to the bit
        """

    def random_shortest_size(self,
            min_size: builtins.int | Sequence[builtins.int],
            max_size: builtins.int | None = None,
            interpolation: str | None = None,
            antialias: bool | None = None,
            exact: str | None = None) -> Chain:
        """resize the shorter side to one of several sizes, at random
        min_size: the shorter side: up to 16 sizes, one is drawn
        max_size: the longer side is at most this; 0: any; default 0
        interpolation: nearest, bilinear, bicubic or lanczos; default bilinear
        antialias: a picture that shrinks is smoothed first; default true
        exact: the pixels are those of pillow or torchvision, to the bit
        """

    def zoom_out(self,
            side_range: builtins.float | Sequence[builtins.float] | None = None,
            p: builtins.float | None = None,
            fill: builtins.int | Sequence[builtins.int] | None = None,
            padding_mode: str | None = None) -> Chain:
        """put the picture at a random place of a larger canvas
        side_range: least and most of the picture's side, 1 and more; default (1, 4)
        p: how likely; default 0.5
        fill: 0 to 255: gray, or (red, green, blue); default 0
        padding_mode: constant, edge, reflect or symmetric; default constant
        """

    def iou_crop(self,
            boxes: str,
            scale: builtins.float | Sequence[builtins.float] | None = None,
            ratio: builtins.float | Sequence[builtins.float] | None = None,
            options: builtins.float | Sequence[builtins.float] | None = None,
            trials: builtins.int | None = None) -> Chain:
        """a window that overlaps some box enough
        boxes: the output of boxes that are like() this picture
        scale: least and most of width and of height; default (0.3, 1)
        ratio: least and most of width over height; default (0.5, 2)
        options: overlaps (intersection over union) of which one is drawn; 1: all of the picture; default (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1)
        trials: windows that are tried for an option; default 40
        """

    def like(self,
            output: str,
            interpolation: str | None = None,
            antialias: bool | None = None,
            fill: builtins.int | Sequence[builtins.int] | None = None,
            format: str | None = None,
            normalized: bool | None = None,
            min_size: builtins.float | None = None,
            min_area: builtins.float | None = None,
            min_visible: builtins.float | None = None,
            points: bool | None = None,
            flip_idx: str | None = None,
            view: builtins.int | None = None) -> Chain:
        """the geometry of another output, for masks, boxes, keypoints
        output: the picture that it belongs to; of labels: the boxes
        interpolation: of pictures: as for resize; absent: its leader's, of indices nearest
        antialias: with interpolation: as for resize
        fill: 0 to 255: gray, or (red, green, blue); absent: its leader's if both have one mode, else 0
        format: of boxes: xyxy, xywh or cxcywh; default xyxy
        normalized: coordinates are shares of width and height; default false
        min_size: boxes with a shorter side are dropped, pixels; default 1
        min_area: ... with a smaller area; default 1
        min_visible: ... of which less than this share is left; default 0
        points: numbers are keypoints: (x, y) or (x, y, visibility); default false
        flip_idx: which keypoint is which in a mirror: '0 2 1 4 3'
        view: of boxes and keypoints: which of the picture's views(), from 0 on
        """

    def views(self,
            n: builtins.int) -> Chain:
        """what follows is drawn once per view; rows are (views, ...)
        n: how many
        """

    def five_crop(self,
            size: builtins.int | Sequence[builtins.int]) -> Chain:
        """the four corners and the middle, as 5 views
        size: side of a crop, or (height, width)
        """

    def ten_crop(self,
            size: builtins.int | Sequence[builtins.int],
            vertical_flip: bool | None = None) -> Chain:
        """five_crop of the picture and of its mirror image
        size: side of a crop, or (height, width)
        vertical_flip: mirror top to bottom, not left to right; default false
        """

    def rotate(self,
            degrees: builtins.float | Sequence[builtins.float],
            p: builtins.float | None = None,
            interpolation: str | None = None,
            fill: builtins.int | Sequence[builtins.int] | None = None) -> Chain:
        """turn about the middle
        degrees: -degrees to degrees, counter-clockwise; or (least, most)
        p: how often; default 1
        interpolation: nearest or bilinear; default nearest
        fill: 0 to 255: gray, or (red, green, blue); default 0
        """

    def affine(self,
            degrees: builtins.float | Sequence[builtins.float],
            translate: builtins.float | Sequence[builtins.float] | None = None,
            scale: builtins.float | Sequence[builtins.float] | None = None,
            shear: builtins.float | Sequence[builtins.float] | None = None,
            p: builtins.float | None = None,
            interpolation: str | None = None,
            fill: builtins.int | Sequence[builtins.int] | None = None) -> Chain:
        """turn, move, scale and shear about the middle
        degrees: -degrees to degrees, clockwise; or (least, most)
        translate: at most so much of width and height; default (0, 0)
        scale: (least, most); default (1, 1)
        shear: degrees along x; four numbers: along x and y; default (0, 0)
        p: how often; default 1
        interpolation: nearest or bilinear; default nearest
        fill: 0 to 255: gray, or (red, green, blue); default 0
        """

    def perspective(self,
            distortion_scale: builtins.float | None = None,
            p: builtins.float | None = None,
            interpolation: str | None = None,
            fill: builtins.int | Sequence[builtins.int] | None = None) -> Chain:
        """look at it from a random side
        distortion_scale: how far corners move, of half a side, 0..1; default 0.5
        p: how often; default 0.5
        interpolation: nearest or bilinear; default bilinear
        fill: 0 to 255: gray, or (red, green, blue); default 0
        """

    def color_jitter(self,
            brightness: builtins.float | Sequence[builtins.float] | None = None,
            contrast: builtins.float | Sequence[builtins.float] | None = None,
            saturation: builtins.float | Sequence[builtins.float] | None = None,
            hue: builtins.float | Sequence[builtins.float] | None = None,
            p: builtins.float | None = None) -> Chain:
        """brightness, contrast, saturation and hue, in random order
        brightness: b: factors from 1 - b to 1 + b; or (least, most); default 0
        contrast: the same; default 0
        saturation: the same; default 0
        hue: h: turns from -h to h of the circle, at most 0.5; or a pair; default 0
        p: how often; default 1
        """

    def brightness(self,
            brightness: builtins.float | Sequence[builtins.float],
            p: builtins.float | None = None) -> Chain:
        """every value times a factor
        brightness: b: factors from 1 - b to 1 + b; or (least, most)
        p: how often; default 1
        """

    def contrast(self,
            contrast: builtins.float | Sequence[builtins.float],
            p: builtins.float | None = None) -> Chain:
        """the distance from the picture's mean gray times a factor
        contrast: c: factors from 1 - c to 1 + c; or (least, most)
        p: how often; default 1
        """

    def saturation(self,
            saturation: builtins.float | Sequence[builtins.float],
            p: builtins.float | None = None) -> Chain:
        """the distance from a pixel's own gray times a factor
        saturation: s: factors from 1 - s to 1 + s; or (least, most)
        p: how often; default 1
        """

    def hue(self,
            hue: builtins.float | Sequence[builtins.float],
            p: builtins.float | None = None) -> Chain:
        """colors turned around the circle
        hue: h: turns from -h to h of the circle, at most 0.5; or a pair
        p: how often; default 1
        """

    def autocontrast(self,
            p: builtins.float | None = None) -> Chain:
        """every channel stretched to 0..255, at random
        p: how often; default 0.5
        """

    def equalize(self,
            p: builtins.float | None = None) -> Chain:
        """every channel's values spread evenly, at random
        p: how often; default 0.5
        """

    def solarize(self,
            threshold: builtins.float | Sequence[builtins.float],
            p: builtins.float | None = None) -> Chain:
        """bright values inverted, at random
        threshold: values from it on are inverted; or (least, most)
        p: how often; default 0.5
        """

    def posterize(self,
            bits: builtins.int | Sequence[builtins.int],
            p: builtins.float | None = None) -> Chain:
        """fewer bits for every value, at random
        bits: bits that a channel keeps, 0 to 8; or (least, most)
        p: how often; default 0.5
        """

    def invert(self,
            p: builtins.float | None = None) -> Chain:
        """255 minus every value, at random
        p: how often; default 0.5
        """

    def grayscale(self,
            p: builtins.float | None = None) -> Chain:
        """three equal channels: the pixel's gray, at random
        p: how often; default 0.1
        """

    def channel_shuffle(self,
            p: builtins.float | None = None) -> Chain:
        """channels in a random order
        p: how often; default 1
        """

    def hsv(self,
            hue: builtins.float | Sequence[builtins.float] | None = None,
            saturation: builtins.float | Sequence[builtins.float] | None = None,
            value: builtins.float | Sequence[builtins.float] | None = None,
            p: builtins.float | None = None) -> Chain:
        """hue turned, saturation and value times a factor
        hue: h: turns from -h to h of the circle; or (least, most); default 0.015
        saturation: s: factors from 1 - s to 1 + s; or (least, most); default 0.7
        value: v: factors from 1 - v to 1 + v; or (least, most); default 0.4
        p: how often; default 1
        """

    def gaussian_blur(self,
            kernel: builtins.int | Sequence[builtins.int],
            sigma: builtins.float | Sequence[builtins.float] | None = None,
            p: builtins.float | None = None) -> Chain:
        """a blur of random width
        kernel: pixels of its side, odd; or (across, down)
        sigma: its deviation in pixels: least and most, or one number; default (0.1, 2)
        p: how often; default 1
        """

    def sharpness(self,
            factor: builtins.float | Sequence[builtins.float],
            p: builtins.float | None = None) -> Chain:
        """the distance from a soft copy times a factor, at random
        factor: 0 blurs, 1 changes nothing, 2 sharpens; or (least, most)
        p: how often; default 0.5
        """

    def gaussian_noise(self,
            mean: builtins.float | Sequence[builtins.float] | None = None,
            sigma: builtins.float | Sequence[builtins.float] | None = None,
            p: builtins.float | None = None) -> Chain:
        """normal noise, of every value its own
        mean: of 1, which is 255; or (least, most); default 0
        sigma: deviation, of 1; or (least, most); default 0.1
        p: how often; default 1
        """

    def jpeg_artifacts(self,
            quality: builtins.int | Sequence[builtins.int],
            p: builtins.float | None = None) -> Chain:
        """what saving as JPEG takes from a picture
        quality: 1 to 100, as Pillow counts it; or (least, most)
        p: how often; default 1
        """

    def random_erasing(self,
            p: builtins.float | None = None,
            scale: builtins.float | Sequence[builtins.float] | None = None,
            ratio: builtins.float | Sequence[builtins.float] | None = None,
            value: str | builtins.float | Sequence[builtins.float] | None = None,
            count: builtins.int | None = None) -> Chain:
        """a rectangle replaced, at random; after normalize in its units
        p: how often; default 0.5
        scale: least and most share of the picture's area; default (0.02, 0.33)
        ratio: least and most height / width; default (0.3, 3.3)
        value: one number, three, or random: after normalize normal noise, before it any of 0..255; color: the same, one for each rectangle; default 0
        count: up to so many rectangles, which share the area; default 1
        """

    def rand_augment(self,
            n: builtins.int | None = None,
            m: builtins.int | None = None,
            bins: builtins.int | None = None,
            interpolation: str | None = None,
            fill: builtins.float | Sequence[builtins.float] | None = None,
            p: builtins.float | None = None) -> Chain:
        """n of fourteen ops at one strength
        n: ops one after the other; default 2
        m: how strong each is: a bin; default 9
        bins: of strength; default 31
        interpolation: nearest or bilinear, where pixels move; default nearest
        fill: what comes in from outside: one number or three; default 0
        p: how often; default 1
        """

    def trivial_augment(self,
            bins: builtins.int | None = None,
            interpolation: str | None = None,
            fill: builtins.float | Sequence[builtins.float] | None = None,
            p: builtins.float | None = None) -> Chain:
        """one of fourteen ops at any strength
        bins: of strength, of which one is drawn; default 31
        interpolation: nearest or bilinear, where pixels move; default nearest
        fill: what comes in from outside: one number or three; default 0
        p: how often; default 1
        """

    def auto_augment(self,
            policy: str | None = None,
            interpolation: str | None = None,
            fill: builtins.float | Sequence[builtins.float] | None = None,
            p: builtins.float | None = None) -> Chain:
        """one of 25 learned pairs of ops
        policy: imagenet, cifar10 or svhn; default imagenet
        interpolation: nearest or bilinear, where pixels move; default nearest
        fill: what comes in from outside: one number or three; default 0
        p: how often; default 1
        """

    def timm_rand_augment(self,
            m: builtins.float | None = None,
            n: builtins.int | None = None,
            p: builtins.float | None = None,
            increasing: bool | None = None,
            transforms: str | None = None,
            mstd: builtins.float | None = None,
            mmax: builtins.float | None = None,
            fill: builtins.float | Sequence[builtins.float] | None = None,
            interpolation: str | None = None,
            translate: builtins.float | None = None) -> Chain:
        """timm's RandAugment: n of fifteen ops
        m: how strong each op is, of 10; default 10
        n: ops one after the other; default 2
        p: how often each of them is done; default 0.5
        increasing: all ops get stronger with m (inc1); default false
        transforms: all: fifteen, evenly; weights: by weight, each once; t3a, t3aw: timm's lists 3a and 3aw; default all
        mstd: deviation of m; above 100: m is drawn from 0 to m; default 0
        mmax: m is at most this; default 10
        fill: what comes in from outside: one number or three; default 128
        interpolation: bilinear, bicubic, or random: one of these for each op; default random
        translate: of a side, at m = 10; default 0.45
        """

    def timm_auto_augment(self,
            policy: str | None = None,
            mstd: builtins.float | None = None,
            mmax: builtins.float | None = None,
            fill: builtins.float | Sequence[builtins.float] | None = None,
            interpolation: str | None = None,
            translate: builtins.float | None = None) -> Chain:
        """timm's AutoAugment: one of 25 pairs of ops, or of three ops
        policy: v0, v0r, original, originalr or t3a; default v0
        mstd: deviation of m; above 100: m is drawn from 0 to m; default 0
        mmax: m is at most this; default 10
        fill: what comes in from outside: one number or three; default 128
        interpolation: bilinear, bicubic, or random: one of these for each op; default random
        translate: of a side, at m = 10; default 0.45
        """

    def timm_augmix(self,
            m: builtins.float | None = None,
            width: builtins.int | None = None,
            depth: builtins.int | None = None,
            mstd: builtins.float | None = None,
            mmax: builtins.float | None = None,
            fill: builtins.float | Sequence[builtins.float] | None = None,
            interpolation: str | None = None,
            translate: builtins.float | None = None) -> Chain:
        """timm's AugMix: several versions of a picture, mixed
        m: how strong each op is, of 10; default 3
        width: versions that are mixed; default 3
        depth: ops of each version; 0: 1 to 3, drawn; default 0
        mstd: deviation of m; above 100: m is drawn from 0 to m; default 1000
        mmax: m is at most this; default 10
        fill: what comes in from outside: one number or three; default 128
        interpolation: bilinear, bicubic, or random: one of these for each op; default random
        translate: of a side, at m = 10; default 0.3
        """

    def random_apply(self,
            steps: Chain | Sequence[Chain],
            p: builtins.float | None = None) -> Chain:
        """all of these ops or none, at random
        steps: the ops, as color_jitter(0.4) | grayscale(p=1)
        p: how often; default 0.5
        """

    def one_of(self,
            *steps: Chain,
            p: builtins.float | None = None) -> Chain:
        """one of these chains of ops, at random
        steps: chains of ops, of which one runs
        p: how often any of them does; default 1
        """

    def normalize(self,
            mean: str | builtins.float | Sequence[builtins.float],
            std: builtins.float | Sequence[builtins.float] | None = None) -> Chain:
        """(x / 255 - mean) / std for each channel; gives f32 unless `to` says otherwise
        mean: imagenet, half, clip, cifar10, or three numbers on the scale 0..1
        std: three numbers; goes with a mean in numbers
        """

    def patches(self,
            patch: str | builtins.float | Sequence[builtins.float],
            order: str | None = None,
            frames: builtins.int | None = None,
            channels: str | None = None,
            block: builtins.int | None = None) -> Chain:
        """cut the picture into patches: rows of (n, values)
        patch: side of a patch, or naflex, siglip2, qwen2_vl, qwen3_vl or kimi
        order: rows: row by row (timm, SigLIP2); blocks: Qwen's
        frames: 2: a picture is two equal frames (Qwen); 1
        channels: last: (y, x, c) inside a patch; first: (c, frame, y, x)
        block: with order=blocks: patches of a block's side; default 2
        """

    def to(self,
            dtype: str | None = None,
            layout: str | None = None,
            scale: bool | None = None) -> Chain:
        """element type and layout; comes last
        dtype: u8, f16, bf16 or f32; of numbers any type; of arrays also stored; absent: as it is
        layout: chw (absent: this), hwc or channels_last; of frames also cthw
        scale: float types without normalize: 0..255 to 0..1; of gray16 only if it is given; default true
        """

    def one_hot(self,
            classes: builtins.int,
            smoothing: builtins.float | None = None) -> Chain:
        """a class number as a row of zeros and a one, as f32
        classes: how many classes there are
        smoothing: label smoothing: so much of the weight goes to all classes; default 0
        """

    def multi_hot(self,
            classes: builtins.int,
            smoothing: builtins.float | None = None) -> Chain:
        """a list of class numbers as a row of zeros and ones, as f32
        classes: how many classes there are
        smoothing: label smoothing: so much of the weight goes to all classes; default 0
        """

    def truncate(self,
            n: builtins.int,
            keep: str | None = None) -> Chain:
        """cut rows of numbers that are longer than n
        n: the most values of a row, along its first dimension
        keep: which of them stay: first or last; default first
        """

    def image_tokens(self,
            pictures: str,
            token: builtins.int | None = None,
            merge: builtins.int | None = None,
            give: str | None = None,
            rule: str | None = None,
            ignore: builtins.int | None = None) -> Chain:
        """as many tokens for each picture as it has patches
        pictures: the output of `pictures` and `patches`
        token: the placeholder of a picture; default 151655
        merge: patches of a side that become one token; default 2
        give: tokens, labels, or positions of three axes (M-RoPE); default tokens
        rule: of positions: transformers or torchtitan; default transformers
        ignore: what labels have for a picture; default -100
        """

    def pack(self,
            block: builtins.int,
            fit: str | None = None,
            shift: builtins.int | None = None,
            give: str | None = None,
            pad: builtins.int | None = None,
            window: builtins.int | None = None) -> Chain:
        """several samples side by side in rows of `block` values; longer ones are cut
        block: values of a row
        fit: best or first; default best
        shift: how far after its begin a sample is taken: 1 gives the labels; default 0
        give: tokens (absent: these), positions, documents, mask
        pad: what fills rows; absent: 0, with shift -100
        window: samples of the epoch's order that are packed together; default 65536
        """

    def part(self,
            start: str | builtins.float | Sequence[builtins.float] | None = None,
            seconds: str | builtins.float | Sequence[builtins.float] | None = None,
            of: str | None = None) -> Chain:
        """some seconds of a recording, from a given second on
        start: seconds from the recording's start, or a field that says it; default 0
        seconds: how many, or a field that says it; absent: to its end
        of: instead of start and seconds: an output of clips; the part lasts as long as its frames are shown, with silence where there is no sound
        """

    def random_part(self,
            seconds: builtins.float) -> Chain:
        """some seconds of a recording, from a random place on
        seconds: how many; a shorter recording stays as it is
        """

    def resample(self,
            rate: builtins.int,
            filter: str | None = None) -> Chain:
        """a recording at another rate
        rate: samples per second
        filter: hq, or torchaudio; default hq
        """

    def speed(self,
            low: builtins.float,
            high: builtins.float | None = None,
            step: builtins.float | None = None) -> Chain:
        """play a recording faster or slower, by a factor that is drawn
        low: the least factor; 1.1: a tenth faster, and higher
        high: the greatest; absent: low alone
        step: between factors, of which one is drawn; default 0.1
        """

    def gain(self,
            low: builtins.float,
            high: builtins.float | None = None) -> Chain:
        """make a recording louder or softer
        low: dB
        high: dB: drawn from low to high; absent: low
        """

    def noise(self,
            from_: str,
            snr: builtins.float | Sequence[builtins.float] | None = None,
            p: builtins.float | None = None,
            field: str | None = None) -> Chain:
        """mix a recording of another data set into this one
        from: the data set of noises: a path, a folder, a glob
        snr: dB by which the row is louder; or (least, most); default (10, 20)
        p: how often; default 0.5
        field: of the recording; absent: the first that is sound
        """

    def reverb(self,
            from_: str,
            p: builtins.float | None = None,
            seconds: builtins.float | None = None,
            field: str | None = None) -> Chain:
        """a recording as a room answers it, by a response of another data set
        from: the data set of responses: a path, a folder, a glob
        p: how often; default 0.5
        seconds: of a response from its start on; absent: all, at most 60
        field: of the recording; absent: the first that is sound
        """

    def pad_to(self,
            seconds: builtins.float) -> Chain:
        """add silence up to so many seconds, so that rows stack
        seconds: of every row; silence is added at its end
        """

    def normalize_peak(self,
            peak: builtins.float | None = None) -> Chain:
        """make the loudest sample as loud as said
        peak: of the loudest sample; default 1
        """

    def preemphasis(self,
            factor: builtins.float | None = None) -> Chain:
        """take from each sample a part of the one before it
        factor: of the sample before; default 0.97
        """

    def fbank(self,
            bins: builtins.int | None = None,
            frame: builtins.float | None = None,
            hop: builtins.float | None = None,
            low: builtins.float | None = None,
            high: builtins.float | None = None,
            snip_edges: bool | None = None,
            scale: builtins.float | None = None) -> Chain:
        """Kaldi's log-mel filter bank: rows of (frames, bins)
        bins: mel bands; default 80
        frame: milliseconds of a frame; default 25
        hop: milliseconds between frames; default 10
        low: Hz, where bands begin; default 20
        high: Hz, where they end; 0 or less: so far from half the rate; default 0
        snip_edges: only whole frames; false: n / hop, mirrored; default true
        scale: of samples; 32768: as of 16-bit numbers; default 1
        """

    def log_mel(self,
            bins: builtins.int | None = None,
            preset: str | None = None,
            normalize: bool | None = None,
            fft: builtins.int | None = None,
            win: builtins.int | None = None,
            hop: builtins.int | None = None) -> Chain:
        """log-mel features as Whisper, NeMo or torchaudio define them: (frames, bins)
        bins: mel bands; default 80
        preset: whose definition: whisper, nemo or torchaudio; default whisper
        normalize: nemo: each band by its mean and deviation; default true
        fft: samples of a transform; absent: the preset's
        win: samples of a frame; absent: the preset's
        hop: samples between frames; absent: the preset's
        """

    def mfcc(self,
            n: builtins.int | None = None,
            bins: builtins.int | None = None,
            frame: builtins.float | None = None,
            hop: builtins.float | None = None,
            low: builtins.float | None = None,
            high: builtins.float | None = None,
            snip_edges: bool | None = None,
            scale: builtins.float | None = None,
            lifter: builtins.float | None = None) -> Chain:
        """Kaldi's cepstral coefficients, without energy: rows of (frames, n)
        n: coefficients; default 13
        bins: mel bands; default 23
        frame: milliseconds of a frame; default 25
        hop: milliseconds between frames; default 10
        low: Hz, where bands begin; default 20
        high: Hz, where they end; 0 or less: so far from half the rate; default 0
        snip_edges: only whole frames; false: n / hop, mirrored; default true
        scale: of samples; 32768: as of 16-bit numbers; default 1
        lifter: 0: none; default 22
        """

    def spectrogram(self,
            fft: builtins.int | None = None,
            win: builtins.int | None = None,
            hop: builtins.int | None = None,
            power: builtins.float | None = None) -> Chain:
        """the power spectrum of frames, as torchaudio has it: (frames, fft / 2 + 1)
        fft: samples of a transform; default 400
        win: samples of a frame; absent: fft
        hop: samples between frames; absent: fft / 2
        power: 2, or 1: its root; default 2
        """

    def spec_augment(self,
            time: builtins.int | None = None,
            freq: builtins.int | None = None,
            time_masks: builtins.int | None = None,
            freq_masks: builtins.int | None = None,
            share: builtins.float | None = None,
            fill: builtins.float | None = None) -> Chain:
        """mask bands of features in time and frequency
        time: frames of a mask, at most; default 100
        freq: bins of a mask, at most; default 27
        time_masks: how many masks in time; default 2
        freq_masks: how many masks in frequency; default 2
        share: of all frames, that a mask in time covers at most; default 1
        fill: what stands there; absent: the row's mean
        """
