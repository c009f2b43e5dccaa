#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make corpus/chain: chains, sound and broken."""
import pathlib

HERE = pathlib.Path(__file__).parent / "chain"

SEEDS = {
    "train": "from(jpg, jpeg, png) | image | random_resized_crop(224) | hflip | normalize(imagenet) | to(f32)",
    "eval": "image | resize(256) | center_crop(224) | to(u8, layout=hwc)", "label": "from(cls) | int", "float": "float",
    "text": "from('a b', \"c\") | text", "json": "json(a.b) | int", "bytes": "bytes",
    "numbers": "image | normalize((0.5, .5, 5e-1), (0.1, 1e3, +2)) | to(bf16, channels_last)",
    "tuple": "image | resize((100, 200)) | center_crop([1, 2],)", "args": "image | random_resized_crop(8, scale=(0.08, 1), ratio=(0.75, 1.3))",
    "names": "from(names=jpg) | image", "between": "from(a, names=b, c) | bytes", "empty": "", "blank": " \t ",
    "unknown": "image | resise(3)", "open": "image | resize((1, 2", "string": "from('abc", "twice": "image | to(u8) | to(f32)",
    "order": "resize(3) | image", "late": "image | from(x)", "huge": "image | resize(99999999999999999999)",
    "large": "image | resize((65535, 65535)) | to(f32)", "negative": "image | center_crop(-1)", "inf": "image | normalize(1e999, 1e-999)",
    "nan": "image | hflip(p=nan)", "many": "|".join(["hflip"] * 40), "pipes": "|" * 50, "deep": "(" * 200, "commas": "from(" + "," * 99,
    "wide": "from(" + ",".join("abcdefghijklmnopqrstuvwxyz") + ") | bytes", "control": "image\n|\x01resize(\x7f)", "latin": "image | r\xe9size",
    "nested": "image | apply(hflip(0.5) | resize(8)) | one_of(hflip, apply([a(), b(1)]), c('x|y)')) | to(u8)",
    "nested_deep": "a(" * 9 + "1" + ")" * 9, "nested_open": "image | apply(hflip(", "nested_string": "one_of('a(1)', \"b",
    "digits": "image | resize(" + "2" * 100 + ")",
    "dino": "image | views(8) | random_resized_crop(96, scale=(0.05, 0.32), interpolation=bicubic) | hflip | color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8) | "
            "grayscale(p=0.2) | gaussian_blur(23, sigma=(0.1, 2), p=0.5) | solarize(128, p=0.2) | normalize(imagenet) | to(f16)",
    "simclr": "from(jpg) | image | views(2) | random_resized_crop(8) | random_apply(color_jitter(0.8, 0.8, 0.8, 0.2), p=0.8) | vflip | to(u8)",
    "train2": "image | resize(9, max_size=20, antialias=false) | random_crop(8, padding=(1, 2, 3, 4), pad_if_needed=true, padding_mode=reflect) | rand_augment(2, 9) | "
              "normalize(half) | random_erasing(0.25, value=random) | to(bf16)",
    "policies": "image | trivial_augment | auto_augment(svhn) | one_of(invert(p=1), equalize(p=1) | autocontrast(p=1), posterize((2, 6)), sharpness(2)) | resize((8, 8))",
    "warps": "image | rotate((30, 30), fill=(1, 2, 3)) | affine(20, translate=(0.1, 0.2), scale=(0.5, 1.5), shear=(-9, 9, 1, 2)) | perspective(0.6, p=0.8) | letterbox((8, 9))",
    "pixels": "image | brightness((0.5, 2)) | contrast(0.5) | saturation(9) | hue(0.5) | hsv(0.1, 0.5, 0.5) | channel_shuffle | gaussian_noise(0, sigma=(0, 1)) | "
              "jpeg_artifacts((1, 100)) | resize((67, 1), interpolation=lanczos)",
    "boxes": "image | zoom_out((1, 4), p=1) | iou_crop(b, scale=(0.1, 1), options=(0, 0.5), trials=3) | hflip | iou_crop(b)",
    "boxes_views": "image | scale_jitter((20, 30)) | views(3) | iou_crop(b) | resize((8, 8))", "crops": "image | resize((9, 9)) | ten_crop((4, 5))",
    "five": "image | five_crop(3) | to(u8, hwc)", "gray": "image(mode=gray) | resize((3, 4)) | to(i64)", "index": "image(mode=index) | pad((1, 2), fill=255) | resize((3, 3))",
    "like": "from(json) | json(boxes) | floats(shape=(-1, 4)) | like(image, format=cxcywh, normalized=true, min_visible=0.5, view=1)",
    "points": "floats(shape=(-1, 17, 3)) | like(image, points=true, flip_idx='0 2 1')", "mask": "image(mode=index) | like(image, interpolation=nearest, fill=9) | to(i32)",
    "hot": "int | one_hot(1000)", "hots": "ints | multi_hot(7) | to(f32)", "shapes": "ints(shape=(2, 3)) | to(i16)", "no_views": "image | views(0) | resize((2, 2))",
    "views_late": "image | resize((2, 2)) | normalize(half) | views(2)", "apply_nothing": "image | random_apply(p=0.5) | one_of()",
    "apply_deep": "image | random_apply(one_of(random_apply(invert, p=1), one_of(hflip, rotate(9) | vflip)), p=0.5) | resize((2, 2))",
    "mixing": "mixup_cutmix(image, label, mixup=0.8, cutmix=1.0, switch=0.5) | label_smoothing(label, 0.1)",
}


def main():
    HERE.mkdir(exist_ok=True)
    for name, text in SEEDS.items():
        (HERE / name).write_bytes(text.encode("latin-1"))


if __name__ == "__main__":
    main()
