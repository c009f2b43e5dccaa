# SPDX-License-Identifier: Apache-2.0
"""stoker.Writer and stoker.pack: what comes back, who else can read it, what a failure leaves."""

import io
import json
import os
import subprocess
import tarfile

import numpy as np
import pytest
from conftest import SAMPLES, check_python, picture, run_python
from pack_functions import keep, seven, shout, stumble
from PIL import Image

import stoker


def samples_of(url):
    return [{k: v for k, v in s.items() if k != "__url__"} for s in stoker.open(str(url))]


def names_in(folder):
    return sorted(p.name for p in folder.iterdir() if p.name != ".stoker")


# ---- Writer ---------------------------------------------------------------------------------------

def test_writer_values(tmp_path):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    image = picture(1)
    with stoker.Writer(tmp_path / "w-%03d.tar", max_count=2) as out:
        for i in range(5):
            out.write({"__key__": f"a/{i}", "bin": b"\0\xff", "txt": "größe", "cls": np.int64(i),
                       "score": 0.5, "age": np.array(i), "flag": np.bool_(1), "zero.npy": np.array(i), "meta.json": {"n": i, "s": "ü"}, "points.npy": array,
                       "png": image, "jpg": np.asarray(image), "__url__": "ignored"})
        assert out.samples == 5 and out.shards == 2
    assert names_in(tmp_path) == ["w-000.tar", "w-001.tar", "w-002.tar"]
    found = samples_of(tmp_path)
    assert [s["__key__"] for s in found] == [f"a/{i}" for i in range(5)]
    last = found[-1]
    assert last["bin"] == b"\0\xff" and last["txt"].decode() == "größe"
    assert last["cls"] == b"4" and last["score"] == b"0.5" and last["age"] == b"4"
    assert np.load(io.BytesIO(last["flag"])) and np.load(io.BytesIO(last["zero.npy"])) == 4
    assert json.loads(last["meta.json"]) == {"n": 4, "s": "ü"}
    assert np.array_equal(np.load(io.BytesIO(last["points.npy"])), array)
    assert np.array_equal(Image.open(io.BytesIO(last["png"])), image)
    assert Image.open(io.BytesIO(last["jpg"])).size == image.size


def test_writer_is_read_by_others(tmp_path):
    webdataset = pytest.importorskip("webdataset")
    keys = ["plain", "d.x/y", "n" * 90 + "/" + "m" * 80, "é" * 70]
    with stoker.Writer(tmp_path / "w-%d.tar") as out:
        for k in keys:
            out.write({"__key__": k, "txt": k, "cls": 3})
    shard = tmp_path / "w-0.tar"
    assert [(s["__key__"], s["txt"]) for s in webdataset.WebDataset(str(shard), shardshuffle=False)] \
        == [(k, k.encode()) for k in keys]
    subprocess.run(["tar", "xf", shard, "-C", tmp_path], check=True)
    assert all((tmp_path / f"{k}.txt").read_text() == k for k in keys)
    with tarfile.open(shard) as tar:
        assert {(m.mtime, m.mode, m.uid) for m in tar} == {(0, 0o444, 0)}


def test_writer_by_size(tmp_path):
    with stoker.Writer(tmp_path / "w-%d.tar", max_size="10KB") as out:
        for i in range(20):
            out.write({"__key__": str(i), "bin": bytes(2000)})
    sizes = [p.stat().st_size for p in tmp_path.glob("*.tar")]
    assert len(sizes) == 7 and max(sizes) <= 11000


@pytest.mark.parametrize("sample, words", [
    ({"txt": "x"}, '"__key__"'), ({"__key__": 3, "txt": "x"}, '"__key__"'),
    ({"__key__": "a.b", "txt": "x"}, "would not be read back"),
    ({"__key__": "a"}, "has no fields"), ({"__key__": "a", "x/y": "x"}, "not a name of a field"),
    ({"__key__": "a", "txt": None}, "has no bytes of its own"),
    ({"__key__": "a", "txt": object()}, "a object can't be written"),
    ({"__key__": "a", "npy": np.array([object()])}, "pickled"),
    ({"__key__": "a", "jpg": np.zeros((4, 4), np.float32)}, "uint8"),
    ({"__key__": "a", "json": {"x": float("nan")}}, "no JSON"),
])
def test_writer_refuses(tmp_path, sample, words):
    with stoker.Writer(tmp_path / "w-%d.tar") as out:
        out.write({"__key__": "good", "txt": "x"})
        with pytest.raises(ValueError, match=words):
            out.write(sample)
        out.write({"__key__": "better", "txt": "x"})
    assert [s["__key__"] for s in samples_of(tmp_path)] == ["good", "better"]


def test_writer_drops_what_an_exception_left(tmp_path):
    with pytest.raises(ZeroDivisionError), stoker.Writer(tmp_path / "w-%d.tar", 1) as out:
        out.write({"__key__": "a", "txt": "x"})
        out.write({"__key__": "b", "txt": "x"})
        raise ZeroDivisionError
    assert names_in(tmp_path) == ["w-0.tar"]
    with pytest.raises(stoker.StokerError, match="closed"):
        out.write({"__key__": "c", "txt": "x"})


def test_writer_never_replaces_unasked(tmp_path):
    for force in (False, True):
        with stoker.Writer(tmp_path / "w-%d.tar", force=force) as out:
            out.write({"__key__": "a", "txt": str(force)})
    assert samples_of(tmp_path)[0]["txt"] == b"True"
    with pytest.raises(ValueError, match="is there already"), stoker.Writer(tmp_path / "w-%d.tar") as out:
        out.write({"__key__": "a", "txt": "no"})
    assert samples_of(tmp_path)[0]["txt"] == b"True"


def test_writer_of_a_killed_process(tmp_path):
    code = """
        import os, sys, stoker
        out = stoker.Writer(sys.argv[1] + "/w-%d.tar")
        out.write({"__key__": "a", "bin": bytes(5_000_000)})
        os.kill(os.getpid(), 9)
    """
    assert run_python(code, tmp_path).returncode == -9
    assert len(names_in(tmp_path)) == 1 and ".tmp." in names_in(tmp_path)[0]
    with stoker.Writer(tmp_path / "w-%d.tar") as out:
        out.write({"__key__": "b", "txt": "x"})
    assert names_in(tmp_path) == ["w-0.tar"]


# ---- pack -----------------------------------------------------------------------------------------

def test_pack_is_equal(urls, tmp_path):
    done = stoker.pack(urls, tmp_path / "out", samples=30, name="train")
    assert {k: done[k] for k in ("shards", "samples", "kept_shards", "changed_keys")} \
        == {"shards": 4, "samples": SAMPLES, "kept_shards": 0, "changed_keys": 0}
    assert samples_of(done["pattern"]) == samples_of(urls)
    assert stoker.pack(urls, tmp_path / "out", samples=30, name="train")["kept_shards"] == 4
    with pytest.raises(ValueError, match="not of this pack"):
        stoker.pack(urls, tmp_path / "out", samples=31, name="train")
    assert stoker.pack(urls, tmp_path / "out", samples=50, name="train", force=True)["shards"] == 2
    assert len(names_in(tmp_path / "out")) == 2


def test_pack_shuffled(urls, tmp_path):
    one = stoker.pack(urls, tmp_path / "one", samples=20, shuffle=3, num_proc=1)
    two = stoker.pack(urls, tmp_path / "two", samples=20, shuffle=3, num_proc=4)
    a, b, all_of = samples_of(one["pattern"]), samples_of(two["pattern"]), samples_of(urls)
    assert a == b != all_of
    assert sorted(a, key=lambda s: s["__key__"]) == all_of


def test_pack_mapped(urls, tmp_path):
    want = [m for s in stoker.open(urls) for m in [shout(s)] if m]
    want = [m for w in want for m in (w if isinstance(w, list) else [w])]
    for workers in (1, 3):
        done = stoker.pack(urls, tmp_path / f"{workers}/m-%02d.tar", map=shout, num_proc=workers, samples=8)
        assert done["samples"] == len(want) == SAMPLES
        assert [(s["__key__"], int(s["cls"])) for s in samples_of(done["pattern"])] \
            == [(w["__key__"], w["cls"]) for w in want]
    one, three = ([p.read_bytes() for p in sorted((tmp_path / w).glob("*.tar"))] for w in "13")
    assert one == three and len(one) == done["shards"]
    assert stoker.pack(urls, tmp_path / "1/m-%02d.tar", map=shout, num_proc=1, samples=8)["kept_shards"] == len(one)
    (tmp_path / "1/m-03.tar").unlink()
    again = stoker.pack(urls, tmp_path / "1/m-%02d.tar", map=shout, num_proc=2, samples=8)
    assert again["kept_shards"] == len(one) - 1
    assert [p.read_bytes() for p in sorted((tmp_path / "1").glob("*.tar"))] == one
    with pytest.raises(ValueError, match="force=True"):
        stoker.pack(urls, tmp_path / "1/m-%02d.tar", map=shout, num_proc=1)
    assert stoker.pack(urls, tmp_path / "1/m-%02d.tar", map=shout, num_proc=1, force=True)["shards"] == 1
    assert names_in(tmp_path / "1") == ["m-00.tar"]


def test_pack_mapped_failure(urls, tmp_path):
    with pytest.raises(stoker.StokerError, match="map failed for sample 000042: KeyError") as e:
        stoker.pack(urls, tmp_path / "out", map=stumble, num_proc=2, samples=10)
    assert (e.value.key, e.value.sample) == ("000042", 42)
    whole = stoker.pack(urls, tmp_path / "whole", map=keep, num_proc=1, samples=10)
    for path in (tmp_path / "out").glob("*.tar"):       # what was finished stays, and is whole
        assert len(stoker.open(path)) == 10
    assert whole["shards"] == 10
    with pytest.raises(ValueError, match="not 7"):
        stoker.pack(urls, tmp_path / "seven", map=seven, num_proc=1)


def test_pack_mapped_spawn(urls, tmp_path, monkeypatch):
    """With other threads about, processes are spawned: the function must be importable."""
    script = tmp_path / "job.py"
    script.write_text("def keep(s):\n    return {'__key__': s['__key__'], 'txt': s['txt']}\n")
    code = """
        import sys, threading
        sys.path.insert(0, sys.argv[3])
        import job, stoker
        if __name__ == "__main__":
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            print(stoker.pack(sys.argv[1], sys.argv[2], map=job.keep, num_proc=2, samples=40)["shards"])
    """
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert check_python(code, urls, tmp_path / "out", tmp_path).strip() == "3"


def test_packed_folders_keep_their_classes(tmp_path):
    for name in ("bee", "ant"):
        (tmp_path / "src" / name).mkdir(parents=True)
        picture(3).save(tmp_path / "src" / name / "0.jpg")
    stoker.pack(tmp_path / "src", tmp_path / "dst")
    ds = stoker.open(tmp_path / "dst")
    assert ds.classes == ["ant", "bee"] and ds.class_to_idx == {"ant": 0, "bee": 1}
    assert [s["cls"] for s in ds] == [b"0", b"1"]
