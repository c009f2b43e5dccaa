# SPDX-License-Identifier: Apache-2.0
"""A clip and the sound of its time, of one video on a store: one request for both, with points."""
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import faults                                   # noqa: E402

import stoker                                   # noqa: E402

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = [pytest.mark.services, pytest.mark.skipif(not shutil.which("ffmpeg"), reason="the ffmpeg program makes the videos: apt install ffmpeg")]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import made                                     # noqa: E402

SECONDS, FILES = 40, 6
FIELDS = {"audio": "from(mp4) | sound(rate=16000) | part(of=video)", "video": "from(mp4) | video(frames=4, stride=2) | center_crop((64, 64)) | to(u8)", "label": "from(cls) | int"}
AT = {"audio": FIELDS["audio"], "video": "from(mp4) | video(at=t, offsets=(0.0, 0.4)) | center_crop((64, 64)) | to(u8)", "t": "from(cls) | float"}
KINDS = {"mp4": "-c:a aac", "mkv": "-c:a libopus"}


@pytest.fixture(scope="module", params=KINDS)
def clips(request, data):
    """Videos with noise, so that a second of them has some bytes; sound between their packets."""
    path = data / f"one.{request.param}"
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", f"testsrc2=size=160x96:rate=20:d={SECONDS},noise=alls=60:allf=t:all_seed=1", "-f", "lavfi", "-i",
                    f"aevalsrc='0.4*sin(2*PI*(300+20*floor(t))*t)':s=48000:d={SECONDS}", "-c:v", "libx264", "-preset", "ultrafast", "-g", "20", "-bf", "0", "-pix_fmt", "yuv420p",
                    *KINDS[request.param].split(), path], check=True, stdin=subprocess.DEVNULL)
    tar = data / f"{request.param}.tar"
    made.write_tar(tar, [(f"{i}.{name}", raw) for i in range(FILES) for name, raw in (("mp4", path.read_bytes()), ("cls", b"%d" % (5 * i + 3)))])
    return tar, path.stat().st_size


def rows(source, fields, **options):
    with stoker.Loader(source, fields, collate="list", batch_size=1, seed=5, shuffle=True, **options) as loader:
        got = {int(b.sample_ids[0]): (np.asarray(b["audio"][0]).tobytes(), np.asarray(b["video"][0]).tobytes()) for b in loader}
        return got, loader.stats(), loader.explain(0).reads


def test_one_request_for_both(web, clips):
    tar, size = clips
    near, _, _ = rows(str(tar), FIELDS)
    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/{tar.name}"
        whole, before, reads = rows(url, FIELDS)
        # tables of MP4 are together: both tracks' are read with the first clip; those of Matroska are all over the file
        assert reads["audio"] == "only the bytes that are seen" if tar.name == "mp4.tar" else "no points" in reads["audio"]
        subprocess.run([os.environ["STOKER_CLI"], "index", "--points", url], check=True, stdout=subprocess.DEVNULL)
        with stoker.Loader(url, FIELDS, collate="list", batch_size=1, seed=5, shuffle=True, num_workers=0, prefetch=1) as loader:
            parts = {int(b.sample_ids[0]): (np.asarray(b["audio"][0]).tobytes(), np.asarray(b["video"][0]).tobytes()) for b in loader}
            at, bytes_, had = len(proxy.requests), sum(proxy.sizes), loader.stats()["samples"]
            for _ in range(4):
                list(loader)
            after = loader.stats()
            clips_, asked, got = after["samples"] - had, len(proxy.requests) - at, sum(proxy.sizes) - bytes_
            assert {loader.explain(1).reads[name] for name in ("audio", "video")} == {"only the bytes that are seen"}
        print(clips_, asked, got, size, after["bytes"], after["bytes_unread"])
    assert near == whole == parts and len(near) == FILES and len({a for a, _ in near.values()}) == FILES
    assert before["bytes_unread"] > 0.8 * FILES * size if tar.name == "mp4.tar" else before["bytes_unread"] == 0
    assert after["bytes_unread"] > 0.8 * after["samples"] * size
    assert clips_ >= 4 * FILES - 2 and asked <= clips_ + 2 and got < clips_ * size / 6  # those that were asked for ahead


def test_a_clip_whose_time_is_read_first(web, clips):
    """The sound waits for the clip's time, as the clip does."""
    tar, size = clips
    near, _, _ = rows(str(tar), AT)
    stoker.open(str(tar), jpeg=True)
    with_points, local, _ = rows(str(tar), AT)
    assert with_points == near and local["bytes_unread"] > 0.8 * FILES * size
    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/{tar.name}"
        subprocess.run([os.environ["STOKER_CLI"], "index", "--points", url], check=True, stdout=subprocess.DEVNULL)
        far, stats, reads = rows(url, AT, num_workers=2)
    assert far == near and stats["bytes_unread"] > 0.8 * FILES * size
    assert reads["audio"] == reads["video"] == "only the bytes that are seen"
