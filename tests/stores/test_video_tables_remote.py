# SPDX-License-Identifier: Apache-2.0
"""Videos on a store: their tables alone are read, in few requests, with an index and without."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import faults                                   # noqa: E402

import stoker                                   # noqa: E402

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = [pytest.mark.services, pytest.mark.skipif(not shutil.which("ffmpeg"), reason="the ffmpeg program makes the videos: apt install ffmpeg")]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import made                                     # noqa: E402

CLIP = "video(frames=4, start=random) | center_crop((64, 64)) | to(u8)"


def index(url, *options):
    subprocess.run([os.environ["STOKER_CLI"], "index", *options, url], check=True, stdout=subprocess.DEVNULL)


def ffmpeg(*args):
    subprocess.run(["ffmpeg", "-v", "error", "-y", *map(str, args)], check=True, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def long(data):
    """Ten seconds, forty times over: 1,200 frames, blocks of many kilobytes; as MP4 with the moov at either end, and as Matroska."""
    one = data / "one.mp4"
    ffmpeg("-f", "lavfi", "-i", "testsrc2=size=320x192:rate=30,noise=alls=60:allf=t:all_seed=1", "-frames:v", 300, "-c:v", "libx264", "-preset", "ultrafast",
           "-crf", 20, "-g", 10, "-threads", 1, "-pix_fmt", "yuv420p", one)
    paths = {}
    for name, options in (("end.mp4", ()), ("front.mp4", ("-movflags", "+faststart")), ("long.mkv", ())):
        paths[name] = data / name
        ffmpeg("-stream_loop", 3, "-i", one, "-c", "copy", *options, paths[name])
        made.write_tar(data / f"{name}.tar", [("0.mp4", paths[name].read_bytes()), ("0.cls", b"3"), ("0.txt", b"a text")])
    return paths


def moov_of(path):
    raw, at = path.read_bytes(), 0
    while raw[at + 4:at + 8] != b"moov":
        at += int.from_bytes(raw[at:at + 4], "big")
    return int.from_bytes(raw[at:at + 4], "big")


@pytest.mark.parametrize("name", ["end.mp4", "front.mp4"])
def test_points_read_the_moov_alone(web, long, name):
    """Two ranges of the video, and the small fields: at most the moov and two steps of 64 KiB in bytes."""
    size = long[name].stat().st_size
    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/{name}.tar"
        index(url)
        requests, bytes_ = len(proxy.requests), sum(proxy.sizes)
        index(url, "--points")
        asked = proxy.sizes[requests:]
        print(name, size, "moov", moov_of(long[name]), "ranges", asked)
        assert sum(proxy.sizes) - bytes_ < moov_of(long[name]) + (3 << 16) < size / 10
        assert len([s for s in asked if s > 1030]) <= 2  # smaller ones are the fields beside it, and the shard's fingerprint
        with stoker.Loader(url, {"video": f"from(mp4) | {CLIP}", "label": "from(cls) | int"}, batch_size=1, num_workers=0, prefetch=1) as loader:
            list(loader)
            at, first = len(proxy.requests), loader.stats()["samples"]
            for _ in range(8):
                list(loader)
            made_ = loader.stats()["samples"] - first
        print(name, "per clip", proxy.sizes[at:])
        assert len(proxy.requests) - at <= made_ + 1  # one range per clip, none for its label
        assert sum(proxy.sizes) - bytes_ < size / 4


def test_matroska_is_read_in_large_steps(web, long):
    """Its tables are all over the file: megabytes at a time, not a request per block."""
    path = long["long.mkv"]
    blocks = 1200
    with faults.Proxy(web[0]) as proxy:
        clips = stoker.open(f"http://127.0.0.1:{proxy.port}/long.mkv", windows=stoker.Windows(frames=4, step=4))
        assert len(clips) == blocks // 4
        print("matroska", path.stat().st_size, "requests", len(proxy.requests))
        assert len(proxy.requests) <= 8 + path.stat().st_size // (4 << 20)


@pytest.mark.parametrize("name", ["end.mp4", "long.mkv"])
def test_tables_are_read_once_without_points(web, long, name):
    """A large field without points: its tables once while the loader runs, then a range per clip."""
    size = long[name].stat().st_size
    assert size > 5 << 20
    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/{name}.tar"
        with stoker.Loader(url, {"video": f"from(mp4) | {CLIP}"}, batch_size=1, num_workers=0, prefetch=1) as loader:
            list(loader)
            before, at = sum(proxy.sizes), len(proxy.requests)
            first = loader.stats()["samples"]
            for _ in range(8):
                list(loader)
            made_ = loader.stats()["samples"] - first
        print(name, "after the first", (sum(proxy.sizes) - before) // made_, "bytes per clip of", size, (len(proxy.requests) - at) / made_, "requests")
        assert sum(proxy.sizes) - before < made_ * size / 10
        assert len(proxy.requests) - at <= made_ + 1
    with stoker.Loader(url.replace(str(proxy.port), str(web[0])), {"video": f"from(mp4) | {CLIP}"}, batch_size=1, seed=3) as far, \
            stoker.Loader(str(long[name]) + ".tar", {"video": f"from(mp4) | {CLIP}"}, batch_size=1, seed=3) as near:
        assert [b["video"].numpy().tobytes() for b in far] == [b["video"].numpy().tobytes() for b in near]


AT = {"video": "from(mp4) | video(at=t, frames=4, stride=2) | center_crop((64, 64)) | to(u8)", "t": "from(cls) | float"}


@pytest.mark.parametrize("name", ["end.mp4", "long.mkv"])
@pytest.mark.parametrize("num_workers", [None, 2])
def test_a_time_that_is_a_field_is_read_first(web, long, name, num_workers):
    """Of each clip its time and then its packets, not the video; the bits are those of local files."""
    size = long[name].stat().st_size
    with faults.Proxy(web[0]) as proxy, \
            stoker.Loader(f"http://127.0.0.1:{proxy.port}/{name}.tar", AT, batch_size=1, num_workers=num_workers, prefetch=1) as loader:
        first = [b["video"].numpy().tobytes() for b in loader]
        before, at, had = sum(proxy.sizes), len(proxy.requests), loader.stats()["samples"]
        for _ in range(6):
            assert [b["video"].numpy().tobytes() for b in loader] == first
        clips = loader.stats()["samples"] - had
        assert sum(proxy.sizes) - before < clips * size / 10
        assert len(proxy.requests) - at <= 2 * (clips + 2)
        assert loader.stats()["bytes_unread"] > clips * size / 2
        assert loader.explain(0).reads["video"] == "only the bytes that are seen"
    with stoker.Loader(str(long[name]) + ".tar", AT, batch_size=1) as near:
        assert [b["video"].numpy().tobytes() for b in near] == first


@pytest.mark.parametrize("where", ["table", "files"])
def test_rows_of_parquet_name_videos_and_times(web, data, long, tmp_path, where):
    """A table on the store, or here, whose files are there: path and time are read first, then the packets of each clip."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    rows = pa.table({"path": [name for k in range(20) for name in ("end.mp4", "long.mkv", "front.mp4")], "time": [k / 2 for k in range(60)]})
    pq.write_table(rows, data / "clips.parquet", row_group_size=13)
    fields = {"video": "from(path) | open | video(at=time, offsets=(-0.1, 0.0)) | center_crop((64, 64)) | to(u8)", "time": "from(time) | float",
              "path": "from(path) | text"}

    def clips(source, **more):
        with stoker.Loader(source, {**fields, **more}, batch_size=4, shuffle=True, seed=2) as loader:
            got = [(b["video"].numpy().tobytes(), b["time"].numpy().tolist(), list(b["path"])) for b in loader]
            return got, loader.stats()
    near, _ = clips(str(data / "clips.parquet"))
    with faults.Proxy(web[0]) as proxy:
        root = f"http://127.0.0.1:{proxy.port}"
        if where == "table":
            far, stats = clips(f"{root}/clips.parquet")
        else:
            far, stats = clips(str(data / "clips.parquet"), video=fields["video"].replace("open", f'open(root="{root}")'))
        bytes_ = sum(proxy.sizes)
    assert far == near
    whole = sum(long[name].stat().st_size for name in long) * 20
    print(where, bytes_, "of", whole, stats["bytes_unread"])
    assert bytes_ < whole / 5
