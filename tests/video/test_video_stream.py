# SPDX-License-Identifier: Apache-2.0
"""What a GPU's decoder is given: the packets of a clip as a byte stream, and what its headers say, against FFmpeg."""
import json
import subprocess
import zlib

import pytest

from made_video import FFMPEG, decoded, dump, make, needs_ffmpeg

pytestmark = needs_ffmpeg
MATRIX = {"gbr": 0, "bt709": 1, "unknown": 2, "bt470bg": 5, "smpte170m": 6, "bt2020nc": 9}
SITING = {"unspecified": 0, "left": 1, "center": 2, "topleft": 3, "top": 4}
CHROMA = {"gray": 0, "yuv420p": 1, "yuvj420p": 1, "yuv420p10le": 1, "yuv422p": 2, "yuv444p": 3}
RAW = {"h264": "h264", "hevc": "hevc"}


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    return lambda name: make(folder, name)


def stream_of(path):
    p = subprocess.run([FFMPEG.replace("ffmpeg", "ffprobe"), "-v", "error", "-select_streams", "v:0", "-show_streams", "-of", "json", str(path)],
                       check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
    return json.loads(p.stdout)["streams"][0]


def frames_of(data, codec, fmt):
    """CRCs of all frames of a byte stream."""
    w, h, pix = fmt
    raw = subprocess.run([FFMPEG, "-v", "error", "-threads", "1", "-f", RAW[codec], "-i", "-", "-vsync", "passthrough", "-f", "rawvideo",
                          "-pix_fmt", pix, "-"], input=data, check=True, capture_output=True, timeout=300).stdout
    size = w * h * 3 // 2 * (2 if "10" in pix else 1)
    return {zlib.crc32(raw[i:i + size]) for i in range(0, len(raw), size)}


@pytest.mark.parametrize("name", ["gop12.mp4", "gop250.mp4", "sound.mkv", "hevc.mp4", "hevc10.mkv", "full.mp4", "ten.mp4", "odd.mp4", "422.mp4",
                                  "gray.mp4", "odd.webm", "vp9.webm", "interlaced.mp4"])
def test_stream(videos, name):
    path = videos(name)
    said = stream_of(path)
    head, shown, _ = dump(path)
    clips = [list(range(first, min(first + 8, len(shown)))) for first in (0, 5, len(shown) - 4)]
    got = dump(path, [("stream", clip) for clip in clips])[2]
    crc = [c for _, c in decoded(path)]
    for clip, line in zip(clips, got):
        assert isinstance(line, list), line
        w, h, bits, chroma, matrix, full, siting, fields, data = line
        assert (w, h) == (said["width"], said["height"])
        assert bits == int(said.get("bits_per_raw_sample", 8)) or said["codec_name"] != "h264"
        assert bits == (10 if "10" in said["pix_fmt"] else 8)
        assert chroma == (0 if name == "gray.mp4" else CHROMA[said["pix_fmt"]])
        assert matrix == MATRIX[said.get("color_space", "unknown")]
        assert full == (said.get("color_range") == "pc")
        assert siting == 0 or siting == SITING[said.get("chroma_location", "unspecified")]
        assert fields == (name == "interlaced.mp4")
        if said["codec_name"] in RAW and chroma == 1:
            assert {crc[i] for i in clip} <= frames_of(bytes.fromhex(data), said["codec_name"], (w, h, said["pix_fmt"]))


@pytest.mark.parametrize("name, frames, why", [
    ("open.mp4", range(14, 20), "frames before their keyframe"), ("refresh.mp4", range(30, 36), "a keyframe that is none"),
    ("vp8.webm", range(4), "VP8"), ("asp.mp4", range(4), "MPEG-4")])
def test_left_to_the_cpu(videos, name, frames, why):
    _, _, got = dump(videos(name), [("stream", frames)])
    assert isinstance(got[0], str) and why in got[0], got
