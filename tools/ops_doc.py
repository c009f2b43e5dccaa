#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the reference part of docs/chains.md from `stoker ops --json`.

    tools/ops_doc.py           rewrite the page
    tools/ops_doc.py --check   exit 1 when the page is not current

What stands between the two markers is made from the registry; the rest of the page is written by hand.  Every step has
one example here; tests/docs plans each of them.
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "chains.md"
BEGIN, END = "<!-- begin: written by tools/ops_doc.py -->\n", "<!-- end -->\n"
EXAMPLES = {
    "image": "from(jpg, png, webp) | image(exif=true)",
    "video": "from(mp4) | video(frames=16, stride=4) | random_resized_crop(224)",
    "int": "from(cls) | int",
    "float": "from(json) | json(score) | float",
    "ints": "from(json) | json(ids) | ints",
    "floats": "from(json) | json(boxes) | floats(shape=(-1, 4))",
    "text": "from(txt) | text",
    "bytes": "from(jpg) | bytes",
    "masks": "from(masks) | masks",
    "class_map": "from(masks) | class_map | image(mode=index)",
    "json": "from(json) | json(boxes.0.label) | text",
    "npy": "from(npy) | npy(shape=(3, 4), dtype=f32)",
    "raw": "from(bin) | raw(f32, shape=(3, 4))",
    "vocab": "from(cls) | vocab('names.txt')",
    "gunzip": "from('txt.gz') | gunzip | text",
    "unzstd": "from('txt.zst') | unzstd | text",
    "unlz4": "from('txt.lz4') | unlz4 | text",
    "open": "from(path) | open(root='photos') | image",
    "tokens": "tokens(block=1024, shift=1) | to(i32)",
    "resize": "from(jpg) | image | resize((224, 320))",
    "center_crop": "from(jpg) | image | resize(256) | center_crop(224)",
    "random_resized_crop": "from(jpg) | image | random_resized_crop(224, scale=(0.2, 1))",
    "resize_to_patches": "from(jpg) | image | resize_to_patches(16, max_patches=576)",
    "random_resized_crop_to_patches": "from(jpg) | image | random_resized_crop_to_patches(16, max_patches=576)",
    "resize_to_bucket": "from(jpg) | image | resize_to_bucket(area=262144, step=64)",
    "patches": "from(jpg) | image | resize_to_patches(qwen2_vl) | normalize(clip) | patches(qwen2_vl) | to(bf16)",
    "pictures": "from(jpg) | pictures | resize_to_patches(qwen2_vl) | normalize(clip) | patches(qwen2_vl) | to(bf16)",
    "image_tokens": "from(json) | json(ids) | ints | image_tokens(pixel_values, token=151655, merge=2)",
    "hflip": "from(jpg) | image | random_resized_crop(224) | hflip(p=0.5)",
    "vflip": "from(jpg) | image | resize((64, 64)) | vflip(p=0.5)",
    "pad": "from(jpg) | image | resize((64, 64)) | pad((4, 8), fill=128)",
    "random_crop": "from(jpg) | image | random_crop(32, padding=4, padding_mode=reflect)",
    "letterbox": "from(jpg) | image | letterbox(640)",
    "scale_jitter": "from(jpg) | image | scale_jitter(1024, scale=(0.1, 2)) | random_crop(1024, pad_if_needed=true)",
    "random_shortest_size": "from(jpg) | image | random_shortest_size((480, 512, 544), max_size=1333)",
    "zoom_out": "from(jpg) | image | zoom_out(p=0.5) | random_resized_crop(300)",
    "iou_crop": "from(jpg) | image | iou_crop(boxes) | resize((300, 300))",
    "like": "from(json) | json(boxes) | floats(shape=(-1, 4)) | like(image, format=xywh)",
    "views": "from(jpg) | image | views(2) | random_resized_crop(224) | hflip",
    "five_crop": "from(jpg) | image | resize((64, 64)) | five_crop(48)",
    "ten_crop": "from(jpg) | image | resize((64, 64)) | ten_crop(48)",
    "rotate": "from(jpg) | image | resize((64, 64)) | rotate(30)",
    "affine": "from(jpg) | image | resize((64, 64)) | affine(10, translate=(0.1, 0.1), scale=(0.9, 1.1), shear=5)",
    "perspective": "from(jpg) | image | resize((64, 64)) | perspective(0.3, p=0.5)",
    "color_jitter": "from(jpg) | image | random_resized_crop(224) | color_jitter(0.4, 0.4, 0.4, 0.1)",
    "brightness": "from(jpg) | image | resize(256) | brightness(0.3)",
    "contrast": "from(jpg) | image | resize(256) | contrast((0.5, 1.5), p=0.8)",
    "saturation": "from(jpg) | image | resize(256) | saturation(0.5)",
    "hue": "from(jpg) | image | resize(256) | hue(0.1)",
    "grayscale": "from(jpg) | image | resize(256) | grayscale(p=0.2)",
    "solarize": "from(jpg) | image | resize(256) | solarize(128, p=0.2)",
    "posterize": "from(jpg) | image | resize(256) | posterize(4)",
    "autocontrast": "from(jpg) | image | resize(256) | autocontrast(p=0.5)",
    "equalize": "from(jpg) | image | resize(256) | equalize(p=0.5)",
    "invert": "from(jpg) | image | resize(256) | invert(p=0.1)",
    "channel_shuffle": "from(jpg) | image | resize(256) | channel_shuffle(p=0.1)",
    "hsv": "from(jpg) | image | resize(256) | hsv(0.015, 0.7, 0.4)",
    "gaussian_blur": "from(jpg) | image | resize(256) | gaussian_blur(9, sigma=(0.1, 2), p=0.5)",
    "sharpness": "from(jpg) | image | resize(256) | sharpness(2, p=0.5)",
    "gaussian_noise": "from(jpg) | image | resize(256) | gaussian_noise(sigma=(0, 0.1))",
    "jpeg_artifacts": "from(jpg) | image | resize(256) | jpeg_artifacts((30, 90), p=0.5)",
    "random_erasing": "from(jpg) | image | resize((224, 224)) | normalize(imagenet) | random_erasing(0.25, value=random)",
    "rand_augment": "from(jpg) | image | random_resized_crop(224) | hflip | rand_augment(2, 9)",
    "trivial_augment": "from(jpg) | image | random_resized_crop(224) | hflip | trivial_augment",
    "timm_rand_augment": "from(jpg) | image | random_resized_crop(224, interpolation=random) | hflip | timm_rand_augment(9, mstd=0.5, increasing=true, fill=(124, 116, 104))",
    "timm_auto_augment": "from(jpg) | image | random_resized_crop(224, interpolation=random) | hflip | timm_auto_augment(original, mstd=0.5)",
    "timm_augmix": "from(jpg) | image | random_resized_crop(224) | hflip | timm_augmix(5, width=3, fill=(124, 116, 104))",
    "auto_augment": "from(jpg) | image | random_resized_crop(224) | hflip | auto_augment(imagenet)",
    "random_apply": "from(jpg) | image | resize(256) | random_apply(color_jitter(0.8, 0.8, 0.8, 0.2), p=0.8)",
    "one_of": "from(jpg) | image | resize(256) | one_of(equalize(p=1), solarize(128, p=1) | invert(p=1))",
    "normalize": "from(jpg) | image | center_crop(224) | normalize(imagenet)",
    "to": "from(jpg) | image | center_crop(224) | to(f16, layout=channels_last)",
    "sound": "from(flac, wav, mp3) | sound(rate=16000)",
    "part": "from(flac) | sound(rate=16000) | part(1.5, 3.0)",
    "random_part": "from(flac) | sound(rate=16000) | random_part(12.0)",
    "resample": "from(flac) | sound(rate=16000) | resample(8000)",
    "speed": "from(flac) | sound(rate=16000) | speed(0.9, 1.1)",
    "gain": "from(flac) | sound(rate=16000) | gain(-6, 6)",
    "noise": "from(flac) | sound(rate=16000) | noise(from=\"musan/*.tar\", snr=(10, 20), p=0.5)",
    "reverb": "from(flac) | sound(rate=16000) | reverb(from=\"rirs/*.tar\", p=0.5)",
    "pad_to": "from(flac) | sound(rate=16000) | part(0, 30.0) | pad_to(30.0)",
    "normalize_peak": "from(flac) | sound(rate=16000) | normalize_peak",
    "preemphasis": "from(flac) | sound(rate=16000) | preemphasis(0.97)",
    "fbank": "from(flac) | sound(rate=16000) | fbank(80)",
    "log_mel": "from(flac) | sound(rate=16000) | log_mel(80, preset=whisper)",
    "mfcc": "from(flac) | sound(rate=16000) | mfcc(13)",
    "spectrogram": "from(flac) | sound(rate=16000) | spectrogram(fft=512, hop=160)",
    "spec_augment": "from(flac) | sound(rate=16000) | fbank(80) | spec_augment(time=100, freq=27)",
    "call": "from(jpg) | image | resize(256) | call(mymodule.myfunction) | to(f32)",
    "one_hot": "from(cls) | int | one_hot(1000, smoothing=0.1)",
    "multi_hot": "from(json) | json(tags) | ints | multi_hot(80)",
    "truncate": "from(npy) | npy | truncate(512)",
    "pack": "from(npy) | npy | pack(block=2048, shift=1) | to(i32)",
}
HEADS = {
    "codecs": ("Codecs", "The head of a chain: a field's bytes become text, a value, an array or a picture."),
    "ops": ("Ops", "What follows `image`. Crops, resizes and mirrors move no pixel: they turn the view, and one pass samples it. Ops that "
            "change pixels work on what that pass made ([augment.md](augment.md)). `truncate`, `pack`, `image_tokens`, `one_hot` "
            "and `multi_hot` follow numbers, `to` both."),
    "decoders": ("Decoders", "What `image` finds in the bytes, whatever the field is called."),
}


def signature(step):
    args = [a["name"] if a.get("default") is None else f"{a['name']}={a['default']}" for a in step.get("args", [])]
    return step["name"] + (f"({', '.join(args)})" if args else "")


def entry(step):
    lines = [f"### `{signature(step)}`", "", step["help"][0].upper() + step["help"][1:] + ".", ""]
    for a in step.get("args", []):
        must = " (required)" if a.get("required") else ""
        lines.append(f"- `{a['name']}`, {a['type'].replace('|', ' or ')}: {a['help']}{must}")
    if step.get("args"):
        lines.append("")
    lines += ["```", EXAMPLES[step["name"]], "```", ""]
    if (PAGE.parent / f"img/ops/{step['name']}.jpg").exists():      # tools/page_pictures.py ops
        lines += [f"![a picture before and after {step['name']}](img/ops/{step['name']}.jpg)", ""]
    return lines


def reference(registry):
    lines = []
    for kind, (title, about) in HEADS.items():
        lines += [f"## {title}", "", about, ""]
        for step in registry[kind]:
            lines += [f"- `{step['name']}`: {step['help']}"] if kind == "decoders" else entry(step)
    return "\n".join(lines).rstrip("\n") + "\n"


def page(cli):
    registry = json.loads(subprocess.run([cli, "ops", "--json"], capture_output=True, check=True, text=True).stdout)
    lacking = [s["name"] for kind in ("codecs", "ops") for s in registry[kind] if s["name"] not in EXAMPLES]
    if lacking:
        sys.exit(f"ops_doc: no example for {', '.join(lacking)}: add one to EXAMPLES in tools/ops_doc.py")
    text = PAGE.read_text()
    head, rest = text.split(BEGIN)
    return head + BEGIN + reference(registry) + END + rest.split(END)[1]


def main():
    cli = os.environ.get("STOKER_CLI", str(ROOT / "build" / "cli" / "stoker"))
    text = page(cli)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
    elif text != PAGE.read_text():
        sys.exit("docs/chains.md is not current: run tools/ops_doc.py")


if __name__ == "__main__":
    main()
