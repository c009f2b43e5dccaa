# SPDX-License-Identifier: Apache-2.0
"""Which rank gets what, and where rank and world_size come from."""

import logging
import os

import numpy as np
import pytest
from conftest import FIELDS, LABEL, SAMPLES, as_numpy, torch

import stoker
from stoker import _rank_check, _ranks

pytestmark = pytest.mark.asan


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in list(os.environ):
        if name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE") or name.startswith(
                ("SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_")):
            monkeypatch.delenv(name)


def share(urls, rank, world, batch_size=8, fields=LABEL, **options):
    """[(ids, valid)] of every step of an epoch."""
    with stoker.Loader(urls, fields, batch_size=batch_size, shuffle=True, seed=4, rank=rank,
                       world_size=world, **options) as loader:
        steps = [(as_numpy(b.sample_ids).tolist(), as_numpy(b.valid).tolist()) for b in loader]
        assert len(loader) == len(steps)
    return steps


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_ranks_are_disjoint_and_cover(urls, world, drop_last):
    shares = [share(urls, rank, world, drop_last=drop_last) for rank in range(world)]
    assert len({len(s) for s in shares}) == 1
    got = [i for s in shares for ids, valid in s for i, ok in zip(ids, valid, strict=True) if ok]
    assert len(got) == len(set(got))
    assert len(got) == (SAMPLES // (8 * world) * 8 * world if drop_last else SAMPLES)


def test_the_epoch_does_not_depend_on_ranks(urls):
    one = [i for ids, _ in share(urls, 0, 1, batch_size=16, drop_last=True) for i in ids]
    two = [share(urls, rank, 2, drop_last=True) for rank in range(2)]
    dealt = [i for a, b in zip(*two, strict=True) for i in a[0] + b[0]]
    assert dealt == one


def test_a_rank_left_with_nothing_gets_one_marked_row(urls):
    shares = [share(urls, rank, 8, batch_size=11) for rank in range(8)]     # 88 + 12 left: 2 2 2 2 1 ..
    last = [s[-1] for s in shares]
    assert sum(sum(valid) for _, valid in last) == 12
    shares = [share(urls, rank, 99, batch_size=1) for rank in range(99)]    # 99 + 1
    last = [s[-1] for s in shares]
    assert all(len(ids) == 1 for ids, _ in last) and sum(v[0] for _, v in last) == 1


@pytest.mark.parametrize("size", [2**20 + 1, 2**31, 2**32, 2**32 + 1, 2**40])
def test_a_global_batch_beyond_a_rank_is_refused(urls, size):
    with pytest.raises(stoker.StokerError, match=f"global_batch_size {size} gives each of 1 ranks {size} rows"):
        stoker.Loader(urls, LABEL, global_batch_size=size, rank=0, world_size=1)


def test_global_batch_size(urls):
    options = {"shuffle": True, "seed": 4}
    with stoker.Loader(urls, LABEL, global_batch_size=24, rank=1, world_size=3, **options) as loader:
        batches = list(loader)
    assert len(batches[0]["label"]) == 8
    assert [as_numpy(b.sample_ids).tolist() for b in batches] == [s[0] for s in share(urls, 1, 3)]
    rows, ids = [], []
    for rank in range(3):                       # 25 on 3 ranks: 9, 8, 8; the last batch has 4 of 104
        with stoker.Loader(urls, LABEL, global_batch_size=25, rank=rank, world_size=3) as loader:
            batches = list(loader)
        rows.append([len(b["label"]) for b in batches])
        ids += [i for b in batches for i in as_numpy(b.sample_ids).tolist()]
    assert [r[:-1] for r in rows] == [[n] * (len(rows[0]) - 1) for n in (9, 8, 8)]
    assert sorted(ids) == list(range(len(stoker.open(urls))))
    with pytest.raises(stoker.StokerError, match="without a row"):
        stoker.Loader(urls, LABEL, global_batch_size=2, rank=1, world_size=3)
    with pytest.raises(stoker.StokerError, match="one of them"):
        stoker.Loader(urls, LABEL, global_batch_size=24, batch_size=8)


def test_the_launchers_environment(urls, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with stoker.Loader(urls, LABEL, batch_size=8, shuffle=True, seed=4) as loader:
        found = [as_numpy(b.sample_ids).tolist() for b in loader]
    assert found == [s[0] for s in share(urls, 1, 2)]
    with stoker.Loader(urls, LABEL, batch_size=8, rank=0, world_size=1) as loader:   # arguments win
        assert len(loader) == 13
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(stoker.StokerError, match="RANK='one'"):
        stoker.Loader(urls, LABEL)


@pytest.mark.skipif(torch is None, reason="without torch")
def test_torch_distributed_comes_before_the_environment(urls, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    with stoker.Loader(urls, LABEL, batch_size=8, shuffle=True, seed=4) as loader:
        found = [as_numpy(b.sample_ids).tolist() for b in loader]
    assert found == [s[0] for s in share(urls, 2, 3)]


@pytest.mark.parametrize("rank, world", [(0, None), (None, 2), (2, 2), (-1, 2), (0, 0), (0, True),
                                         (0.0, 1), ("0", "1")])
def test_bad_ranks(urls, rank, world):
    with pytest.raises(stoker.StokerError):
        stoker.Loader(urls, FIELDS, rank=rank, world_size=world)


# ---- launchers -----------------------------------------------------------------------------------

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "none"}
STEP = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_NODEID": "1",
        "SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}
BATCH = {**STEP, "SLURM_STEP_ID": str(0xfffffffb), "SLURM_PROCID": "0"}
SHELL = {**STEP, "SLURM_STEP_ID": str(0xfffffffa), "SLURM_PROCID": "0"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "6", "OMPI_COMM_WORLD_SIZE": "16"}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "4"}
SAME_MPI = {"PMI_RANK": "5", "PMI_SIZE": "8"}          # srun --mpi=pmi2


def without(env, *names):
    return {k: v for k, v in env.items() if k not in names}


@pytest.mark.parametrize("env, found", [
    ({}, None),
    ({"RANK": "", "WORLD_SIZE": ""}, None),
    (TORCHRUN, (3, 8, "torchrun (RANK, WORLD_SIZE)")),
    (STEP, (5, 8, "Slurm (SLURM_PROCID, SLURM_NTASKS)")),
    ({**STEP, "SLURM_STEP_NUM_TASKS": "6"}, (5, 6, "Slurm (SLURM_PROCID, SLURM_STEP_NUM_TASKS)")),
    ({**without(STEP, "SLURM_STEP_ID"), "SLURM_STEPID": "7"},
     (5, 8, "Slurm (SLURM_PROCID, SLURM_NTASKS)")),
    (without(STEP, "SLURM_STEP_ID"), None),             # salloc
    (BATCH, None), (SHELL, None), ({**STEP, "SLURM_STEP_ID": "extern"}, None),
    ({**STEP, "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_PTY_PORT": "3"},
     (0, 1, "Slurm (SLURM_PROCID, SLURM_NTASKS)")),
    (OPEN_MPI, (6, 16, "Open MPI (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE)")),
    (MPICH, (1, 4, "MPICH (PMI_RANK, PMI_SIZE)")),
    ({**STEP, **TORCHRUN}, (3, 8, "torchrun (RANK, WORLD_SIZE)")),
    ({**STEP, "RANK": "5", "WORLD_SIZE": "8"}, (5, 8, "torchrun (RANK, WORLD_SIZE)")),
    ({**STEP, **OPEN_MPI}, (6, 16, "Open MPI (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE)")),
    ({**STEP, **SAME_MPI}, (5, 8, "Slurm (SLURM_PROCID, SLURM_NTASKS)")),
    ({**BATCH, **MPICH}, (1, 4, "MPICH (PMI_RANK, PMI_SIZE)")),
])
def test_who_says_the_rank(env, found):
    assert (_ranks._from_environment(env) or (None,) * 3)[:3] == (found or (None,) * 3)


@pytest.mark.parametrize("env, said", [
    ({"RANK": "0"}, "RANK='0' but no WORLD_SIZE"),
    ({"WORLD_SIZE": "2"}, "WORLD_SIZE='2' but no RANK"),
    ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK='2' and WORLD_SIZE='2'"),
    ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK='-1'"),
    ({"RANK": "0", "WORLD_SIZE": "0"}, "WORLD_SIZE='0'"),
    ({"RANK": "1e0", "WORLD_SIZE": "2"}, "RANK='1e0'"),
    ({**STEP, "RANK": "0", "WORLD_SIZE": "8"}, "RANK=0 but SLURM_PROCID=5"),
    (without(STEP, "SLURM_NTASKS"), "no SLURM_NTASKS"),
    ({**STEP, "SLURM_PROCID": "8"}, "SLURM_PROCID='8'"),
    ({**STEP, "SLURM_PTY_PORT": "3"}, "--pty with 8 tasks"),
    ({**STEP, "SLURM_LOCALID": "4"}, "SLURM_LOCALID=4 on SLURM_NODEID=1"),
    ({**STEP, "SLURM_NODEID": "2"}, "SLURM_NODEID=2"),
    (without(OPEN_MPI, "OMPI_COMM_WORLD_SIZE"), "no OMPI_COMM_WORLD_SIZE"),
    ({"PMI_SIZE": "2"}, "no PMI_RANK"),
])
def test_a_launcher_that_makes_no_sense_is_refused(env, said):
    with pytest.raises(stoker.StokerError, match="rank= and world_size=") as caught:
        _ranks._from_environment(env)
    assert said in str(caught.value)


@pytest.mark.parametrize("text, counts", [
    ("4(x2)", [4, 4]), ("2(x3),1", [2, 2, 2, 1]), ("3", [3]), ("1,2,3(x1)", [1, 2, 3]),
    ("", []), ("x", []), ("4(x", []), ("4(x2),", []),
])
def test_tasks_per_node(text, counts):
    assert _ranks.tasks_per_node(text) == counts


def cyclic(counts):
    """(rank, node, local) as Slurm deals tasks round-robin over nodes with room for `counts`."""
    left, dealt, rank = list(counts), [], 0
    while any(left):
        for node, n in enumerate(left):
            if n:
                dealt.append((rank, node, counts[node] - n))
                left[node], rank = n - 1, rank + 1
    return dealt


@pytest.mark.parametrize("counts, text", [([4, 4], "4(x2)"), ([2, 2, 2, 1], "2(x3),1"), ([3], "3")])
def test_ranks_dealt_round_robin_are_counted_node_by_node(counts, text):
    numbers = {}
    for rank, node, local in cyclic(counts):
        env = {**STEP, "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(sum(counts)),
               "SLURM_NODEID": str(node), "SLURM_LOCALID": str(local),
               "SLURM_STEP_TASKS_PER_NODE": text}
        place = _ranks._from_environment(env)
        numbers[place.rank] = node
        assert (place.note == "") == (place.rank == rank)
        for vague in ({**env, "SLURM_STEP_TASKS_PER_NODE": "5"}, without(env, "SLURM_LOCALID"),
                      without(env, "SLURM_STEP_TASKS_PER_NODE")):
            assert _ranks._from_environment(vague).rank == rank       # not known: left alone
    assert [numbers[r] for r in range(sum(counts))] == [n for n, c in enumerate(counts)
                                                         for _ in range(c)]


@pytest.mark.parametrize("nodes, numbers", [
    ("aabb", [0, 1, 2, 3]), ("abab", [0, 2, 1, 3]), ("baab", [0, 2, 3, 1]), ("abcabca", [0, 3, 5, 1, 4, 6, 2]),
])
def test_numbers_by_node(nodes, numbers):
    assert _ranks.numbers_by_node(list(nodes)) == numbers


def test_one_line_says_who(urls, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "stoker")

    def said(env, **options):
        caplog.clear()
        with monkeypatch.context() as m:
            for name, value in env.items():
                m.setenv(name, value)
            stoker.Loader(urls, LABEL, **options).close()
        return [r.getMessage() for r in caplog.records if r.getMessage().startswith("rank ")]

    assert said(TORCHRUN) == ["rank 3 of 8 from torchrun (RANK, WORLD_SIZE)"]
    assert said(TORCHRUN, rank=0, world_size=2) == ["rank 0 of 2 from arguments"]
    assert said({}) == ["rank 0 of 1 as there is no launcher"]
    assert said({**STEP, "SLURM_PROCID": "3"}) == [
        "rank 5 of 8 from Slurm (SLURM_PROCID, SLURM_NTASKS), counted node by node: "
        "it is number 3 there"]


# ---- a mesh --------------------------------------------------------------------------------------

class Mesh:
    """What a torch DeviceMesh shows to one of its ranks."""

    def __init__(self, shape, names, rank):
        self.mesh = np.arange(int(np.prod(shape))).reshape(shape)
        self.mesh_dim_names = names
        self.rank = rank

    def get_coordinate(self):
        at = np.argwhere(self.mesh == self.rank).tolist()
        return at[0] if at else None


@pytest.mark.parametrize("shape, names, ranks, group, label", [
    ((2, 2), ("dp", "tp"), [0, 0, 1, 1], (1, 3), "dp"),
    ((2, 2), ("tp", "dp"), [0, 1, 0, 1], (2, 3), "dp"),
    ((2, 2, 2), ("pp", "data", "tp"), [0, 0, 1, 1, 0, 0, 1, 1], (1, 3), "data"),
    ((2, 2, 2), ("dp_replicate", "dp_shard", "tp"), [0, 0, 1, 1, 2, 2, 3, 3], (1, 3, 5, 7),
     "dp_replicate and dp_shard"),
    ((4,), ("world",), [0, 1, 2, 3], (0, 1, 2, 3), "world"),
    ((4,), None, [0, 1, 2, 3], (0, 1, 2, 3), "its one dimension"),
])
def test_the_place_in_a_mesh(shape, names, ranks, group, label):
    places = [_ranks.find(None, None, Mesh(shape, names, r)) for r in range(len(ranks))]
    assert [p.rank for p in places] == ranks
    assert {p.world for p in places} == {len(group)}
    assert places[group[-1]].peers == group and places[0].source == f"mesh ({label})"
    assert all(p.peers[p.rank] == r for r, p in enumerate(places))
    assert _ranks.find(1, 5, Mesh(shape, names, 0))[:2] == (1, 5)       # arguments win


@pytest.mark.parametrize("mesh, said", [
    (Mesh((2, 2), ("x", "y"), 0), "dimensions x, y"),
    (Mesh((2, 2), None, 0), "2 dimensions without names"),
    (Mesh((2,), ("tp",), 0), "dimensions tp"),
    (Mesh((2,), ("dp",), 7), "not in the mesh"),
    ("dp", "DeviceMesh"),
])
def test_a_mesh_without_a_data_dimension(urls, mesh, said):
    with pytest.raises(stoker.StokerError, match=said):
        stoker.Loader(urls, LABEL, mesh=mesh)


# ---- what ranks tell each other ------------------------------------------------------------------

def test_what_differs_is_named():
    a = {"samples": "100", "seed": "0", "fields['x']": "image"}
    assert _rank_check.difference(a, dict(a)) is None
    assert _rank_check.difference(a, {**a, "seed": "1"}) == ("seed", "0", "1")
    assert _rank_check.difference(a, {"samples": "100", "seed": "0"}) == ("fields['x']", "image", "nothing")
    _, _, long = _rank_check.difference(a, {**a, "fields['x']": "resize(1) | " * 50})
    assert len(long) <= 100 and ".. (" in long


@pytest.mark.parametrize("nodes, local", [
    (["a", "a", "b", "b"], 2), (["a", "b", "a", "b"], 2), (["a", "a", "b"], 1), (["a"], 1), (["a", "a", "a"], 3),
])
def test_ranks_of_a_node(nodes, local):
    """Known only where it is the same on all of them: else ranks would divide a batch in different ways."""
    assert _ranks.even_nodes(nodes) == local
    counts = [nodes.count(n) for n in dict.fromkeys(nodes)]
    for rank in range(len(nodes)):
        node = next(i for i in range(len(counts)) if rank < sum(counts[:i + 1]))
        env = {"SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(len(nodes)), "SLURM_NODEID": str(node),
               "SLURM_LOCALID": str(rank - sum(counts[:node])), "SLURM_STEP_TASKS_PER_NODE": ",".join(map(str, counts))}
        assert _ranks._from_environment(env).local == local


def test_a_torchrun_on_one_node():
    env = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}
    assert _ranks._from_environment(env).local == 8
    assert _ranks._from_environment({**env, "LOCAL_WORLD_SIZE": "4"}).local == 1    # the others may have more


def test_numpy_integers_are_ranks(urls):
    assert share(urls, np.int64(1), np.int32(3)) == share(urls, 1, 3)
    with pytest.raises(stoker.StokerError, match="world_size must be below 2147483648"):
        share(urls, 0, 2**31)


def test_rank_and_mpi_that_contradict_each_other():
    """`mpirun -x RANK=0 ..` makes all of them rank 0."""
    env = {"RANK": "0", "WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
    with pytest.raises(stoker.StokerError, match="contradicts itself: RANK=0 but OMPI_COMM_WORLD_RANK=1, both of 4"):
        _ranks._from_environment(env)
    assert _ranks._from_environment({**env, "RANK": "1"}).rank == 1
    assert _ranks._from_environment({**env, "TORCHELASTIC_RUN_ID": "x"}).rank == 0
    assert _ranks._from_environment({**env, "OMPI_COMM_WORLD_SIZE": "2"}).world == 4     # one torchrun a node
