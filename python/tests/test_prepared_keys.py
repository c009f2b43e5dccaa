# SPDX-License-Identifier: Apache-2.0
"""What prepared() and packs are known by: nothing that makes other samples may be taken for what is there."""

import ctypes
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pack_functions as f
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SAMPLES
from PIL import Image

import stoker
from stoker._fingerprint import function_fingerprint


def body(text):
    """A function as a notebook has it."""
    space = {"__name__": "__main__"}
    exec(f"def made(s):\n    {text}", space)
    return space["made"]


def test_other_functions_have_other_prints(monkeypatch):
    functions = [f.keep, f.odd, f.helped, f.adder("a"), f.adder("b"), f.adder("b", 3), f.Adder("a"), f.Adder("b"), f.Adder("a").method,
                 f.Adder("b").method, functools.partial(f.keep), functools.partial(f.keep, a=1), functools.partial(f.odd, a=1),
                 f.adder(np.arange(3)), f.adder(np.arange(4)), f.adder({1, 2}), f.adder({1, 3}), f.adder({"a": [1]}), f.adder({"a": [2]}),
                 body("return s"), body("return [s]"), body("return [x for x in (1, 2)]"), body("return [x for x in (1, 3)]"),
                 body("return (lambda: 1)()"), body("return (lambda: 2)()"), body("return s in {'a', 'b'}"), body("return s in {'a', 'c'}"),
                 body("try: a(); b()\n    except E: c()"), len, max, json.loads, os.path.join]
    prints = [function_fingerprint(fn) for fn in functions]
    assert len(set(prints)) == len(prints)
    assert prints == [function_fingerprint(fn) for fn in functions]
    assert function_fingerprint(f.adder("a")) == function_fingerprint(f.adder("a"))
    before = function_fingerprint(f.helped)
    monkeypatch.setattr(f, "SUFFIX", "?")                    # a value that a function of ours uses, two calls away
    assert function_fingerprint(f.helped) != before
    monkeypatch.setattr(f, "SUFFIX", "!")
    assert function_fingerprint(f.helped) == before
    monkeypatch.setattr(f, "helper", f.letters)
    assert function_fingerprint(f.helped) != before


def test_a_version_of_ones_own_is_all_that_counts():
    one, two = body("return s"), body("return [s]")
    one.stoker_version = two.stoker_version = 3
    assert function_fingerprint(one) == function_fingerprint(two)
    two.stoker_version = 4
    assert function_fingerprint(one) != function_fingerprint(two)


def test_objects_that_answer_any_name():
    class Any:
        def __getattr__(self, name):
            raise KeyError(name) if name == "stoker_version" else AttributeError(name)

    assert function_fingerprint(f.adder(Any())) == function_fingerprint(f.adder(Any()))


def test_fingerprints_are_the_same_in_every_process():
    """Ranks have to agree: the order of a set is another one in each."""
    code = ("import pack_functions as f; from stoker._fingerprint import function_fingerprint as p; import numpy as np; "
            "print([p(x) for x in (f.some_set, f.helped, f.adder('a'), f.adder({'a', 'b', 'c'}), f.adder(np.arange(5)), f.Adder('x').method, f.adder(f.Words('abc')))])")
    seen = set()
    for seed in "1", "2", "77":
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=True,
                              env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(Path(f.__file__).parent), *sys.path])})
        seen.add(done.stdout)
    assert len(seen) == 1


def texts(data):
    return [data[i]["txt"] for i in range(len(data))]


@pytest.fixture
def lines(tmp_path):
    with stoker.Writer(tmp_path / "src/s-%03d.tar", max_count=10) as out:
        for i in range(20):
            out.write({"__key__": f"{i:04d}", "txt": f"t{i}", "cls": i % 4})
    return str(tmp_path / "src/*.tar")


def test_nothing_stale_is_opened(lines, tmp_path):
    here = tmp_path / "prepared"

    def made(**options):
        return texts(stoker.prepared(options.pop("src", lines), here, num_proc=1, **options))

    assert made(map=f.adder("a"))[0] == b"t0a" and made(map=f.adder("b"))[0] == b"t0b"
    assert made(map=f.Adder("c"))[0] == b"t0c" and made(map=f.Adder("d"))[0] == b"t0d"
    assert made(flat_map=body("return [s]"))[:2] == [b"t0", b"t1"] and made(flat_map=body("return [s, {**s, '__key__': 'x'}]"))[:2] == [b"t0", b"t0"]
    for label in 1, 2:
        assert made(src=stoker.open(lines, where=f"cls = {label}")) == [f"t{i}".encode() for i in range(label, 20, 4)]
    long = np.arange(5000) % 20
    other = long.copy()
    other[2500] = 19                            # where repr() has dots
    assert made(select=long)[2500] == b"t0" and made(select=other)[2500] == b"t19"
    bad = tmp_path / "bad.txt"
    for n in 1, 2:
        bad.write_text("".join(json.dumps({"shard": "s-000.tar", "key": f"{k:04d}"}) + "\n" for k in range(n)))
        assert len(made(exclude=bad)) == 20 - n
    for letter in "ab":
        table = pa.table({"txt": [f"{letter}{i}" for i in range(9)]})
        assert made(src=table)[3] == f"{letter}3".encode() and made(src=table, filter=f.keep)[3] == f"{letter}3".encode()


def test_another_version_of_an_own_op_is_another_pack(tmp_path):
    numbers = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p)
    with stoker.Writer(tmp_path / "src/s-%03d.tar") as out:
        out.write({"__key__": "0", "x": b"1 2 3"})

    def change(by):
        def run(at, n, args):
            row = (ctypes.c_float * n).from_address(at)
            row[:] = [v + by for v in row]
        return numbers(run)

    def made(version, op=None):
        if op is not None:
            stoker.op(op, name="shift_by", dtype="f32", version=version)
        fields = {"x": "floats | shift_by() | encode(json)"}
        stoker.pack(str(tmp_path / "src/*.tar"), tmp_path / f"packed{version}", fields=fields)
        return stoker.prepared(str(tmp_path / "src/*.tar"), tmp_path / "p", fields=fields)[0]["x"]

    assert made(1, change(1)) == made(1) != made(2, change(2))
    with pytest.raises(ValueError, match="not of this pack"):
        made(1)


def test_the_same_is_made_once(lines, tmp_path):
    for _ in range(2):
        stoker.prepared(lines, tmp_path / "p", flat_map=body("return [s]"), num_proc=1)
        stoker.prepared(lines, tmp_path / "p", tokenize=stoker.Tokens(f.letters, end=3), num_proc=1)
        stoker.prepared(pa.table({"txt": ["a", "b"]}), tmp_path / "p", num_proc=1)
    assert len(os.listdir(tmp_path / "p")) == 3


def test_prepared_arrays(lines, tmp_path):
    made = stoker.prepared(lines, tmp_path / "p", fields={"y": "from(cls) | int", "txt": None}, arrays=True, samples=6)
    assert [int(made[i]["y"]) for i in range(len(made))] == [i % 4 for i in range(20)]


def test_nothing_left_is_said(lines, tmp_path):
    for _ in range(2):
        with pytest.raises(ValueError, match="no sample is left to prepare, 20 were left out"):
            stoker.prepared(lines, tmp_path / "p", where="cls > 99")


def test_limit_takes_the_first_that_satisfy(lines, tmp_path):
    part = stoker.open(lines, where="cls = 1")
    for source, options, want in ((part, {}, [1, 5, 9]), (lines, {"where": "cls = 1"}, [1, 5, 9]), (part, {"where": "cls < 3"}, [1, 5, 9]),
                                  (lines, {"select": [7, 3, 5, 1, 6]}, [7, 3, 5]), (part, {"select": [4, 2, 0, 1]}, [17, 9, 1]),
                                  (lines, {"select": [7, 3, 5, 1, 6], "where": "cls = 1"}, [5, 1])):
        for more in {}, {"filter": f.keep}:
            made = stoker.prepared(source, tmp_path / "p", limit=3, num_proc=1, **options, **more)
            assert texts(made) == [f"t{i}".encode() for i in want], (options, more)


def test_select_of_a_part_goes_by_its_numbers(lines, tmp_path):
    part = stoker.open(lines, where="cls = 1")
    for name, more in ("a", {}), ("b", {"map": f.keep}):
        stoker.pack(part, tmp_path / name, select=[1, 0], num_proc=1, **more)
        assert texts(stoker.open(tmp_path / name)) == [b"t5", b"t1"]
        with pytest.raises(ValueError, match="no sample 5, the data has 5"):
            stoker.pack(part, tmp_path / name, select=[5], force=True, **more)


def test_rows_of_hugging_face(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"txt": [f"h{i}" for i in range(10)]}).select([7, 3, 5])
    for name, more in ("a", {}), ("b", {"map": f.keep}), ("c", {"map": f.keep, "select": [2, 0]}):
        stoker.pack(rows, tmp_path / name, num_proc=1, **more)
        assert texts(stoker.open(tmp_path / name)) == ([b"h5", b"h7"] if name == "c" else [b"h7", b"h3", b"h5"])


def test_other_rows_are_another_pack(tmp_path):
    """As many rows of the same table, or of one in memory: not what is there."""
    pq.write_table(pa.table({"txt": [f"row{i}" for i in range(30)], "n": list(range(30))}), tmp_path / "t.parquet")
    stoker.pack(tmp_path / "t.parquet", tmp_path / "out", where="n < 10")
    assert stoker.pack(tmp_path / "t.parquet", tmp_path / "out", where="n < 10")["kept_shards"] == 1
    with pytest.raises(ValueError, match="not of this pack"):
        stoker.pack(tmp_path / "t.parquet", tmp_path / "out", where="n >= 20")
    stoker.pack(pa.table({"txt": ["a", "b"]}), tmp_path / "memory")
    assert stoker.pack(pa.table({"txt": ["a", "b"]}), tmp_path / "memory")["kept_shards"] == 1
    with pytest.raises(ValueError, match="not of this pack"):
        stoker.pack(pa.table({"txt": ["a", "c"]}), tmp_path / "memory")


def test_rows_in_memory_are_weighed(tmp_path):
    table = pa.table({"x": [bytes(100_000)] * 50})
    assert stoker.pack(table, tmp_path / "out", bytes="1MB")["shards"] >= 5


def test_equal_keys_in_other_shards_are_other_samples(tmp_path):
    for shard in "ab":
        with stoker.Writer(tmp_path / f"src/{shard}-%d.tar") as out:
            for i in range(5):
                out.write({"__key__": str(i), "txt": shard})
    data = stoker.open(str(tmp_path / "src/*.tar"))
    stoker.pack(data, tmp_path / "out", select=range(5))
    with pytest.raises(ValueError, match="not of this pack"):
        stoker.pack(data, tmp_path / "out", select=range(5, 10))


def test_folders_of_pictures_through_functions(tmp_path):
    """Their keys have dots: members are called as a pack without functions calls them."""
    for name in "cat/1.PNG", "cat/2.b.png", "dog/3.png":
        (tmp_path / "f" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "f" / name, "PNG")
    plain = stoker.pack(tmp_path / "f", tmp_path / "a")
    for i, options in enumerate(({"filter": f.keep}, {"map": f.keep})):
        done = stoker.pack(tmp_path / "f", tmp_path / f"b{i}", num_proc=1, **options)
        assert done["changed_keys"] == plain["changed_keys"] == 1
        assert (tmp_path / f"b{i}/shard-000000.tar").read_bytes() == (tmp_path / "a/shard-000000.tar").read_bytes()


def test_of_a_sample_that_fails_nothing_is_written(urls, tmp_path):
    done = stoker.pack(urls, tmp_path / "out", flat_map=f.second_is_bad, on_error="skip", samples=50, num_proc=2)
    bad = sum(int(k) % 10 == 7 for k in range(SAMPLES))
    assert (done["failed"], done["samples"]) == (bad, 2 * (SAMPLES - bad))
    made = stoker.open(tmp_path / "out")
    assert not [k for k in (made[i]["__key__"] for i in range(len(made))) if k[-2] == "7"]


def test_functions_that_make_nothing_at_all(urls, tmp_path):
    with pytest.raises(ValueError, match=f"none of the {SAMPLES} samples could be made: map answers"):
        stoker.pack(urls, tmp_path / "out", map=f.seven, on_error="skip", samples=50, num_proc=2)
    assert stoker.pack(urls, tmp_path / "none", filter=f.nothing, samples=50, num_proc=2)["dropped"]["functions"] == SAMPLES


def test_a_function_can_not_swallow_its_timeout(urls, tmp_path):
    done = stoker.pack(urls, tmp_path / "out", map=f.swallows, on_error="skip", timeout=5, samples=50, num_proc=2)
    assert (done["failed"], done["samples"]) == (1, SAMPLES - 1)


def test_chains_and_functions_say_the_same_of_how(urls, tmp_path):
    what = {"samples": 30, "where": "cls < 3", "fraction": 0.9, "shuffle": 4}
    how = {}
    for name, more in {"chain": {"fields": {"cls": "int | encode(text)"}}, "map": {"map": f.keep, "timeout": 60},
                       "tokens": {"tokenize": stoker.Tokens(f.letters, field="txt", end=1), "filter": f.some_set, "on_error": "skip"}}.items():
        stoker.pack(urls, tmp_path / name, **what, **more)
        end = "bin" if name == "tokens" else "tar"
        how[name] = json.loads((tmp_path / name / f".stoker/shard-%06d.{end}.made.json").read_text())
    shared = ("stoker", "first_source", "sources", "source_fingerprint", "samples", "shards", "where", "fraction", "shuffle", "samples_per_shard")
    for name in shared:
        assert how["chain"][name] == how["map"][name] == how["tokens"][name], name
    assert len({h["fingerprint"] for h in how.values()}) == 3
    assert how["map"]["map"] == {"function": "pack_functions.keep", "fingerprint": function_fingerprint(f.keep)[-16:]} and how["map"]["timeout"] == 60
    assert how["tokens"]["tokenize"]["end"] == 1 and how["tokens"]["filter"]["function"] == "pack_functions.some_set"
    assert how["tokens"]["on_error"] == "skip" and Path(how["chain"]["first_source"]).exists()
