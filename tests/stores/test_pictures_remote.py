# SPDX-License-Identifier: Apache-2.0
"""Several pictures per sample on a store: budgets are planned by the heads of the pictures, and batches are those of the local file."""

import io
import json
import pathlib
import subprocess
import sys
import tarfile
import os

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import faults                                   # noqa: E402

import stoker                                   # noqa: E402

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
Image = pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.services
TOKEN = 151655
COUNTS = [2, 0, 3, 1, 4, 2, 1, 3]               # pictures of each sample
HEAD = 4096
FIELDS = {"x": "from(image) | pictures | resize_to_patches(14, merge=2, min_pixels=3136, max_pixels=60000) | patches(qwen2_vl) | to(u8)",
          "ids": "from(ids.json) | ints | image_tokens(x)"}


@pytest.fixture(scope="module")
def chats(data):
    """Pictures of 60 to 400 KB and some text."""
    rng = np.random.default_rng(3)
    path = data / "chats.tar"
    with tarfile.open(path, "w") as tar:
        for i, n in enumerate(COUNTS):
            blobs = []
            for k in range(n):
                out = io.BytesIO()
                h, w = (int(v) for v in rng.integers(300, 700, 2))
                exif = Image.Exif()
                exif[0x0112] = 1 + (i + k) % 8
                Image.fromarray(rng.integers(0, 256, (h, w, 3), dtype=np.uint8)).save(out, "JPEG", exif=exif)
                blobs.append((f"{k}.jpg", out.getvalue()))
            blobs.append(("ids.json", json.dumps([*range(5 + i), *[TOKEN] * n]).encode()))
            for name, blob in blobs:
                info = tarfile.TarInfo(f"{i:04}.{name}")
                info.size = len(blob)
                tar.addfile(info, io.BytesIO(blob))
    return path


def batches(loader):
    return [(list(b.sample_keys), np.asarray(b["x"]).tobytes(), np.asarray(b["ids"]).tolist(), np.asarray(b.grid["x"]).tolist()) for b in loader]


OPTIONS = {"max_tokens": 2500, "collate": "pack", "shuffle": True, "seed": 4, "num_workers": 0}


def planned_by_heads(proxy, url, chats, store=None):
    """What opening the loader reads is the heads, and its batches are those of the local file."""
    subprocess.run([os.environ["STOKER_CLI"], "index", url], check=True, stdout=subprocess.DEVNULL)
    before = sum(proxy.sizes)
    with stoker.Loader(url, FIELDS, store=store, **OPTIONS) as loader:
        planned = sum(proxy.sizes) - before
        far = batches(loader)
    whole = sum(proxy.sizes) - before - planned
    assert planned <= sum(COUNTS) * HEAD + len(COUNTS) * (HEAD + 1024), (planned, whole)
    assert planned < whole / 10
    before = sum(proxy.sizes)
    with stoker.Loader(url, FIELDS, store=store, **OPTIONS):                     # what was found is stored beside the index
        assert sum(proxy.sizes) == before
    with stoker.Loader(str(chats), FIELDS, **OPTIONS) as loader:
        assert batches(loader) == far and len(far) > 2


def test_a_budget_is_planned_by_the_heads_of_pictures(web, chats):
    with faults.Proxy(web[0]) as proxy:
        planned_by_heads(proxy, f"http://127.0.0.1:{proxy.port}/{chats.name}", chats)


@pytest.fixture
def s3(swift, monkeypatch):
    """A proxy that S3 is reached by; the environment is for the command, as a process asks its own once."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test:tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with faults.Proxy(swift.port) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        yield proxy


def store_of(proxy):
    return stoker.Store(endpoint=f"http://127.0.0.1:{proxy.port}", credentials={"access_key": "test:tester", "secret_key": "testing"})


def test_a_budget_is_planned_by_the_heads_of_pictures_on_s3(swift, s3, chats):
    swift.put("data", "pictures/chats.tar", chats.read_bytes())
    planned_by_heads(s3, "s3://data/pictures/chats.tar", chats, store_of(s3))


def test_lists_of_files_on_s3(swift, s3, chats, tmp_path, monkeypatch):
    """A JSON list names objects below a root on S3: of each the head is read to plan, and all of it for its row.  The data set's store reads them."""
    (tmp_path / "files").mkdir()
    with tarfile.open(chats) as tar, tarfile.open(tmp_path / "lists.tar", "w") as lists:
        for member in tar:
            if member.name.endswith(".jpg"):
                data = tar.extractfile(member).read()
                (tmp_path / "files" / member.name).write_bytes(data)
                swift.put("data", f"pictures/files/{member.name}", data)
        for i, n in enumerate(COUNTS):
            ids = json.dumps([*range(5 + i), *[TOKEN] * n]).encode()
            for name, blob in (("json", json.dumps([f"{i:04}.{k}.jpg" for k in range(n)]).encode()), ("ids.json", ids)):
                info = tarfile.TarInfo(f"{i:04}.{name}")
                info.size = len(blob)
                lists.addfile(info, io.BytesIO(blob))
    swift.put("data", "pictures/lists.tar", (tmp_path / "lists.tar").read_bytes())

    def fields(root):
        return {**FIELDS, "x": FIELDS["x"].replace("from(image) | pictures", f'from(json) | pictures(root="{root}")')}

    whole = sum(p.stat().st_size for p in (tmp_path / "files").iterdir())
    subprocess.run([os.environ["STOKER_CLI"], "index", "s3://data/pictures/lists.tar"], check=True, stdout=subprocess.DEVNULL)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    before = sum(s3.sizes)
    with stoker.Loader("s3://data/pictures/lists.tar", fields("s3://data/pictures/files"), store=store_of(s3), **OPTIONS) as loader:
        planned = sum(s3.sizes) - before
        far = batches(loader)
    assert planned < whole / 4 and sum(s3.sizes) - before - planned >= whole, (planned, whole)
    with stoker.Loader(str(tmp_path / "lists.tar"), fields(tmp_path / "files"), **OPTIONS) as loader:
        assert batches(loader) == far and len(far) > 2
