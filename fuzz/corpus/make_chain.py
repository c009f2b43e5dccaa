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
}


def main():
    HERE.mkdir(exist_ok=True)
    for name, text in SEEDS.items():
        (HERE / name).write_bytes(text.encode("latin-1"))


if __name__ == "__main__":
    main()
