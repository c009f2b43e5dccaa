# SPDX-License-Identifier: Apache-2.0
"""Preparing data: chains and functions at pack time, parts of the data, plans that many processes share."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conftest import SAMPLES, jpeg, picture
from pack_functions import keep, odd, stuck, twice
from PIL import Image

import stoker

CLI = os.environ.get("STOKER_CLI", str(Path(stoker.__file__).parent / "stoker-cli"))
SMALL = {"jpg": "image | resize(32) | encode(jpeg, 90)"}


def run_cli(*args, code=0):
    done = subprocess.run([CLI, *args], capture_output=True, text=True, timeout=180)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def shards_of(folder):
    return {p.name: p.read_bytes() for p in sorted(Path(folder).glob("*.tar"))}


def keys_of(data):
    return [data[i]["__key__"] for i in range(len(data))]


def test_chains_make_fields(urls, tmp_path):
    done = stoker.pack(urls, tmp_path / "out", fields={**SMALL, "txt": None, "cls": "int | encode(text)"}, samples=30)
    assert (done["shards"], done["samples"], done["failed"]) == (4, SAMPLES, 0)
    before, after = stoker.open(urls), stoker.open(tmp_path / "out")
    assert keys_of(before) == keys_of(after)
    for i in (0, 17, SAMPLES - 1):
        assert set(after[i]) - set(before[i]) == set() and "txt" not in after[i]
        assert after[i]["cls"] == before[i]["cls"] and after[i]["json"] == before[i]["json"]
        want = np.asarray(stoker.open(urls, {"x": "from(jpg) | image | resize(32) | to(u8, hwc)"})[i]["x"])
        with io.BytesIO() as f:
            Image.fromarray(want).save(f, "JPEG", quality=90)
            made = np.asarray(Image.open(io.BytesIO(f.getvalue())))
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(after[i]["jpg"]))), made)


def test_every_encoder_is_read_back(urls, tmp_path):
    fields = {"png": "from(jpg) | image | resize(24) | encode(png)", "webp": "from(jpg) | image | encode(webp, lossless=true)",
              "npy": "from(jpg) | image | resize(24) | encode(npy)", "n.json": "from(cls) | int | encode(json)",
              "raw": "from(txt) | bytes | encode(raw)", "t.json": "from(txt) | text | encode(json)"}
    stoker.pack(urls, tmp_path / "out", fields=fields)
    before, after = stoker.open(urls)[5], stoker.open(tmp_path / "out")[5]
    small = np.asarray(Image.open(io.BytesIO(after["png"])))
    assert np.array_equal(small, np.load(io.BytesIO(after["npy"])).transpose(1, 2, 0))
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(after["webp"])).convert("RGB")),
                          np.asarray(Image.open(io.BytesIO(before["jpg"])).convert("RGB")))
    assert json.loads(after["n.json"]) == int(before["cls"]) and after["raw"] == before["txt"]
    assert json.loads(after["t.json"]) == before["txt"].decode()


def test_equal_bytes_however_it_is_done(urls, tmp_path):
    """Draws belong to the sample's place in the plan, not to the worker, the part or the run."""
    fields = {"jpg": "image | random_resized_crop(24) | hflip | encode(jpeg, 80)"}
    options = {"fields": fields, "samples": 13, "shuffle": 5}
    stoker.pack(urls, tmp_path / "one", num_proc=1, **options)
    want = shards_of(tmp_path / "one")
    stoker.pack(urls, tmp_path / "many", num_proc=8, **options)
    assert shards_of(tmp_path / "many") == want
    for name in list(want)[1::3]:
        (tmp_path / "one" / name).unlink()
    assert stoker.pack(urls, tmp_path / "one", **options)["kept_shards"] == len(want) - len(list(want)[1::3])
    assert shards_of(tmp_path / "one") == want


def test_how_it_was_made(urls, tmp_path):
    stoker.pack(urls, tmp_path / "out", fields={**SMALL, "txt": None}, where="cls < 3", shuffle=7, samples=30)
    how = json.loads((tmp_path / "out/.stoker/shard-%06d.tar.made.json").read_text())
    assert how["stoker"] == stoker.__version__ and how["first_source"].endswith("train-000.tar") and how["sources"] == 3
    assert how["fields"] == {**SMALL, "txt": None} and (how["where"], how["shuffle"]) == ("cls < 3", 7)


def read_so_far():
    with open("/proc/self/io") as f:
        return int(f.readline().split()[1])


def test_every_byte_is_read_once(tmp_path):
    """Fields that are copied are read beside the loader, which reads the others."""
    with stoker.Writer(tmp_path / "s-%d.tar", 100) as w:
        for i in range(200):
            w.write({"__key__": f"{i:04d}", "big": bytes([i]) * 50_000, "txt": f"text {i}", "zzz": b"z" * 50_000})
    src = stoker.open(str(tmp_path / "s-*.tar"))
    before = read_so_far()
    done = stoker.pack(src, tmp_path / "out", fields={"big": "bytes | encode(raw)"}, num_proc=1, index=False)
    assert done["samples"] == 200 and 20_000_000 <= done["bytes"]
    assert read_so_far() - before < 24_000_000
    made = stoker.open(tmp_path / "out")[77]
    assert (made["big"], made["txt"], made["zzz"]) == (bytes([77]) * 50_000, b"text 77", b"z" * 50_000)


def test_a_bad_sample_costs_that_sample(damaged, tmp_path):
    fields = {"jpg": "image | resize(16) | encode(jpeg)", "cls": "int | encode(text)"}
    done = stoker.pack(damaged, tmp_path / "out", fields=fields, samples=10)
    assert (done["samples"], done["failed"]) == (37, 3)
    (listed,) = (tmp_path / "out/.stoker").glob("*.failed")
    rows = [json.loads(line) for line in listed.read_text().splitlines()]
    assert [r["sample"] for r in rows] == [7, 21, 30] and all(r["reason"] for r in rows)
    assert stoker.pack(damaged, tmp_path / "out", fields=fields, samples=10)["failed"] == 3     # kept with the shards
    again = stoker.pack(damaged, tmp_path / "out", fields={"jpg": "bytes | encode(raw)"}, only="failed")
    assert again["samples"] == 3 and len(list((tmp_path / "out").glob("shard-again-*.tar"))) == 1


def test_parts_of_the_data(urls, tmp_path):
    done = stoker.pack(urls, tmp_path / "s", split={"train": 0.8, "val": 0.2}, fields=SMALL, samples=20)
    train, val = (set(keys_of(stoker.open(str(tmp_path / f"s/{n}-*.tar")))) for n in ("train", "val"))
    assert len(train) + len(val) == SAMPLES and not train & val and len(val) == done["val"]["samples"]
    assert 5 < len(val) < 40
    some = stoker.pack(urls, tmp_path / "f", fraction=0.3)
    assert 10 < some["samples"] < 55 and some["left_out"] == SAMPLES - some["samples"]
    small = stoker.pack(urls, tmp_path / "w", where="cls < 3", fields=SMALL)
    want = [s["__key__"] for s in stoker.open(urls) if int(s["cls"]) < 3]
    assert keys_of(stoker.open(tmp_path / "w")) == want and small["left_out"] == SAMPLES - len(want) and want
    run_cli("pack", urls, str(tmp_path / "wc"), "--where", "cls < 3", "--field", "jpg=" + SMALL["jpg"])
    assert shards_of(tmp_path / "wc") == shards_of(tmp_path / "w")
    with pytest.raises(stoker.StokerError, match="nosuch"):
        stoker.pack(urls, tmp_path / "no", where="nosuch > 3")
    few = stoker.pack(urls, tmp_path / "x", select=[5, 3, 90])
    assert few["samples"] == 3 and [int(k) for k in keys_of(stoker.open(tmp_path / "x"))] == [5, 3, 90]


def alike(folder):
    """Five pictures; a copy of the first, the second at another size and quality, the third with another class."""
    with stoker.Writer(folder / "src-%d.tar", 4) as w:
        for i in range(5):
            w.write({"__key__": f"a{i}", "jpg": jpeg(picture(i), quality=95), "cls": i})
        w.write({"__key__": "b0", "jpg": jpeg(picture(0), quality=95), "cls": 0})
        w.write({"__key__": "b1", "jpg": jpeg(picture(1).resize((64, 48)), quality=80), "cls": 1})
        w.write({"__key__": "b2", "jpg": jpeg(picture(2), quality=95), "cls": 9})
    return str(folder / "src-*.tar")


@pytest.mark.parametrize(("dedup", "keys", "exact", "near"), [
    ("exact", "a0 a1 a2 a3 a4 b1 b2", 1, 0), ("near", "a0 a1 a2 a3 a4", 1, 2),
    ("exact:jpg", "a0 a1 a2 a3 a4 b1", 2, 0), ("near:jpg", "a0 a1 a2 a3 a4", 2, 1)])
def test_dedup_takes_the_first(tmp_path, dedup, keys, exact, near):
    src = alike(tmp_path)
    done = stoker.pack(src, tmp_path / "out", dedup=dedup, samples=2, num_proc=3)
    assert keys_of(stoker.open(tmp_path / "out")) == keys.split()
    assert (done["dropped"]["duplicates"], done["dropped"]["near_duplicates"]) == (exact, near)
    assert done["left_out"] == exact + near == sum(done["dropped"].values())
    said = json.loads(run_cli("pack", src, str(tmp_path / "cli"), "--dedup", dedup, "--samples", "2", "--json"))
    assert said["dropped"] == done["dropped"] and shards_of(tmp_path / "cli") == shards_of(tmp_path / "out")
    mapped = stoker.pack(src, tmp_path / "map", map=keep, dedup=dedup, num_proc=1)
    assert keys_of(stoker.open(tmp_path / "map")) == keys.split()
    assert mapped["dropped"] == {**done["dropped"], "functions": 0}


def test_dedup_and_describe_agree(tmp_path):
    src = alike(tmp_path)
    found = json.loads(run_cli("describe", src, "--json"))
    done = stoker.pack(src, tmp_path / "out", dedup="near")["dropped"]
    assert done["duplicates"] == found["duplicates"]
    assert done["duplicates"] + done["near_duplicates"] == found["near_duplicates"]


def test_dedup_is_looked_for_once(tmp_path):
    """What was found is kept: a second run, a plan's parts and the parts of a split do not read the data again."""
    src = alike(tmp_path)
    plan, out = tmp_path / "plan.json", tmp_path / "out"
    run_cli("pack", src, str(out), "--dedup", "near", "--samples", "2", "--split", "a=0.5,b=0.5", "--write-plan", str(plan))
    (note,) = (out / ".stoker").glob("alike-*")
    was = note.stat().st_mtime_ns
    for i in range(2):
        run_cli("pack", "--from-plan", str(plan), "--part", f"{i}/2")
    run_cli("pack", "--from-plan", str(plan), "--merge")
    assert note.stat().st_mtime_ns == was and [*(out / ".stoker").glob("alike-*")] == [note]
    keys = keys_of(stoker.open(str(out / "?-*.tar")))
    assert sorted(keys) == ["a0", "a1", "a2", "a3", "a4"]
    whole = note.read_bytes()
    for torn in (whole[:-3], whole[:9] + b"x" + whole[10:], whole[:-8] + b"\xff" * 8, b""):
        note.write_bytes(torn)
        assert "already there" in run_cli("pack", src, str(out), "--dedup", "near", "--samples", "2", "--split", "a=0.5,b=0.5")
        assert note.read_bytes() == whole


def test_balance(urls, tmp_path):
    of = {s["__key__"]: int(s["cls"]) for s in stoker.open(urls)}
    least = min(Counter(of.values()).values())
    for balance, most in (("cls", least), ("cls:3", 3), ("cls:1000000", len(of))):
        done = stoker.pack(urls, tmp_path / balance, balance=balance)
        got = Counter(of[k] for k in keys_of(stoker.open(tmp_path / balance)))
        assert got == {c: min(n, most) for c, n in Counter(of.values()).items()}
        assert done["dropped"]["balance"] == SAMPLES - sum(got.values())
    few, more = (set(keys_of(stoker.open(tmp_path / n))) for n in ("cls:3", "cls"))
    assert few <= more or least < 3                 # by a hash of the key: more only adds
    assert "by --balance" in run_cli("pack", urls, str(tmp_path / "cli"), "--balance", "cls:3")
    assert shards_of(tmp_path / "cli") == shards_of(tmp_path / "cls:3")


@pytest.mark.parametrize(("options", "says"), [
    ({"dedup": "fuzzy"}, "exact or near"), ({"dedup": "exact:"}, "exact or near"), ({"dedup": 3}, "dedup is"),
    ({"balance": "nosuch"}, "nosuch"), ({"balance": "cls:0"}, "how many of each"), ({"balance": "cls:x"}, "how many"),
    ({"balance": ""}, "name of a field")])
def test_choices_that_are_refused(urls, tmp_path, options, says):
    with pytest.raises(stoker.StokerError, match=says):
        stoker.pack(urls, tmp_path / "out", **options)


def test_mapped_goes_on_twice(urls, tmp_path):
    """The note of a run that was stopped twice has an empty line in it."""
    want = stoker.pack(urls, tmp_path / "out", filter=odd, samples=10, num_proc=1)
    before = shards_of(tmp_path / "out")
    assert want["dropped"]["functions"] == SAMPLES // 2
    for name in ("shard-000003.tar", "shard-000007.tar", "shard-000001.tar"):
        (tmp_path / "out" / name).unlink()
        assert stoker.pack(urls, tmp_path / "out", filter=odd, samples=10, num_proc=1)["kept_shards"] == 9
        assert shards_of(tmp_path / "out") == before


def test_mapped_shuffled_filtered(urls, tmp_path):
    for workers in (1, 3):
        done = stoker.pack(urls, tmp_path / str(workers), flat_map=twice, filter=odd, shuffle=9, num_proc=workers, samples=7)
        assert done["samples"] == SAMPLES
    assert shards_of(tmp_path / "1") == shards_of(tmp_path / "3")
    keys = keys_of(stoker.open(tmp_path / "1"))
    assert len(set(keys)) == SAMPLES and keys != sorted(keys)


def test_functions_that_fail_hang_or_talk_nonsense(urls, tmp_path):
    done = stoker.pack(urls, tmp_path / "out", map=stuck, on_error="skip", timeout=8, num_proc=2, samples=25)
    assert (done["samples"], done["failed"]) == (SAMPLES * 8 // 10 - 1, SAMPLES * 2 // 10 + 1)
    (listed,) = (tmp_path / "out/.stoker").glob("*.failed")
    reasons = {json.loads(line)["key"][-1]: json.loads(line)["reason"] for line in listed.read_text().splitlines()}
    assert "8 s" in reasons["3"] and "RuntimeError: four" in reasons["4"] and "not 5" in reasons["5"]


@pytest.mark.parametrize(("fields", "says"), [
    ({"jpg": "image | resize(8)"}, "last step says how it is written"),
    ({"jpg": "encode(jpeg)"}, "needs something before it"),
    ({"jpg": "image | encode(jpog)"}, "did you mean"),
    ({"jpg": "image | encode(jpeg, 101)"}, "1 to 100"),
    ({"jpg": "image | encode(npy, 3)"}, "no quality"),
    ({"a/b": "image | encode(jpeg)"}, "slash"), ({}, "is a dict"), ({"jpg": 5}, "needs a chain"),
    ({"txt": None}, "no field is made")])
def test_chains_that_are_refused(urls, tmp_path, fields, says):
    with pytest.raises(stoker.StokerError, match=says):
        stoker.pack(urls, tmp_path / "out", fields=fields)


def test_every_sample_fails(urls, tmp_path):
    """One reason for all is a mistake of the chain, not of the data."""
    with pytest.raises(stoker.StokerError, match="encode: a picture is u8"):
        stoker.pack(urls, tmp_path / "out", fields={"jpg": "image | normalize(imagenet) | to(f32) | encode(jpeg)"})


def test_a_plan_for_many_processes(urls, tmp_path):
    plan, out = tmp_path / "plan.json", tmp_path / "out"
    chain = "jpg=image | resize(16) | encode(jpeg, 85)"
    run_cli("pack", urls, str(tmp_path / "whole"), "--field", chain, "--samples", "9", "--shuffle", "3")
    run_cli("pack", urls, str(out), "--field", chain, "--samples", "9", "--shuffle", "3", "--write-plan", str(plan))
    assert json.loads(plan.read_text())["shards"] == 12 and not out.exists()
    failed = run_cli("pack", "--from-plan", str(plan), "--merge", code=3)
    assert "12 of 12 shards are not there yet" in failed
    run_cli("pack", "--from-plan", str(plan), "--shard", "4")
    assert list(shards_of(out)) == ["shard-000004.tar"]
    for i in (2, 0, 1):
        run_cli("pack", "--from-plan", str(plan), "--part", f"{i}/3")
    run_cli("pack", "--from-plan", str(plan), "--merge")
    assert shards_of(out) == shards_of(tmp_path / "whole")
    assert len(stoker.open(out)) == SAMPLES
    assert [p.name for p in (out / ".stoker").iterdir() if "part-" in p.name] == []
    (out / "shard-000007.tar").unlink()                         # parts go on with what was merged
    run_cli("pack", "--from-plan", str(plan), "--part", "1/3")
    run_cli("pack", "--from-plan", str(plan), "--merge")
    (out / "shard-000009.tar").unlink()
    run_cli("pack", "--from-plan", str(plan), "--part", "2/3")
    assert "already there" in run_cli("pack", "--from-plan", str(plan))      # and the whole with what parts made
    assert shards_of(out) == shards_of(tmp_path / "whole")
    whole = json.loads(plan.read_text())
    del whole["check"]                                          # changed by hand
    plan.write_text(json.dumps(whole).replace('"9"', '"8"'))
    assert "write the plan again" in run_cli("pack", "--from-plan", str(plan), "--part", "0/3", code=2)
    plan.write_text("{}")
    assert "not a plan" in run_cli("pack", "--from-plan", str(plan), code=3)


def test_a_damaged_plan_is_refused(urls, tmp_path):
    """A letter of the target would be another target."""
    plan, bad = tmp_path / "plan.json", tmp_path / "bad.json"
    run_cli("pack", urls, str(tmp_path / "out"), "--samples", "40", "--write-plan", str(plan))
    text = plan.read_bytes()
    end = text.index(b'"check"')
    for i in range(0, end - 3, 7):
        bad.write_bytes(text[:i] + bytes([text[i] ^ (1 if i % 2 else 32)]) + text[i + 1:])
        done = subprocess.run([CLI, "pack", "--from-plan", str(bad), "--part", "0/3"], capture_output=True, timeout=180)
        assert done.returncode in (2, 3) and done.stderr.count(b"\n") == 1, (i, done.stderr)
    for n in range(0, end, 31):
        bad.write_bytes(text[:n])
        run_cli("pack", "--from-plan", str(bad), "--part", "0/3", code=3)
    assert {p.name for p in tmp_path.iterdir()} <= {"plan.json", "bad.json"}


@pytest.mark.parametrize("more", [("--samples", "3"), ("--force",), ("--where", "cls > 1"), ("--write-plan", "x"), ("--part", "0/2", "--merge"),
                                  ("--part", "0/2", "--shard", "1")])
def test_a_plan_has_all_options(urls, tmp_path, more):
    run_cli("pack", urls, str(tmp_path / "out"), "--write-plan", str(tmp_path / "plan.json"))
    said = run_cli("pack", "--from-plan", str(tmp_path / "plan.json"), *more, code=2)
    assert "does not go with --from-plan" in said or "one of them at a time" in said


def test_splits_on_the_command_line(urls, tmp_path):
    made = json.loads(run_cli("pack", urls, str(tmp_path / "out"), "--split", "a=0.5,b=0.3,c=0.2", "--json"))
    assert list(made) == ["a", "b", "c"] and sum(part["samples"] for part in made.values()) == SAMPLES
    for split, says in (("a=0.5,a=0.5", "has the part a twice"), ("", "is NAME=PART"), ("a=0.5,", "is NAME=PART"), ("a=0.9,b=0.2", "more than 1")):
        assert says in run_cli("pack", urls, str(tmp_path / "x"), "--split", split, code=2), split


def test_a_target_that_looks_like_one_shard(urls, tmp_path):
    assert "needs a number in its name" in run_cli("pack", urls, str(tmp_path / "x.tar"), code=2)
    for more in {}, {"map": keep}:
        with pytest.raises(ValueError, match="needs a number in its name"):
            stoker.pack(urls, tmp_path / "x.tar.gz", **more)
    assert not list(tmp_path.iterdir())


def test_prepared_is_made_once(urls, tmp_path):
    one = stoker.prepared(urls, tmp_path / "p", fields=SMALL, limit=30)
    stamps = {p: p.stat().st_mtime_ns for p in (tmp_path / "p").rglob("*.tar")}
    two = stoker.prepared(urls, tmp_path / "p", fields=SMALL, limit=30)
    assert len(one) == len(two) == 30 and stamps == {p: p.stat().st_mtime_ns for p in (tmp_path / "p").rglob("*.tar")}
    other = stoker.prepared(urls, tmp_path / "p", fields={"jpg": "image | resize(16) | encode(png)"}, limit=30)
    assert other.shards != one.shards
    with pytest.raises(ValueError, match="no split"):
        stoker.prepared(urls, tmp_path / "p", split={"a": 1})


KILLED = """
    import sys, stoker
    stoker.pack(sys.argv[1], sys.argv[2], fields={"jpg": "image | resize(40) | encode(jpeg, 90)"}, samples=3)
"""


def test_killed_at_random_points(urls, tmp_path):
    """What is there after a kill is whole, and what was finished is not made again."""
    kills = int(os.environ.get("STOKER_KILLS", "4"))
    seed = int(os.environ.get("STOKER_SEED", "7"))
    draws = np.random.default_rng(seed)
    print(f"seed {seed}, {kills} kills")
    stoker.pack(urls, tmp_path / "want", fields={"jpg": "image | resize(40) | encode(jpeg, 90)"}, samples=3)
    want = shards_of(tmp_path / "want")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    code = "\n".join(line[4:] for line in KILLED.splitlines())
    for _ in range(kills):
        child = subprocess.Popen([sys.executable, "-c", code, urls, str(tmp_path / "out")], env=env)
        time.sleep(0.15 + 0.4 * draws.random())
        child.send_signal(signal.SIGKILL)
        child.wait()
        there = shards_of(tmp_path / "out") if (tmp_path / "out").exists() else {}
        assert all(want[name] == data for name, data in there.items())
    kept = len(there)
    done = stoker.pack(urls, tmp_path / "out", fields={"jpg": "image | resize(40) | encode(jpeg, 90)"}, samples=3)
    assert done["kept_shards"] == kept and shards_of(tmp_path / "out") == want
