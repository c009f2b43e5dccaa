# SPDX-License-Identifier: Apache-2.0
"""The turn of an MP4: the matrix of its track times that of its movie, as the ffmpeg program has it."""
import itertools
import pathlib
import struct
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import made  # noqa: E402
from made_video import FFMPEG, make, needs_ffmpeg  # noqa: E402
from test_clips import frames_of  # noqa: E402

stoker = pytest.importorskip("stoker")
pytestmark = needs_ffmpeg

TURNS = [(1, 0, 0, 1), (-1, 0, 0, 1), (-1, 0, 0, -1), (1, 0, 0, -1), (0, 1, 1, 0), (0, 1, -1, 0), (0, -1, -1, 0), (0, -1, 1, 0)]
PAIRS = [(t, m) for t, m in itertools.product(range(8), range(8)) if (3 * t + 5 * m) % 8 in (1, 2)]    # two of each row and column


def patched(data, box, at, turn):
    """The file with this matrix in its first box of that type; `at`: bytes from its body on, of version 0."""
    data = bytearray(data)
    i = data.index(box) + 4
    assert data[i] == 0
    a, b, c, d = (65536 * x for x in TURNS[turn])
    data[i + at:i + at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    return bytes(data)


def with_turns(data, track, movie):
    return patched(patched(data, b"tkhd", 40, track), b"mvhd", 36, movie)


def upright(frame):
    """All eight ways in which a picture may be turned."""
    for k in range(4):
        yield np.rot90(frame, k)
        yield np.rot90(frame, k)[:, ::-1]


def luma(path, frames, *options):
    raw = subprocess.run([FFMPEG, "-v", "error", *options, "-i", path, "-frames:v", str(frames), "-pix_fmt", "gray", "-f", "rawvideo", "-"], check=True,
                         capture_output=True, stdin=subprocess.DEVNULL, timeout=120).stdout
    return np.frombuffer(raw, np.uint8)


def test_matrices_of_track_and_movie(tmp_path):
    path = make(tmp_path, "gop12.mp4")
    data, frames = path.read_bytes(), frames_of(path, 160, 96)
    plain = luma(path, 1, "-noautorotate").reshape(96, 160)
    wide, tall = [], []
    for track, movie in PAIRS:
        turned = tmp_path / f"{track}{movie}.mp4"
        turned.write_bytes(with_turns(data, track, movie))
        seen = luma(turned, 1).tobytes()
        [how] = [i for i, f in enumerate(upright(plain)) if f.tobytes() == seen]       # what ffmpeg does with it
        (wide if how // 2 % 2 == 0 else tall).append((f"{track}{movie}.mp4", turned.read_bytes(), how))
    assert {how for _, _, how in wide + tall} == set(range(8))
    for files, size in ((wide, (96, 160)), (tall, (160, 96))):
        tar = made.write_tar(tmp_path / f"{size[0]}.tar", [(name, body) for name, body, _ in files])
        with stoker.Loader(str(tar), {"video": f"from(mp4) | video(frames=2, start=3) | center_crop({size}) | to(u8, hwc)"}, batch_size=len(files)) as loader:
            [rows] = [b["video"].numpy().copy() for b in loader]
        for row, (name, _, how) in zip(rows, files, strict=True):
            for i in (0, 1):
                assert (row[i] == list(upright(frames[3 + i]))[how]).all(), name


def test_a_matrix_that_is_no_turn_is_left_out(tmp_path):
    """As of the track's own: numbers that can't be multiplied without care, and zeros."""
    path = make(tmp_path, "gop12.mp4")
    for k, numbers in enumerate([[-2**31] * 9, [0] * 9, [46341, 46341, 0, -46341, 46341, 0, 0, 0, 1 << 30]]):
        data = bytearray(path.read_bytes())
        for box, at in ((b"mvhd", 40), (b"tkhd", 44)):
            i = data.index(box) + at
            data[i:i + 36] = struct.pack(">9i", *numbers)
        tar = made.write_tar(tmp_path / f"{k}.tar", [("0.mp4", bytes(data))])
        with stoker.Loader(str(tar), {"video": "from(mp4) | video(frames=1, start=0) | center_crop((96, 160)) | to(u8, hwc)"}) as loader:
            assert next(iter(loader))["video"].shape == (1, 1, 96, 160, 3)
