# SPDX-License-Identifier: Apache-2.0
"""The pictures of the pages, made by Stoker itself.

    .venv/bin/python tools/page_pictures.py batch    docs/img/batch.jpg: a batch as the model sees it, of the demo's own photos (`make demo` makes them)
    .venv/bin/python tools/page_pictures.py ops      docs/img/ops/NAME.jpg: a scene that is drawn here, before and after each op of pictures
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIDE, COLUMNS, ROWS = 112, 8, 2
HEIGHT, GAP = 120, 8            # of a tile; between two

# op -> steps that show it.  What is drawn is drawn for certain (p=1), so that the picture shows something.
SHOWN = {
    "resize": "resize((90, 90))",
    "center_crop": "center_crop(100)",
    "random_resized_crop": "random_resized_crop(120, scale=(0.1, 0.3))",
    "resize_to_patches": "resize_to_patches(16, max_patches=35)",
    "random_resized_crop_to_patches": "random_resized_crop_to_patches(16, max_patches=40)",
    "resize_to_bucket": 'resize_to_bucket("96x160", "128x128", "160x96")',
    "hflip": "hflip(p=1)",
    "vflip": "vflip(p=1)",
    "pad": "pad((30, 10), fill=200)",
    "random_crop": "random_crop(100)",
    "letterbox": "letterbox(120)",
    "scale_jitter": "scale_jitter(120, scale=(0.4, 0.8)) | random_crop(120, pad_if_needed=true)",
    "random_shortest_size": "random_shortest_size((40, 60, 80), max_size=200)",
    "zoom_out": "zoom_out(p=1, fill=120)",
    "views": "views(3) | random_resized_crop(100) | hflip | color_jitter(0.4, 0.4, 0.4, 0.1)",
    "five_crop": "five_crop(80)",
    "ten_crop": "ten_crop(60)",
    "rotate": "rotate((20, 20))",
    "affine": "affine(15, translate=(0.1, 0.1), scale=(0.7, 0.9), shear=10)",
    "perspective": "perspective(0.5, p=1)",
    "color_jitter": "color_jitter(0.6, 0.6, 0.6, 0.2)",
    "brightness": "brightness((1.6, 1.6))",
    "contrast": "contrast((1.8, 1.8))",
    "saturation": "saturation((2.5, 2.5))",
    "hue": "hue((0.3, 0.3))",
    "grayscale": "grayscale(p=1)",
    "solarize": "solarize(128, p=1)",
    "posterize": "posterize(2, p=1)",
    "autocontrast": "brightness((0.4, 0.4)) | autocontrast(p=1)",
    "equalize": "equalize(p=1)",
    "invert": "invert(p=1)",
    "channel_shuffle": "channel_shuffle(p=1)",
    "hsv": "hsv(0.2, 0.7, 0.4)",
    "gaussian_blur": "gaussian_blur(15, sigma=(3, 3), p=1)",
    "sharpness": "sharpness(6, p=1)",
    "gaussian_noise": "gaussian_noise(sigma=(0.15, 0.15))",
    "jpeg_artifacts": "jpeg_artifacts((5, 5), p=1)",
    "random_erasing": "random_erasing(1, value=random)",
    "rand_augment": "rand_augment(3, 15)",
    "trivial_augment": "trivial_augment",
    "auto_augment": "auto_augment(imagenet)",
    "timm_rand_augment": "timm_rand_augment(9, mstd=0.5, increasing=true, fill=(124, 116, 104))",
    "timm_auto_augment": "timm_auto_augment(original, mstd=0.5)",
    "timm_augmix": "timm_augmix(5, width=3, fill=(124, 116, 104))",
    "random_apply": "random_apply(gaussian_blur(9, sigma=(2, 2)), p=1)",
    "one_of": "one_of(equalize(p=1), solarize(128, p=1) | invert(p=1))",
}
SEEDS = {"auto_augment": 3, "timm_auto_augment": 1}     # of 7, where that draws what hardly shows
BEFORE = {"autocontrast": "brightness((0.4, 0.4))"}     # steps that come first, so that there is something to see


def batch():
    from PIL import Image

    import stoker
    shards = str(ROOT / "demo-data/shards/train-{000000..000003}.tar")
    chain = f"from(jpg) | image | random_resized_crop({SIDE}) | hflip | to(u8, hwc)"
    with stoker.Loader(shards, {"image": chain}, batch_size=COLUMNS * ROWS, shuffle=True) as loader:
        images = next(iter(loader))["image"].numpy()
    sheet = Image.new("RGB", (COLUMNS * SIDE, ROWS * SIDE))
    for i, pixels in enumerate(images):
        sheet.paste(Image.fromarray(pixels), (i % COLUMNS * SIDE, i // COLUMNS * SIDE))
    sheet.save(ROOT / "docs/img/batch.jpg", quality=85)


def scene():
    """A house by a lake: something with a left, a right, an up, many colors and fine lines."""
    from PIL import Image, ImageDraw
    w, h, f = 180, HEIGHT, 4
    made = Image.new("RGB", (w * f, h * f))
    draw = ImageDraw.Draw(made)
    for y in range(h * f):
        t = y / (h * f)
        draw.line((0, y, w * f, y), fill=(int(90 + 150 * t), int(150 + 70 * t), int(235 - 60 * t)))

    def shape(points, color):
        draw.polygon([(x * f, y * f) for x, y in points], fill=color)
    draw.ellipse((132 * f, 12 * f, 158 * f, 38 * f), fill=(255, 214, 70))
    shape([(0, 70), (30, 38), (58, 66), (84, 30), (124, 74), (180, 52), (180, 90), (0, 90)], (92, 108, 140))
    shape([(84, 30), (76, 41), (84, 44), (90, 40), (95, 43)], (245, 245, 250))
    shape([(0, 78), (180, 72), (180, 120), (0, 120)], (86, 140, 62))
    shape([(96, 92), (180, 84), (180, 120), (110, 120)], (52, 110, 170))
    shape([(22, 66), (72, 66), (72, 104), (22, 104)], (196, 84, 60))
    shape([(16, 68), (47, 44), (78, 68)], (110, 46, 40))
    shape([(30, 74), (42, 74), (42, 86), (30, 86)], (250, 236, 150))
    shape([(53, 80), (64, 80), (64, 104), (53, 104)], (70, 48, 40))
    for x in range(100, 178, 6):
        draw.line((x * f, 100 * f, (x + 3) * f, 100 * f), fill=(190, 215, 235), width=f // 2)
    for x in range(0, 96, 5):
        draw.line((x * f, 110 * f, x * f, 118 * f), fill=(235, 230, 220), width=f // 2)
    draw.line((0, 113 * f, 95 * f, 113 * f), fill=(235, 230, 220), width=f // 2)
    return made.resize((w, h), Image.Resampling.LANCZOS)


def tiles(pixels):
    """A picture, or views of one, as tiles of HEIGHT at the most."""
    from PIL import Image
    for one in pixels if pixels.ndim == 4 else [pixels]:
        tile = Image.fromarray(one)
        tile.thumbnail((10 * HEIGHT, HEIGHT if pixels.ndim == 3 else HEIGHT * 3 // 4))
        yield tile


def ops():
    import numpy
    from PIL import Image

    import stoker
    folder = ROOT / "docs/img/ops"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        scene().save(f"{place}/scene.png")
        for name, steps in SHOWN.items():
            fields = {"after": f"from(png) | image | {steps} | to(u8, hwc)",
                      "before": " | ".join(filter(None, ["from(png) | image", BEFORE.get(name), "to(u8, hwc)"]))}
            with stoker.Loader(place, fields, seed=SEEDS.get(name, 7), collate="list", num_workers=0) as loader:
                made = next(iter(loader))
            row = [tile for key in ("before", "after") for tile in tiles(numpy.asarray(made[key][0]))]
            sheet = Image.new("RGB", (sum(t.width + GAP for t in row) - GAP, HEIGHT), "white")
            at = 0
            for tile in row:
                sheet.paste(tile, (at, (HEIGHT - tile.height) // 2))
                at += tile.width + GAP
            sheet.save(folder / f"{name}.jpg", quality=80)


if __name__ == "__main__":
    {"batch": batch, "ops": ops}[sys.argv[1]]()
