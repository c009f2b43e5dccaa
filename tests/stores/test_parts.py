# SPDX-License-Identifier: Apache-2.0
"""Pictures of which only the bytes that are seen are read: the same bits, fewer bytes, no more requests."""
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import faults                                   # noqa: E402

import stoker                                   # noqa: E402

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
Image = pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.services
N = 40


def picture(i, rng):
    """Baseline JPEGs of many sizes; turned, gray, progressive and small ones, and a PNG."""
    w, h = (int(x) for x in rng.integers(200, 640, 2))
    if i % 10 == 9:
        w, h = 40, 30
    coarse = rng.integers(0, 256, (h // 8 + 1, w // 8 + 1, 3), dtype=np.uint8)
    im = Image.fromarray(coarse).resize((w, h), Image.Resampling.BILINEAR)
    noise = rng.integers(-20, 20, (h, w, 3))
    im = Image.fromarray(np.clip(np.asarray(im).astype(int) + noise, 0, 255).astype(np.uint8))
    out = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 1 + i % 8
    if i % 10 == 7:
        im.save(out, "PNG")
    else:
        im = im.convert("L") if i % 10 == 5 else im
        im.save(out, "JPEG", quality=85, progressive=i % 10 == 3, exif=exif if i % 2 else Image.Exif(), optimize=i % 4 == 1,
                subsampling=i % 3 if i % 10 != 5 else -1)
    return out.getvalue(), (w, h)


@pytest.fixture(scope="module")
def shard(data):
    """Labels before pictures, as WebDataset's writer sorts them, and a mask of the same size."""
    rng = np.random.default_rng(7)
    path = data / "pictures.tar"
    with tarfile.open(path, "w") as tar:
        for i in range(N):
            jpg, (w, h) = picture(i, rng)
            mask = io.BytesIO()
            Image.fromarray(rng.integers(0, 9, (h, w), dtype=np.uint8)).save(mask, "PNG")
            for name, blob in (("cls", str(i % 10).encode()), ("jpg", jpg), ("mask.png", mask.getvalue())):
                info = tarfile.TarInfo(f"{i:04}.{name}")
                info.size = len(blob)
                tar.addfile(info, io.BytesIO(blob))
    return path


CROP = "from(jpg) | image | random_resized_crop(96) | hflip | to(u8)"
CHAINS = {
    "crop": {"image": CROP, "label": "from(cls) | int"},
    "tile": {"image": "from(jpg) | image | random_resized_crop(64) | color_jitter(0.4, 0.4, 0.4) | normalize(imagenet) | to(f32)"},
    "views": {"image": "from(jpg) | image | views(3) | random_resized_crop(48, scale=(0.05, 0.3)) | to(u8)"},
    "shared": {"large": CROP, "small": "from(jpg) | image | random_resized_crop(32, scale=(0.05, 0.2)) | to(u8)"},
    "as filed": {"image": "from(jpg) | image(exif=false) | random_resized_crop(96) | to(u8)"},
    "followed": {"image": CROP, "mask": "from(mask.png) | image(mode=index) | like(image)"},
    "gray": {"image": "from(jpg) | image(mode=gray) | random_resized_crop(64) | to(u8)"},
    "ragged": {"image": "from(jpg) | image | random_crop(60, pad_if_needed=true) | to(u8)"},
}


def rows(url, outputs, **more):
    with stoker.Loader(url if isinstance(url, stoker.Dataset) else str(url), outputs, batch_size=8, shuffle=True, seed=5, **more) as loader:
        got = [[np.asarray(batch[name]).copy() for name in outputs] for batch in loader]
        return got, loader.stats()


def same(a, b):
    return len(a) == len(b) and all(np.array_equal(x, y) for p, q in zip(a, b) for x, y in zip(p, q))


def index(url, *options):
    subprocess.run([os.environ["STOKER_CLI"], "index", *options, url], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def url(web, shard):
    return f"http://127.0.0.1:{web[0]}/{shard.name}"


@pytest.mark.parametrize("kind", CHAINS)
def test_the_same_bits_with_fewer_bytes(url, shard, kind):
    local, _ = rows(shard, CHAINS[kind])
    whole, before = rows(url, CHAINS[kind])
    index(url, "--jpeg")
    for workers in (0, 3):
        parts, after = rows(url, CHAINS[kind], num_workers=workers)
        assert same(local, whole) and same(local, parts)
        assert before["bytes_unread"] == 0 and after["bytes_unread"] > 0
        assert after["jpeg_misfit"] == 0


GPU = """
import ctypes, sys
sys.modules["torch"] = None
import numpy as np
import stoker

class Packed(ctypes.Structure):                 # DLTensor
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

def pixels(value):
    if value.__dlpack_device__()[0] != 2:
        return np.asarray(value).tobytes()
    capsule = value.__dlpack__(stream=1)        # the memory is there as long as this is
    t = Packed.from_address(pointer(capsule, b"dltensor"))
    return ctypes.string_at(t.data + t.offset, int(np.prod([t.shape[i] for i in range(t.ndim)])))

def rows(url, **more):
    with stoker.Loader(url, {"image": sys.argv[3]}, batch_size=8, shuffle=True, seed=5, **more) as loader:
        return [pixels(batch["image"]) for batch in loader], loader.stats()

local, _ = rows(sys.argv[1])
far, stats = rows(sys.argv[2], device="cuda", num_workers=0, prefetch=1)
assert local == far and stats["bytes_unread"] > 0 and stats["gpu"]["jpegs"] >= int(sys.argv[4]), stats
print("same")
"""


def test_on_the_gpu_of_threads(url, shard, monkeypatch):
    library = pathlib.Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "tests/gpu/host/libstoker_hostgpu.so"
    if not library.exists():
        pytest.skip("the GPU of threads is not built")
    monkeypatch.setenv("STK_CUDA_LIB", str(library))
    index(url, "--jpeg")
    upright = N // 2                            # baseline: every second one
    done = subprocess.run([sys.executable, "-c", GPU, str(shard), url, CROP, str(upright)], capture_output=True, text=True)
    assert done.stdout == "same\n", done.stderr


def per_sample(proxy, outputs, **more):
    """Requests and bytes of an epoch, by the samples that were made in it, which may be some of the next one."""
    with stoker.Loader(f"http://127.0.0.1:{proxy.port}/pictures.tar", outputs, batch_size=1, prefetch=1, seed=5, num_workers=0,
                       **{"shuffle": True, **more}) as loader:
        opened, first = len(proxy.requests), sum(proxy.sizes)
        for _ in loader:
            pass
        made = loader.stats()["samples"]
    return (len(proxy.requests) - opened) / made, (sum(proxy.sizes) - first) / made


def test_fewer_bytes_and_no_more_requests(web, shard):
    outputs = CHAINS["crop"]
    with faults.Proxy(web[0]) as proxy:
        index(f"http://127.0.0.1:{proxy.port}/{shard.name}")
        whole = per_sample(proxy, outputs)
        index(f"http://127.0.0.1:{proxy.port}/{shard.name}", "--jpeg")
        parts = per_sample(proxy, outputs)
        assert parts[1] < 0.9 * whole[1]          # progressive and small ones, and PNG, are read whole
        assert parts[0] <= whole[0] * 1.02
        block = per_sample(proxy, outputs, shuffle="block")
    assert block[0] <= whole[0]


def test_what_is_unread_was_not_asked_for(web, data):
    """A text after the picture is read by the same request, and so is the rest of the picture: only what is before the crop is not."""
    jpg, text = picture(0, np.random.default_rng(2))[0], b"x" * 100
    with tarfile.open(data / "one.tar", "w") as tar:
        for name, blob in (("0.jpg", jpg), ("0.txt", text)):
            info = tarfile.TarInfo(name)
            info.size = len(blob)
            tar.addfile(info, io.BytesIO(blob))
    span = -(-len(jpg) // 512) * 512 + 512 + len(text)
    outputs = {"image": "from(jpg) | image | random_resized_crop(32, scale=(0.05, 0.2)) | to(u8)", "text": "from(txt) | text"}
    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/one.tar"
        index(url, "--points")
        with stoker.Loader(url, outputs, batch_size=1, prefetch=1, seed=5, num_workers=0, shuffle=True) as loader:
            opened = len(proxy.requests)
            for _ in range(12):
                for batch in loader:
                    assert len(batch["text"][0]) == len(text)
            stats = loader.stats()
        sizes = proxy.sizes[opened:opened + stats["samples"]]
    assert stats["samples"] >= 12 and max(sizes) <= span
    assert stats["bytes_unread"] == sum(span - size for size in sizes) > 0


def test_a_resume_in_the_middle(url, shard):
    index(url, "--jpeg")
    local, _ = rows(shard, CHAINS["crop"])
    with stoker.Loader(url, CHAINS["crop"], batch_size=8, shuffle=True, seed=5) as loader:
        it = iter(loader)
        first = [[np.asarray(batch[name]).copy() for name in CHAINS["crop"]] for batch in (next(it), next(it))]
        state = loader.state_dict()
    with stoker.Loader(url, CHAINS["crop"], batch_size=8, shuffle=True, seed=5, num_workers=2) as loader:
        loader.load_state_dict(state)
        rest = [[np.asarray(batch[name]).copy() for name in CHAINS["crop"]] for batch in loader]
        assert loader.stats()["bytes_unread"] > 0
    assert same(first + rest, local)


def test_parts_of_another_version_are_read_again_whole(web, data, shard, tmp_path):
    """The server gives no version that a file is known by, and the same size: rows notice by their sums."""
    path = data / "changing.tar"
    path.write_bytes(shard.read_bytes())
    stat = path.stat()
    url = f"http://127.0.0.1:{web[0]}/changing.tar"
    index(url, "--jpeg")
    raw = bytearray(shard.read_bytes())
    with tarfile.open(shard) as tar:
        member = tar.getmember("0000.jpg")
    at = member.offset_data + member.size // 2
    raw[at:at + 3] = b"\x55\xaa\x55"
    path.write_bytes(raw)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))      # nginx makes its ETag of time and size
    outputs = {"image": "from(jpg) | image | center_crop(150) | to(u8)"}
    want, _ = rows(path, outputs)
    got, stats = rows(url, outputs)
    assert same(want, got)
    assert stats["jpeg_misfit"] >= 1 and stats["bytes_unread"] > 0


def scans(path):
    """Of each JPEG of a shard: where its scan is in the file, and how long it is."""
    found = []
    with tarfile.open(path) as tar:
        for member in tar:
            raw = tar.extractfile(member).read() if member.name.endswith(".jpg") else b""
            at = raw.rfind(b"\xff\xda")
            if raw[:2] == b"\xff\xd8" and at > 0:
                found.append((member.offset_data + at + 16, len(raw) - at - 20))
    return found


def told(target, outputs):
    """Rows, with what stands in for bad samples, and figures."""
    got = []
    with stoker.Loader(str(target), outputs, batch_size=8, shuffle=True, seed=5, on_error="skip", num_workers=2) as loader:
        for batch in loader:
            rows = [np.asarray(batch[name]) for name in outputs]
            got += [(int(i), *(r[k].tobytes() for r in rows)) for k, i in enumerate(batch.sample_ids)]
        return got, loader.stats()


def test_mutated_files_are_the_same_from_a_store_and_here(web, data, shard):
    """Scans that are damaged after their points were made, where no version tells: a part is noticed by its sums, and then the whole decides as it
    does for local files.  STOKER_SOAK_FILES: how many pictures."""
    path = data / "mutated.tar"
    path.write_bytes(shard.read_bytes())
    stat, whole, places = path.stat(), shard.read_bytes(), scans(shard)
    url = f"http://127.0.0.1:{web[0]}/mutated.tar"
    for target in (url, path):
        index(str(target), "--jpeg")
    rng = np.random.default_rng(int(os.environ.get("STOKER_SEED", "11")))
    kinds, stale = ("crop", "views", "shared", "as filed", "gray"), 0
    for turn in range(1 + int(os.environ.get("STOKER_SOAK_FILES", "400")) // len(places)):
        raw = bytearray(whole)
        for at, size in places:
            for _ in range(int(rng.integers(1, 4))):
                raw[at + int(rng.integers(0, size))] ^= int(rng.integers(1, 256))
        path.write_bytes(raw)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        outputs = CHAINS[kinds[turn % len(kinds)]]
        want, _ = told(path, outputs)
        got, stats = told(url, outputs)
        assert got == want, (turn, [i for i, (a, b) in enumerate(zip(got, want)) if a != b])
        stale += stats["jpeg_misfit"]
    assert stale > 50      # the damage was seen, and not by luck missed


def heads(path):
    """Of each JPEG of a shard: the bytes before its scan; and the labels."""
    found, labels = [], []
    with tarfile.open(path) as tar:
        for member in tar:
            raw = tar.extractfile(member).read()
            if member.name.endswith(".cls"):
                labels.append(member.offset_data)
            elif raw[:2] == b"\xff\xd8":
                found.append((member.offset_data + 2, raw.rfind(b"\xff\xda")))
    return found, labels


def test_heads_and_labels_where_no_version_tells(web, data, shard):
    """Points have the head of a picture, and labels are beside them: where a store says no version, neither is used, as a file may have changed since."""
    path = data / "heads.tar"
    path.write_bytes(shard.read_bytes())
    stat, good, (places, labels) = path.stat(), shard.read_bytes(), heads(shard)
    rng = np.random.default_rng(5)
    with faults.Proxy(web[0]) as proxy:
        proxy.drop = ("etag", "last-modified")
        url = f"http://127.0.0.1:{proxy.port}/heads.tar"
        for target in (url, path):
            index(str(target), "--points")
        for kind in ("crop", "as filed", "views"):
            path.write_bytes(good)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            with stoker.Loader(url, CHAINS[kind], batch_size=8, shuffle=True, seed=5, on_error="skip", num_workers=0) as loader:
                assert "no version" in loader.explain(0).reads["image"]
                raw = bytearray(good)
                for at, size in places:
                    raw[at + int(rng.integers(0, size))] ^= int(rng.integers(1, 256))
                for at in labels[::2]:
                    raw[at] ^= 1
                path.write_bytes(raw)
                os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
                got = [(int(i), *(np.asarray(batch[name])[k].tobytes() for name in CHAINS[kind])) for batch in loader for k, i in enumerate(batch.sample_ids)]
                assert loader.stats()["bytes_unread"] == 0
            want, _ = told(path, CHAINS[kind])
            assert got == want, kind


def test_mutated_points_change_nothing(url, shard, tmp_path):
    """Bytes of HASH.seek that are others than were written: its sums, or those of each record, or of rows, leave them out."""
    local, _ = rows(shard, CHAINS["crop"])
    index(url, "--jpeg")
    kept = [p for p in pathlib.Path(os.environ["STOKER_CACHE"]).rglob("*.seek")]
    assert kept
    rng = np.random.default_rng(3)
    for turn in range(12):
        for path in kept:
            good = path.read_bytes()
            raw = bytearray(good)
            if turn % 4 == 3:
                raw = raw[:int(rng.integers(0, len(raw)))]
            for _ in range(turn % 4 + 1):
                if raw:
                    raw[int(rng.integers(0, len(raw)))] ^= int(rng.integers(1, 256))
            path.write_bytes(raw)
        got, _ = rows(url, CHAINS["crop"])
        assert same(local, got), turn
        for path in kept:
            path.write_bytes(good)
    again, stats = rows(url, CHAINS["crop"])
    assert same(local, again) and stats["bytes_unread"] > 0


def test_the_host_cache_has_the_same_bits(url, shard, tmp_path):
    local, _ = rows(shard, CHAINS["crop"])
    index(url, "--jpeg")
    store = stoker.Store(cache=str(tmp_path / "host"))
    for _ in range(2):
        got, _ = rows(stoker.open(url, store=store), CHAINS["crop"])
        assert same(local, got)


def test_explain_says_what_is_read(url, shard):
    index(url, "--points")
    with stoker.Loader(url, CHAINS["crop"], batch_size=8, shuffle=True) as loader:
        told = loader.explain(0)
        assert told.reads["image"].startswith("only the bytes") and told.reads["label"] == "the whole field: it is not a picture"
        assert "reads: only the bytes" in str(told)
        for i in (3, 7):                        # progressive; a PNG
            assert loader.explain(i).reads["image"] == "the whole field: the index has no points of it that say which bytes are seen"
    with stoker.Loader(url, CHAINS["crop"], batch_size=8, shuffle="block") as loader:
        assert "in the order in which they are stored" in loader.explain(0).reads["image"]
    with stoker.Loader(str(shard), CHAINS["crop"], batch_size=8, shuffle=True) as loader:
        assert "local" in loader.explain(0).reads["image"]


def test_clips(web, data):
    """Of a video that has points, the packets of the clip are one range."""
    if not shutil.which("ffmpeg"):
        pytest.skip("the ffmpeg program makes the videos: apt install ffmpeg")
    path = data / "videos.tar"
    with tarfile.open(path, "w") as tar:
        for i in range(6):
            subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", f"testsrc2=size=160x96:rate=30,noise=alls=20:allf=t:all_seed={i}", "-frames:v",
                            "120", "-c:v", "libx264", "-preset", "ultrafast", "-g", "10", "-pix_fmt", "yuv420p", data / "one.mp4"], check=True,
                           stdin=subprocess.DEVNULL)
            tar.add(data / "one.mp4", f"{i}.mp4")
    outputs = {"video": "from(mp4) | video(frames=4, stride=2) | random_resized_crop(48) | to(u8)"}
    url = f"http://127.0.0.1:{web[0]}/{path.name}"
    local, _ = rows(path, outputs)
    whole, before = rows(url, outputs)
    index(url, "--points")
    parts, after = rows(url, outputs, num_workers=2)
    assert same(local, whole) and same(local, parts)
    assert before["bytes_unread"] == 0 and after["bytes"] < before["bytes"] / 3, (before["bytes"], after["bytes"])
    for shuffle in (True, "block"):
        with stoker.Loader(url, outputs, batch_size=2, shuffle=shuffle) as loader:
            assert loader.explain(1).reads["video"] == "only the bytes that are seen"
