# SPDX-License-Identifier: Apache-2.0
"""pictures(root=...) of files on a store: the files of a row are read at the same time, those of other rows meanwhile; batches are those of local files."""

import contextlib
import io
import json
import pathlib
import random
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import faults                                   # noqa: E402
import made                                     # noqa: E402

import stoker                                   # noqa: E402

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
Image = pytest.importorskip("PIL.Image")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.services
COUNTS = [2, 0, 3, 9, 4, 1, 90, 3]              # pictures of each sample; more than a request reads at once
CHAIN = "random_resized_crop(24) | hflip | to(u8)"


def lists():
    return [[f"pictures/{(7 * i + k) % 40:02}.jpg" for k in range(n)] for i, n in enumerate(COUNTS)]


@pytest.fixture(scope="module")
def folder(data):
    """Forty pictures, and lists of their names: a column of a table, and JSON in a shard."""
    (data / "pictures").mkdir()
    rng = np.random.default_rng(9)
    for k in range(40):
        out = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (30 + k, 90 - k, 3), dtype=np.uint8)).save(out, "JPEG")
        (data / "pictures" / f"{k:02}.jpg").write_bytes(out.getvalue())
    pq.write_table(pa.table({"images": lists(), "n": COUNTS}), data / "lists.parquet", row_group_size=3)
    made.write_tar(data / "lists.tar", [(f"{i}.json", json.dumps(names).encode()) for i, names in enumerate(lists())])
    return data


@pytest.fixture(scope="module")
def s3(swift, folder):
    """One proxy: what the environment says of a store holds while the process lives."""
    for path in sorted((folder / "pictures").iterdir()):
        swift.put("data", f"pictures/{path.name}", path.read_bytes())
    with faults.Proxy(swift.port) as proxy:
        proxy.signed, proxy.root, proxy.usual = True, "s3://data", dict(vars(proxy))
        yield proxy


@pytest.fixture(params=["http", "s3"])
def store(request, folder, monkeypatch):
    """A function: a proxy's options -> the proxy; its root is where the pictures' folder is."""
    if request.param == "http":
        port = request.getfixturevalue("web")[0]

        class Web(faults.Proxy):
            def __init__(self, **options):
                super().__init__(port, **options)

            def __enter__(self):
                super().__enter__()
                self.root = f"http://127.0.0.1:{self.port}"
                return self
        return Web
    proxy = request.getfixturevalue("s3")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test:tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")

    @contextlib.contextmanager
    def again(seed=0, **options):
        vars(proxy).update({**proxy.usual, "random": random.Random(seed), "count": {}, "sizes": [], "requests": [], "peak": 0, **options})
        yield proxy
        vars(proxy).update(gather=0, rate=0)
    return again


def loader(source, root, **options):
    field = "images" if str(source).endswith(".parquet") else "json"
    return stoker.Loader(str(source), {"x": f'from({field}) | pictures(root="{root}") | {CHAIN}'},
                         **{"batch_size": 1, "collate": "list", "shuffle": True, "seed": 6, "num_workers": 2, **options})


def rows(batches):
    return [(i, np.asarray(x).tobytes()) for b in batches for i, x in zip(b.sample_ids.tolist(), b["x"], strict=True)]


@pytest.mark.parametrize("name", ["lists.parquet", "lists.tar"])
@pytest.mark.parametrize("num_workers", [None, 2])
def test_batches_are_those_of_local_files(store, folder, name, num_workers):
    with loader(folder / name, folder, num_workers=num_workers) as near:
        local = rows(near)
    with store() as proxy, loader(folder / name, proxy.root, num_workers=num_workers) as far:
        assert rows(far) == local and len(local) == len(COUNTS)
        assert "files, which are read after it" in far.explain(0).reads["x"]
        files = sum((folder / n).stat().st_size for names in lists() for n in names)
        assert far.stats()["bytes"] >= files and far.stats()["remote_reads"] >= len(COUNTS) - 1
        assert sum(s > 1 for s in proxy.sizes) >= sum(COUNTS)


@pytest.mark.parametrize("num_workers", [None, 1])
def test_files_of_a_row_are_read_at_once(store, folder, num_workers):
    """The store answers when it was asked for all nine of a row: one after another they would wait for ever."""
    for step in (lambda size: size == 1, lambda size: size > 1):
        with store() as proxy:
            proxy.gather, proxy.gathers = COUNTS[3], step
            with loader(folder / "lists.parquet", proxy.root, shuffle=False, skip=3, limit=1, prefetch=1, num_workers=num_workers) as row:
                assert len(rows(row)) == 1
            assert proxy.peak == COUNTS[3] and not proxy.gather


def test_rows_are_read_ahead(store, folder):
    """Files of several rows are on their way together, with one worker."""
    with store() as proxy:
        proxy.gather, proxy.gathers = COUNTS[2] + COUNTS[3] + COUNTS[4], lambda size: size > 1
        with loader(folder / "lists.parquet", proxy.root, shuffle=False, skip=2, limit=3, batch_size=3, num_workers=1) as some:
            assert len(rows(some)) == 3
        assert not proxy.gather


def test_more_files_than_a_round_has(store, folder):
    with store() as proxy:
        proxy.gather, proxy.gathers = 64, lambda size: size > 1
        with loader(folder / "lists.parquet", proxy.root, shuffle=False, skip=6, limit=1, num_workers=1) as row:
            assert len(np.asarray(next(iter(row))["x"][0])) == COUNTS[6]
        assert not proxy.gather and proxy.peak == 64


def test_a_file_that_is_missing_is_a_bad_sample(store, folder, tmp_path):
    names = lists()
    names[3][4] = "pictures/gone.jpg"
    pq.write_table(pa.table({"images": names}), tmp_path / "a.parquet")
    with store() as proxy:
        with pytest.raises(stoker.StokerError, match=r"file 5 of 9 that it names") as caught:
            rows(loader(tmp_path / "a.parquet", proxy.root, shuffle=False, skip=3))
        assert "pictures/gone.jpg" in str(caught.value)
        with loader(tmp_path / "a.parquet", proxy.root, on_error="skip") as skips:
            got = rows(skips)
            assert len(got) == len(COUNTS) and skips.stats()["skipped"] >= 1       # those read ahead, too
            bad, = skips.stats()["bad_samples"]
            assert "pictures/gone.jpg" in str(bad)


def test_resume_is_exact(store, folder):
    options = {"batch_size": 2, "num_workers": 2}
    with store() as proxy:
        with loader(folder / "lists.parquet", proxy.root, **options) as whole:
            all_ = rows(whole)
        with loader(folder / "lists.parquet", proxy.root, **options) as first:
            it = iter(first)
            begun = rows([next(it) for _ in range(2)])
            state = first.state_dict()
        with loader(folder / "lists.parquet", proxy.root, **options) as second:
            second.load_state_dict(state)
            assert begun + rows(second) == all_


def test_faults_are_repeated(store, folder):
    with loader(folder / "lists.parquet", folder) as near:
        local = rows(near)
    with store(seed=3, rate=0.1, limit=12, faults=("refuse", "reset", "truncate", "status500", "slow_down")) as proxy:
        with loader(folder / "lists.parquet", proxy.root) as far:
            assert rows(far) == local
        assert proxy.injected() > 3


def test_files_count_towards_the_memory_limit(store, folder, tmp_path):
    """Lists of one name many times: a short list could name any number of large files."""
    big = folder / "pictures" / "big.ppm"
    Image.fromarray(np.zeros((600, 600, 3), np.uint8)).save(big)
    pq.write_table(pa.table({"images": [["pictures/big.ppm"] * 150, ["pictures/big.ppm"] * 5]}), tmp_path / "a.parquet")
    with store() as proxy:
        root = proxy.root if not proxy.signed else folder      # S3 got its pictures before
        with loader(tmp_path / "a.parquet", root, memory_limit=64 << 20, on_error="skip", shuffle=False) as small:
            assert [len(np.asarray(b["x"][0])) for b in small] == [5, 5]
            assert "memory_limit" in str(small.stats()["bad_samples"][0])
        with loader(tmp_path / "a.parquet", root, memory_limit=2 << 30, shuffle=False) as large:
            assert [len(np.asarray(b["x"][0])) for b in large] == [150, 5]
    big.unlink()


def test_two_outputs_read_the_files_once(web, folder):
    chain = 'from(images) | pictures(root="{}") | resize((16, 16)) | to(u8{})'
    with faults.Proxy(web[0]) as proxy:
        root = f"http://127.0.0.1:{proxy.port}"
        with stoker.Loader(str(folder / "lists.parquet"), {"x": chain.format(root, ""), "y": chain.format(root, ", hwc")}, batch_size=8, collate="list") as both:
            batch = next(iter(both))
        assert all((np.asarray(x) == np.asarray(y).transpose(0, 3, 1, 2)).all() for x, y in zip(batch["x"], batch["y"], strict=True))
        assert sum(s > 1 for s in proxy.sizes) == sum(COUNTS)
