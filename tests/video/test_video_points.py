# SPDX-License-Identifier: Apache-2.0
"""What a clip reads beside its packets: pieces of a long video's points, or nothing, where a loader has its tables."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import made  # noqa: E402
from made_video import BUILD, needs_ffmpeg, run  # noqa: E402

stoker = pytest.importorskip("stoker")
pytestmark = needs_ffmpeg
CLI = os.environ.get("STOKER_CLI", BUILD / "cli" / "stoker")
FRAMES = 60_000
CLIPS = 200


def read_so_far():
    """Bytes that this process read by system calls."""
    return int(next(line for line in pathlib.Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar")).split()[1])


@pytest.fixture(scope="module", params=["mp4", "mkv"])
def long(request, tmp_path_factory):
    """60,000 frames, in a tar with a label; a frame has about 100 bytes."""
    folder = tmp_path_factory.mktemp("long")
    run("-f", "lavfi", "-i", "testsrc2=size=32x32:rate=30", "-frames:v", 600, "-c:v", "libx264", "-preset", "ultrafast", "-crf", 45, "-x264-params",
        "keyint=10:min-keyint=10:scenecut=0:bframes=2:threads=1", "-pix_fmt", "yuv420p", folder / "one.mp4")
    path = folder / f"long.{request.param}"
    run("-stream_loop", FRAMES // 600 - 1, "-i", folder / "one.mp4", "-c", "copy", path)
    return folder, pathlib.Path(made.write_tar(folder / "a.tar", [("0.mp4", path.read_bytes()), ("0.cls", b"3")]))


def clips(tar, seed=0, **options):
    """What CLIPS random clips read each, after the first one; and which frames they were."""
    fields = {"video": "from(mp4) | video(frames=2, stride=3) | resize((16, 16)) | to(u8)", "label": "from(cls) | int"}
    rows, frames = [], []
    with stoker.Loader(str(tar), fields, batch_size=1, num_workers=0, prefetch=1, repeat=CLIPS, seed=seed, on_error="raise", **options) as loader:
        for i, batch in enumerate(loader):
            if not i:
                before = read_so_far()
            rows.append(batch["video"].numpy().tobytes())
            frames.append(batch.frames["video"].tolist()[0])
        each = (read_so_far() - before) / (CLIPS - 1)
    assert all(b - a == 3 for a, b in frames) and max(f[0] for f in frames) > FRAMES // 2
    return each, rows


def test_a_clip_of_a_long_video_reads_little(long, monkeypatch):
    """Without points the tables are read once; with them a clip reads pieces.  The same rows, and no more than 16 KB a clip of 200 to 330 KB of points."""
    folder, tar = long
    monkeypatch.setenv("STOKER_CACHE", str(folder / "cache"))
    tables, without = clips(tar)
    subprocess.run([CLI, "index", "--points", tar], check=True, capture_output=True, env={**os.environ, "STOKER_CACHE": str(folder / "cache")})
    [seek] = folder.rglob("*.seek")
    points = seek.stat().st_size
    pieces, with_ = clips(tar)
    print(f"points {points}, bytes per clip: tables kept {tables:.0f}, points in pieces {pieces:.0f}")
    assert with_ == without
    assert points > 200_000
    assert tables < 16_000 and pieces < 16_000


def test_pieces_over_a_damaged_or_cut_file_are_no_other_frames(long, monkeypatch):
    """Points that end under a running loader: clips go on without them, and are the same."""
    folder, tar = long
    monkeypatch.setenv("STOKER_CACHE", str(folder / "cache"))
    for seek in folder.rglob("*.seek"):
        seek.unlink()
    _, want = clips(tar)
    subprocess.run([CLI, "index", "--points", tar], check=True, capture_output=True, env={**os.environ, "STOKER_CACHE": str(folder / "cache")})
    [seek] = folder.rglob("*.seek")
    fields = {"video": "from(mp4) | video(frames=2, stride=3) | resize((16, 16)) | to(u8)"}
    got = []
    with stoker.Loader(str(tar), fields, batch_size=1, num_workers=0, prefetch=1, repeat=CLIPS, seed=0, on_error="raise") as loader:
        for i, batch in enumerate(loader):
            got.append(batch["video"].numpy().tobytes())
            if i == 5:
                os.truncate(seek, seek.stat().st_size // 2)
    assert got == want and np.frombuffer(got[0], np.uint8).any()
