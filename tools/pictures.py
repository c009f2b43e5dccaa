# SPDX-License-Identifier: Apache-2.0
"""The pictures of the README: a batch as the model sees it, and the measured rates as bars.

    .venv/bin/python tools/pictures.py [bench/results/NAME.json]

The batch is of the demo's own photos (`make demo` makes them); the bars are of a kept bench result.
"""

import json
import re
import sys
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


def rate(line):
    return float(re.match(r"[\d.]+", line["value"])[0])


def bars(result):
    lines = json.loads(result.read_text())["lines"]
    named = {line["what"].strip(): rate(line) for line in lines if line["value"].endswith("/s")}
    rows = [(label, max(v for k, v in named.items() if k.startswith(start))) for label, start in (
        ("bare libjpeg-turbo loop, decode only", "bare libjpeg-turbo"),
        ("Stoker, finished batches", "photos, RandomResizedCrop"),
        ("PyTorch DataLoader + Pillow", "DataLoader"))]
    most = max(value for _, value in rows)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="640" height="128" '
           'font-family="sans-serif" font-size="13">',
           '<rect width="640" height="128" fill="#ffffff"/>']
    for i, (label, value) in enumerate(rows):
        y, fill = 14 + i * 36, "#c2571a" if label.startswith("Stoker") else "#9aa3ad"
        out += [f'<rect x="250" y="{y}" width="{300 * value / most:.0f}" height="24" fill="{fill}"/>',
                f'<text x="240" y="{y + 17}" text-anchor="end" fill="#222">{label}</text>',
                f'<text x="{258 + 300 * value / most:.0f}" y="{y + 17}" fill="#222">{value:,.0f}/s</text>']
    out += ["</svg>", ""]
    (ROOT / "docs/img/rates.svg").write_text("\n".join(out))


if __name__ == "__main__":
    batch()
    if len(sys.argv) > 1:
        bars(Path(sys.argv[1]))
