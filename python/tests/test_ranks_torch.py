# SPDX-License-Identifier: Apache-2.0
"""Ranks as real processes under gloo: meshes, what ranks tell each other, torchrun.

`together` forks the ranks from one process that has imported torch (importing it is what takes time);
each runs the given code, which puts what it found into the dict `found`.
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import FIELDS, LABEL, SAMPLES, torch

import stoker

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from forked_python import TORCH, python  # noqa: E402

pytestmark = pytest.mark.skipif(torch is None, reason="without torch")

RANKS = """
import json, os, sys, traceback
import torch, torch.distributed as dist
import stoker
from stoker import _rank_check

def digest(batch):
    return [batch.sample_ids.tolist(), {k: v.numpy().tobytes().hex() for k, v in batch.items()}]

folder, world = sys.argv[1], int(sys.argv[2])
given = json.loads(sys.argv[3])
for rank in range(world):
    if os.fork() == 0:
        found, status = {}, 1
        try:
            dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank,
                                    world_size=world)
            exec(open(f"{folder}/code.py").read())
            json.dump(found, open(f"{folder}/{rank}.json", "w"))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
sys.exit(max(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(world)))
"""


def clean_environment():
    package = os.path.dirname(os.path.dirname(stoker.__file__))
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("SLURM_", "OMPI_", "PMI_")) and k not in ("RANK", "WORLD_SIZE")}
    return {**env, "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}


@pytest.fixture
def together(tmp_path):
    def run(world, code, **given):
        (tmp_path / "store").unlink(missing_ok=True)
        (tmp_path / "code.py").write_text(textwrap.dedent(code))
        done = python(*TORCH).run(["-c", RANKS, tmp_path, world, json.dumps(given)], env=clean_environment())
        assert done.returncode == 0, done.stderr
        return [json.loads((tmp_path / f"{r}.json").read_text()) for r in range(world)]
    return run


MESHES = """
from torch.distributed.device_mesh import init_device_mesh

def epoch(mesh):
    with stoker.Loader(given["urls"], given["fields"], batch_size=8, shuffle=True, seed=4, mesh=mesh,
                       num_workers=1) as loader:
        return [digest(b) for b in loader]

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
found["tp group"] = dist.get_process_group_ranks(mesh["tp"].get_group())
found["whole"], found["part"] = epoch(mesh), epoch(mesh["dp"])
hybrid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp_replicate", "dp_shard"))
found["hybrid"] = epoch(hybrid)
"""


def ids(epoch):
    return [i for step in epoch for i in step[0]]


def test_a_tensor_parallel_group_gets_the_same_bits(together, urls):
    ranks = together(4, MESHES, urls=urls, fields=FIELDS)
    assert [r["tp group"] for r in ranks] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    for r in ranks:
        assert r["whole"] == r["part"] == ranks[r["tp group"][0]]["whole"]
        assert len(r["whole"]) == 7
    assert not set(ids(ranks[0]["whole"][:6])) & set(ids(ranks[2]["whole"][:6]))
    assert set(ids(ranks[0]["whole"]) + ids(ranks[2]["whole"])) == set(range(SAMPLES))
    full = [set(ids(r["hybrid"][:3])) for r in ranks]           # 96 of 100
    assert len(set.union(*full)) == sum(map(len, full)) == 96


ATTEMPT = """
def attempt(**options):
    options = {"data": given["urls"], "fields": given["fields"], "num_workers": 0, **options}
    try:
        stoker.Loader(options.pop("data"), **options).close()
        return ""
    except stoker.StokerError as e:
        return str(e)
"""

COMPLAINTS = ATTEMPT + """
odd = rank == 2
one_shard = given["urls"].replace("..002", "..001")
found["same"] = attempt()
found["data"] = attempt(data=one_shard if odd else given["urls"])
found["seed"] = attempt(seed=7 if odd else 0)
found["chain"] = attempt(fields={"label": "from(txt) | text"} if odd else given["fields"])
found["gone"] = attempt(data="/nowhere/x.tar" if odd else given["urls"])
found["again"] = attempt()
found["alone"] = attempt(rank=0, world_size=1) if rank == 0 else ""
found["unasked"] = attempt(check_ranks=False) if odd else ""
"""


def test_ranks_that_do_not_fit_are_refused_on_every_rank(together, urls):
    ranks = together(3, COMPLAINTS, urls=urls, fields=LABEL)
    for r in ranks:
        assert r["same"] == r["again"] == r["alone"] == r["unasked"] == ""
        assert "rank 2 has samples=67 where rank 0 has 100" in r["data"]
        assert "rank 2 has seed=7 where rank 0 has 0" in r["seed"]
        assert "rank 2 has fields['label']=from(txt) | text where rank 0 has from(cls)" in r["chain"]
        assert "nowhere" in r["gone"]
    assert "rank 2 could not open its loader" in ranks[0]["gone"]


SOME = ATTEMPT + """
import logging
logging.basicConfig(stream=open(f"{folder}/log{rank}", "w"), level=logging.INFO)
_rank_check.WARN_AFTER, _rank_check.GIVE_UP_AFTER = 0.2, 0.6
if rank != given["absent"]:
    found["said"] = attempt()
dist.barrier()
"""


@pytest.mark.parametrize("absent", [0, 2])
def test_a_rank_that_never_comes_is_named(together, urls, tmp_path, absent):
    ranks = together(3, SOME, urls=urls, fields=LABEL, absent=absent)
    for r in (r for r in range(3) if r != absent):
        assert f"rank {absent} made no loader within" in ranks[r]["said"]
        assert "check_ranks=False" in ranks[r]["said"]
    assert f"waiting for the loader of rank {absent};" in (tmp_path / "log1").read_text()


NODES = """
import logging, socket
logging.basicConfig(stream=open(f"{folder}/log{rank}", "w"), level=logging.INFO, format="%(message)s")
socket.gethostname = lambda: "ab"[rank % 2]
with stoker.Loader(given["urls"], given["fields"], batch_size=8, num_workers=0) as loader:
    found["ids"] = next(iter(loader)).sample_ids.tolist()
"""


def test_ranks_are_counted_node_by_node(together, urls, tmp_path):
    ranks = together(4, NODES, urls=urls, fields=LABEL)
    assert [r["ids"][0] // 8 for r in ranks] == [0, 2, 1, 3]
    assert (tmp_path / "log1").read_text() == (
        "rank 2 of 4 from torch.distributed, counted node by node: it is number 1 there\n")
    assert (tmp_path / "log0").read_text() == "rank 0 of 4 from torch.distributed\n"


def test_torchrun(urls, tmp_path):
    code = tmp_path / "train.py"
    code.write_text(textwrap.dedent(f"""
        import logging, os, sys
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
        import stoker
        with stoker.Loader({urls!r}, {LABEL!r}, global_batch_size=16, num_workers=0) as loader:
            first = next(iter(loader)).sample_ids.tolist()
        print(os.environ["RANK"], first[0], len(first), flush=True)
        """))
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone",
                           "--nproc-per-node=2", code], env=clean_environment(), capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "0 0 8", "1 8 8", "rank 0 of 2 from torchrun (RANK, WORLD_SIZE)",
        "rank 1 of 2 from torchrun (RANK, WORLD_SIZE)"]
