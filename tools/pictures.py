# SPDX-License-Identifier: Apache-2.0
"""The picture of the README: a batch as the model sees it, of the demo's own photos (`make demo` makes them).

    .venv/bin/python tools/pictures.py
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIDE, COLUMNS, ROWS = 112, 8, 2


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


if __name__ == "__main__":
    batch()
