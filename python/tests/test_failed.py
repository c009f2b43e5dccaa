# SPDX-License-Identifier: Apache-2.0
"""A bad sample costs that sample: every one is listed with its own reason, and can be made again, from a plan and in parts too."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from pack_functions import keep, letters, stumble

import stoker

CLI = os.environ.get("STOKER_CLI", str(Path(stoker.__file__).parent / "stoker-cli"))
NUMBER = {"n": "from(txt) | int | encode(text)", "txt": None}
CHAIN = "n=from(txt) | int | encode(text)"


def write(folder, bad, n=60):
    folder.mkdir()
    with stoker.Writer(folder / "s-%d.tar", n // 4) as w:
        for i in range(n):
            w.write({"__key__": f"k{i:05d}", "txt": f"bad{i}" if i in bad else str(i)})
    return folder


def run(*words, fails=False):
    done = subprocess.run([CLI, "pack", *map(str, words)], capture_output=True, text=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def listed(out):
    return sorted((json.loads(line) for f in (out / ".stoker").glob("*.failed") for line in f.read_text().splitlines()),
                  key=lambda r: r["sample"])


def numbers(out, name="shard"):
    return sorted(int(s["n"]) for f in out.glob(f"{name}-*.tar") for s in stoker.open(f))


def repair(folder, bad=()):
    for f in sorted(folder.rglob("*"), reverse=True):
        f.unlink() if f.is_file() else f.rmdir()
    folder.rmdir()
    return write(folder, bad)


def test_most_are_bad(tmp_path):
    """Nothing stands in for them, so nothing runs out of what could; the reasons of all are kept."""
    good = set(range(0, 3000, 60))
    src = write(tmp_path / "raw", set(range(3000)) - good, n=3000)
    done = stoker.pack(src, tmp_path / "out", fields=NUMBER, samples=500, num_proc=2)
    assert (done["samples"], done["failed"]) == (50, 2950)
    rows = listed(tmp_path / "out")
    assert len(rows) == 2950 and all(r["key"] == f"k{r['sample']:05d}" and f"bad{r['sample']}" in r["reason"] for r in rows)
    assert numbers(tmp_path / "out") == sorted(good)


def test_none_can_be_made(tmp_path):
    src = write(tmp_path / "raw", set(range(60)))
    with pytest.raises(stoker.StokerError, match="none of the first 60 samples could be made: .*bad"):
        stoker.pack(src, tmp_path / "out", fields=NUMBER)
    assert not list((tmp_path / "out").glob("*.tar"))


@pytest.mark.parametrize("merged", [False, True])
def test_again_from_a_plan(tmp_path, merged):
    src, out, plan = write(tmp_path / "raw", {3, 17, 44}), tmp_path / "out", tmp_path / "plan.json"
    run(src, out, "--field", CHAIN, "--samples", 7, "--write-plan", plan)
    for i in range(3):
        run("--from-plan", plan, "--part", f"{i}/3")
    if merged:
        run("--from-plan", plan, "--merge")
    assert {r["sample"] for r in listed(out)} == {3, 17, 44}
    assert "none of the first 3 samples" in run("--from-plan", plan, "--only", "failed", fails=True)
    repair(src, {17})
    assert run("--from-plan", plan, "--only", "failed").startswith("2 samples in 1 shard")
    assert numbers(out, "shard-again") == [3, 44] and numbers(out) == [i for i in range(60) if i != 17]
    assert "take --part" in run("--from-plan", plan, "--only", "failed", "--shard", 0, fails=True)


def test_again_of_a_split(tmp_path):
    src, out, plan = write(tmp_path / "raw", {3}), tmp_path / "out", tmp_path / "plan.json"
    words = [src, out, "--field", CHAIN, "--split", "a=0.5,b=0.5"]
    run(*words, "--write-plan", plan)
    run("--from-plan", plan)
    repair(src)
    said = run("--from-plan", plan, "--only", "failed")
    assert "1 sample in 1 shard" in said and "nothing to do" in said
    assert sorted(numbers(out, "a") + numbers(out, "b")) == list(range(60))
    again = stoker.pack(src, out, fields={"n": NUMBER["n"]}, split={"a": 0.5, "b": 0.5}, only="failed")
    assert sorted(r["samples"] for r in again.values()) == [0, 1]


def test_again_in_parts(tmp_path):
    bad = set(range(0, 60, 3))
    src, out, plan = write(tmp_path / "raw", bad), tmp_path / "out", tmp_path / "plan.json"
    run(src, out, "--field", CHAIN, "--samples", 4, "--write-plan", plan)
    run("--from-plan", plan)
    repair(src)
    for i in range(2):
        run("--from-plan", plan, "--only", "failed", "--part", f"{i}/2")
    run("--from-plan", plan, "--only", "failed", "--merge")
    assert numbers(out, "shard-again") == sorted(bad) and len(list(out.glob("shard-again-*.tar"))) == 5


def test_a_list_of_other_samples(tmp_path):
    src, out = write(tmp_path / "raw", {3}), tmp_path / "out"
    stoker.pack(src, out, fields=NUMBER)
    (src / "s-0.tar").unlink()
    with pytest.raises(stoker.StokerError, match='sample 3 is not the "k00003" that failed'):
        stoker.pack(f"{src}/*.tar", out, fields=NUMBER, only="failed")


def test_functions_again(tmp_path):
    """Another function is another pack; those that failed are made by it, into shards of their own."""
    src, out = write(tmp_path / "raw", ()), tmp_path / "out"
    done = stoker.pack(src, out, map=stumble, on_error="skip", samples=20, num_proc=2)
    assert (done["samples"], done["failed"]) == (59, 1) and [r["key"] for r in listed(out)] == ["k00042"]
    again = stoker.pack(src, out, map=keep, only="failed", num_proc=1)
    assert (again["samples"], again["shards"]) == (1, 1)
    (shard,) = out.glob("shard-again-*.tar")
    assert [s["__key__"] for s in stoker.open(shard)] == ["k00042"] and len(list(out.glob("shard-0*.tar"))) == 3


def test_tokens_again(tmp_path):
    src, out = write(tmp_path / "raw", ()), tmp_path / "out"
    done = stoker.pack(src, out, map=stumble, tokenize=letters, on_error="skip", samples=30, num_proc=1)
    assert done["failed"] == 1
    assert stoker.pack(src, out, map=keep, tokenize=letters, only="failed", num_proc=1)["samples"] == 1
    assert [f.name for f in out.glob("*again*")] and not list(out.glob("*.tar"))
