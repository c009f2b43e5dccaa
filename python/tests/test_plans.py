# SPDX-License-Identifier: Apache-2.0
"""Plans of a pack: shards are a partition of the samples, whatever the options; what happens to targets that are shared or full."""

import array
import itertools
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from conftest import SAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st
from pack_functions import keep

import stoker
from stoker import _stoker

COUNT = itertools.count()
SMALL = {"jpg": "image | resize(16) | encode(jpeg, 80)", "txt": None}


def shards_of(folder, names="*.tar"):
    return {p.name: p.read_bytes() for p in sorted(Path(folder).glob(names)) if p.name[0] != "."}


def keys_in(path):
    """As another reader sees them: in the order of the members, each once."""
    with tarfile.open(path) as f:
        return list(dict.fromkeys(m.name.partition(".")[0] for m in f))


options = st.fixed_dictionaries({}, optional={
    "samples": st.integers(1, 120), "bytes": st.integers(1, 400_000), "shuffle": st.integers(0, 5),
    "fraction": st.sampled_from([0.001, 0.3, 0.9, 1]), "where": st.sampled_from(["cls >= 0", "cls < 4", "cls > 99"]),
    "balance": st.sampled_from(["cls", "cls:2"]), "dedup": st.sampled_from(["exact", "near"]),
    "select": st.lists(st.integers(0, SAMPLES - 1), max_size=60, unique=True)})


@settings(max_examples=int(os.environ.get("STOKER_PLANS", "25")), derandomize=True)
@given(options=options, parts=st.integers(1, 5), chains=st.booleans())
def test_shards_are_a_partition(urls, tmp_path, options, parts, chains):
    folder = tmp_path / str(next(COUNT))
    fields = SMALL if chains else None
    done = stoker.pack(urls, folder / "one", fields=fields, num_proc=2, **options)
    want = shards_of(folder / "one")
    got = [k for name in want for k in keys_in(folder / "one" / name)]
    assert len(set(got)) == len(got) == done["samples"] and done["shards"] == len(want)
    chosen = options.get("select", range(SAMPLES))
    assert set(map(int, got)) <= set(chosen) and done["left_out"] == len(chosen) - len(got) == sum(done["dropped"].values())
    if not {"fraction", "where", "balance", "dedup"} & set(options):
        assert sorted(map(int, got)) == sorted(chosen)
        assert "shuffle" in options or list(map(int, got)) == list(chosen)
    assert all(0 < len(keys_in(folder / "one" / n)) <= options.get("samples", SAMPLES) for n in want)
    data = stoker.open(urls)
    for i in range(parts):
        made = part(data, folder / "many", fields, options, part=parts - 1 - i, parts=parts)
        there = shards_of(folder / "many")      # what a part reports is what there is, not the whole plan
        assert made["shards"] == len(there) and made["samples"] == sum(len(keys_in(folder / "many" / n)) for n in there)
    part(data, folder / "many", fields, options, merge=True)
    assert shards_of(folder / "many") == want


def part(data, dst, fields, options, **how):
    """What an engine calls: a part of the shards, or the merge."""
    given = {"samples": 0, "bytes": 0, "fraction": 0.0, "where": None, "balance": None, "dedup": None, "compress": None, "arrays": False, "store": None, **options}
    seed, select = given.pop("shuffle", None), given.pop("select", None)
    return _stoker.pack(
        dataset=data._core, dst=os.fsencode(dst), shuffle=seed is not None, seed=seed or 0, name=b"shard", force=False, index=True,
        jpeg=False, num_proc=1, fields=tuple((k.encode(), (v or "").encode()) for k, v in (fields or {}).items()),
        select=None if select is None else array.array("Q", select), exclude=None, keep=(0.0, 0.0), plan_only=False,
        only_failed=False, **{"part": 0, "parts": 0, "merge": False, **how}, **given)


@pytest.mark.parametrize("how", [
    {}, {"shuffle": 3}, {"fields": SMALL}, {"fields": {"x.png": "from(jpg) | image | encode(png)", "n.npy": "from(cls) | int | encode(npy)"}},
    {"split": {"a": 0.5, "b": 0.5}}, {"map": keep, "shuffle": 2}, {"dedup": "near", "balance": "cls"},
    {"compress": "gz"}],
    ids=["copied", "shuffled", "chains", "more", "split", "mapped", "chosen", "compressed"])
def test_webdataset_reads_every_output(urls, tmp_path, how):
    webdataset = pytest.importorskip("webdataset")
    stoker.pack(urls, tmp_path / "out", samples=30, num_proc=2, **how)
    shards = sorted(map(str, (tmp_path / "out").glob("*.tar*")))
    theirs = list(webdataset.WebDataset(shards, shardshuffle=False, empty_check=False))
    ours = stoker.open([Path(p) for p in shards], store=stoker.Store(cache=tmp_path / "cache"))
    assert len(ours) == len(theirs) > 10
    for mine, other in zip(ours, theirs, strict=True):
        assert mine["__key__"] == other["__key__"]
        assert {k: v for k, v in mine.items() if k[0] != "_"} == {k: v for k, v in other.items() if k[0] != "_"}


TWO = """
    import sys, stoker
    from pack_functions import keep
    how = {"chain": {"fields": {"jpg": "image | resize(24) | encode(jpeg, 90)"}}, "map": {"map": keep}, "copy": {},
           "arrays": {"fields": {"x": "from(jpg) | image | resize((40, 40)) | to(u8)"}, "arrays": True}, "lz4": {"compress": "lz4"}}[sys.argv[3]]
    print(stoker.pack(sys.argv[1], sys.argv[2], samples=5, num_proc=1, **how)["kept_shards"])
"""


@pytest.mark.parametrize("kind", ["copy", "chain", "map", "arrays", "lz4"])
def test_packs_to_one_target(urls, tmp_path, kind):
    """They wait for each other; no shard is made twice, and what is there is what one alone makes."""
    code = "\n".join(line[4:] for line in TWO.splitlines())
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    start = [sys.executable, "-c", code, urls]
    all_of_them = [subprocess.Popen([*start, str(tmp_path / "out"), kind], env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    kept = sorted(int(p.communicate(timeout=180)[0]) for p in all_of_them)
    assert kept == [0, 20, 20] and [p.returncode for p in all_of_them] == [0, 0, 0]
    subprocess.run([*start, str(tmp_path / "alone"), kind], env=env, check=True, timeout=180, capture_output=True)
    assert len(shards_of(tmp_path / "out", "*.*")) == 20 and shards_of(tmp_path / "out", "*.*") == shards_of(tmp_path / "alone", "*.*")


FULL = """
    import resource, signal, sys, stoker
    from pack_functions import keep
    how = {"chain": {"fields": {"jpg": "image | resize(60) | encode(png)"}}, "map": {"map": keep}, "copy": {},
           "arrays": {"fields": {"x": "from(jpg) | image | resize((90, 90)) | to(u8)"}, "arrays": True}, "lz4": {"compress": "lz4"}}[sys.argv[3]]
    if sys.argv[4] != "0":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[4]), int(sys.argv[4])))
    print(stoker.pack(sys.argv[1], sys.argv[2], shuffle=1, bytes=60_000, num_proc=1, **how)["kept_shards"])
"""


@pytest.mark.parametrize("kind", ["copy", "chain", "map", "arrays", "lz4"])
def test_a_full_disk_leaves_whole_shards(urls, tmp_path, kind):
    """A limit on file sizes stands for a disk that is full: the run fails with one line, what is there is whole, and it
    goes on when there is room."""
    code = "\n".join(line[4:] for line in FULL.splitlines())
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}

    def pack(dst, room):
        return subprocess.run([sys.executable, "-c", code, urls, str(tmp_path / dst), kind, str(room)], env=env, capture_output=True,
                              text=True, timeout=180)
    pack("want", 0)
    want = shards_of(tmp_path / "want", "*.*")
    sizes = [len(v) for v in want.values()]
    done = pack("out", max(sizes) - 512)
    assert done.returncode == 1 and "no room" in done.stderr, done.stderr
    there = shards_of(tmp_path / "out", "*.*")
    assert all(want[k] == v for k, v in there.items()) and len(there) < len(want)
    assert not [p for p in (tmp_path / "out").iterdir() if p.name.startswith(".") and p.name != ".stoker"]
    done = pack("out", 0)
    assert done.returncode == 0 and int(done.stdout) == len(there), done.stderr
    assert shards_of(tmp_path / "out", "*.*") == want
