# SPDX-License-Identifier: Apache-2.0
"""tools/against_pillow.py says nothing of pictures that are the same, and sees each difference there is."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]


def run(folder, *args):
    build = Path(os.environ.get("STOKER_BUILD", ROOT / "build"))
    env = {**os.environ, "PYTHONPATH": f"{build / 'python'}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, ROOT / "tools/against_pillow.py", folder, *args], capture_output=True, text=True, timeout=120, env=env)
    assert done.stderr == "" or done.returncode == 2, done.stderr
    return done.returncode, done.stdout


def made(seed, width=40, height=30):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "pictures"
    (folder / "deeper").mkdir(parents=True)
    for i, options in enumerate(({}, {"progressive": True}, {"subsampling": 0}, {"quality": 30})):
        made(i).save(folder / f"{i}.jpg", **options)
    exif = Image.Exif()
    exif[0x112] = 6
    made(5).save(folder / "deeper/turned.jpg", exif=exif)
    made(6).convert("P").save(folder / "deeper/palette.png")
    made(7).convert("L").save(folder / "gray.webp", lossless=True)
    (folder / "notes.txt").write_text("no picture")
    (folder / "cut.jpg").write_bytes((folder / "0.jpg").read_bytes()[:700])  # both refuse
    return folder


def test_the_same(folder):
    code, out = run(folder)
    assert (code, out) == (0, "8 pictures (6 JPEG, 1 PNG, 1 WEBP): 0 differences\n")


def test_nothing_there(tmp_path):
    assert run(tmp_path)[0] == 2


def test_what_differs_is_seen(folder):
    made(8).save(folder / "a\x1b[2J.gif")
    frames = [Image.new("RGB", (9, 9), (50 * i, 0, 0)) for i in range(3)]
    frames[0].save(folder / "moving.webp", save_all=True, append_images=frames[1:])
    out = io.BytesIO()
    made(9).save(out, "JPEG")
    data = bytearray(out.getvalue())
    at = data.index(b"\xff\xc0")
    data[at + 1], data[at + 4] = 0xC1, 12
    (folder / "deep.jpg").write_bytes(data)  # which Pillow refuses too
    code, out = run(folder)
    assert code == 1 and "\x1b" not in out
    assert "Pillow opens, we refuse: 2\n" in out and "a\\x1b[2J.gif" in out and "moving.webp" in out
    assert re.search(r"1  GIF: unsupported: a GIF picture", out) and re.search(r"1  WEBP: unsupported: .*anim", out)
    assert "we open, Pillow refuses" not in out and "pixels differ" not in out and "disagree" not in out
    assert out.splitlines()[-1].startswith("11 pictures (1 GIF, ") and out.endswith(": 2 differences\n")


def test_each_kind_of_difference():
    """What no file of ours shows: pixels, sizes and turns that differ, and opinions."""
    sys.path[:0] = [str(ROOT / "tools"), str(Path(os.environ.get("STOKER_BUILD", ROOT / "build")) / "python")]
    tool = pytest.importorskip("against_pillow")
    a, b = np.zeros((4, 6, 3), np.uint8), np.full((4, 6, 3), 2, np.uint8)
    turned = a.transpose(1, 0, 2)

    def titles(*args):
        return [what for what, _ in tool.differences(*args)]

    assert titles((a, a), None, (a, a), 0) == [] == titles((a, a), None, (b, b), 2)
    assert titles((a, a), None, (b, b), 1) == ["pixels differ"]
    assert titles((a, a), None, (turned, turned), 0) == ["sizes differ"]
    assert titles((a, a), None, (a, turned), 0) == ["EXIF turns differ"]
    assert titles((a, a), None, "OSError: x", 0) == ["we open, Pillow refuses"]
    assert titles(None, "bad: x", (a, a), 0) == ["Pillow opens, we refuse"]
    assert titles(None, None, "OSError: x", 0) == titles((a, a), "bad: x", (a, a), 0) == ["check and loader disagree"]
