# SPDX-License-Identifier: Apache-2.0
"""stoker ledger word for word, over ledgers that loaders wrote."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from conftest import CLI, write_tar
from test_cli import fails

sys.path.insert(0, str(Path(os.environ.get("STOKER_BUILD", CLI.parents[1])) / "python"))
stoker_module = pytest.importorskip("stoker")

N = 22
FIELDS = {"label": "from(cls) | int"}


@pytest.fixture
def numbers(tmp_path):
    return write_tar(tmp_path / "n.tar", [(f"k{i:02d}.cls", str(i).encode()) for i in range(N)])


def train(data, folder, world, state=None, steps=None, keep=None, epochs=2):
    """All ranks, one after the other; the state after `keep` steps."""
    kept = None
    for rank in range(world):
        with stoker_module.Loader(data, FIELDS, batch_size=2, seed=1, rank=rank, world_size=world,
                                  num_workers=1) as loader:
            if state:
                loader.load_state_dict(state)
            loader.ledger(folder)
            done = 0
            while done != steps and loader.epoch < epochs:
                for _ in loader:
                    done += 1
                    kept = loader.state_dict() if done == keep else kept
                    if done == steps:
                        break
    return kept


@pytest.fixture
def ledger(numbers, tmp_path):
    """Two ranks die in step 3, one takes up after step 2 and finishes two epochs."""
    folder = tmp_path / "led"
    state = train(numbers, folder, 2, steps=3, keep=2)
    assert state["generation"] == 0
    train(numbers, folder, 1, state)
    return folder


def test_summary(stoker, ledger):
    done = stoker("ledger", "led")
    assert (done.code, done.err) == (0, "")
    assert done.out == """\
22 samples, 22 in an epoch, seed 1
generation 0: from epoch 0, position 0, 2 ranks, global batch 4
generation 1: from epoch 0, position 8, 1 rank, global batch 2
   epoch      steps      seen once     more often          never      not valid
       0          9             22              0              0              0
       1         11             22              0              0              0
left out: 2 superseded and 0 torn steps, 0 files of tries that were given up
"""
    found = json.loads(stoker("ledger", "led", "--json").raw)
    assert found["samples"] == found["epoch_samples"] == N and found["superseded_steps"] == 2
    assert [(g["generation"], g["world_size"], g["position"]) for g in found["generations"]] == \
        [(0, 2, 0), (1, 1, 8)]
    assert [(e["once"], e["twice"], e["never"], e["rows"]) for e in found["epochs"]] == [(N, 0, 0, N)] * 2


def test_a_sample(stoker, ledger):
    done = stoker("ledger", "led", "--sample", 3)
    assert done.code == 0
    assert done.out == """\
sample 3:
  epoch 0, step 0, rank 1 of 2, row 1, generation 0
  epoch 1, step 1, rank 0 of 1, row 1, generation 1
"""
    done = stoker("ledger", "led", "--sample", "k03", "--data", "n.tar", "--epoch", "1", "--json")
    assert json.loads(done.raw) == {"sample": 3, "key": "k03", "seen": [
        {"epoch": 1, "step": 1, "rank": 0, "world_size": 1, "row": 1, "generation": 1, "position": 2,
         "valid": True}]}
    done = stoker("ledger", "led", "--sample", 3, "--epoch", 7)
    assert (done.code, done.out) == (1, "sample 3: never seen\n")


def test_a_step(stoker, ledger):
    done = stoker("ledger", "led", "--step", 1, "--epoch", 0, "--data", "n.tar")
    assert (done.code, done.out) == (0, """\
epoch 0, step 1, generation 0, rank 0 of 2:
  4 (k04) 5 (k05)
epoch 0, step 1, generation 0, rank 1 of 2:
  6 (k06) 7 (k07)
""")
    part, = json.loads(stoker("ledger", "led", "--step", 4, "--epoch", 0, "--json").raw)
    assert (part["ids"], part["valid"], part["position"], part["count"]) == ([8, 9], [True, True], 8, 2)
    done = stoker("ledger", "led", "--step", 99)
    assert (done.code, done.out) == (1, "no step 99 was handed out\n")


def test_twice_and_never(stoker, numbers, tmp_path):
    with stoker_module.Loader(numbers, FIELDS, batch_size=5, num_workers=1) as loader:
        loader.ledger(tmp_path / "led")
        for _ in zip(range(2), loader, strict=False):
            pass
        loader.set_epoch(0)
        next(iter(loader))
    done = stoker("ledger", "led", "--twice", "--data", "n.tar")
    assert done.code == 1
    assert done.out == "".join(f"epoch 0  {i}  k{i:02d}\n" for i in range(5))
    lines = stoker("ledger", "led", "--never", "--json").raw.splitlines()
    assert [json.loads(line) for line in lines] == [{"epoch": 0, "sample": i} for i in range(10, N)]
    assert "(not whole)" in stoker("ledger", "led").out
    assert stoker("ledger", "led", "--never", "--epoch", 3).code == 0


def test_rows_that_fill_up(stoker, numbers, tmp_path):
    train(numbers, tmp_path / "led", 4, epochs=1)
    epoch, = json.loads(stoker("ledger", "led", "--json").raw)["epochs"]
    assert (epoch["steps"], epoch["once"], epoch["never"], epoch["not_valid"]) == (3, N, 0, 0)
    train(numbers, tmp_path / "led7", 7, epochs=1)
    epoch, = json.loads(stoker("ledger", "led7", "--json").raw)["epochs"]
    assert (epoch["steps"], epoch["once"], epoch["never"]) == (2, N, 0)


@pytest.mark.parametrize("args, code, line", [
    (["none"], 3, "can't open the ledger none: No such file or directory"),
    (["."], 3, "there is no ledger in .: loader.ledger(folder) writes one"),
    (["led", "--sample", "x"], 2, "'x' is not a number: to look for a key, say --data DATA"),
    (["led", "--sample", "x", "--data", "n.tar"], 2, "no sample has the key 'x'"),
    (["led", "--sample", "22"], 2, "there is no sample 22: ids are 0 to 21"),
    (["led", "--sample", "1", "--step", "2"], 2, "take one of --sample, --step, --twice and --never"),
    (["led", "--step", "-1"], 2, '--step is a number from 0 to 9e+15, not "-1"'),
])
def test_wrong_usage(stoker, ledger, args, code, line):
    fails(stoker("ledger", *args), code, line)


def test_other_data_and_damage(stoker, ledger, tmp_path):
    write_tar(tmp_path / "o.tar", [("a.cls", b"1")])
    fails(stoker("ledger", "led", "--twice", "--data", "o.tar"), 2,
          "--data: this has 1 samples, and the run's data had 22")
    file = ledger / "rank00000-gen0000.stkl"
    shutil.copy(file, ledger / "copy.stkl")
    assert stoker("ledger", "led").err.startswith("stoker: copy.stkl and rank00000-gen0000.stkl are of")
    (ledger / "copy.stkl").unlink()
    data = bytearray(file.read_bytes())
    data[160] ^= 1
    file.write_bytes(data)
    fails(stoker("ledger", "led"), 3, "a step's checksum is wrong: this ledger file is damaged; move it "
          "away [shard rank00000-gen0000.stkl, offset 144]")
