# SPDX-License-Identifier: Apache-2.0
"""What multiprocessing makes of a process that it starts, workers have too: connections of their own to managers, a name and a
parent, finalizers, queues that are flushed.  Beside torch's workers."""

import itertools
import multiprocessing
import os
import threading

import process_sets
import pytest

import stoker

torch = pytest.importorskip("torch")
from torch.utils import data as theirs  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_collections")
MAKERS = {
    "torch": lambda data, method, **o: theirs.DataLoader(data, num_workers=2, multiprocessing_context=method, **o),
    "DataLoader": lambda data, method, **o: stoker.DataLoader(data, num_workers=2, multiprocessing_context=method, **o),
    "Loader": lambda data, method, **o: stoker.Loader(data, num_workers=2, worker_type=method, **o),
}
WAYS = [("torch", "fork"), ("DataLoader", "fork"), ("Loader", "fork"), ("DataLoader", "forkserver"), ("Loader", "spawn")]


@pytest.fixture(autouse=True)
def counted(monkeypatch):
    """Processes are named from 1 on."""
    monkeypatch.setattr(multiprocessing.process, "_process_counter", itertools.count(1))


def close(loader):
    getattr(loader, "close", lambda: None)()


@pytest.fixture(scope="module")
def manager():
    with multiprocessing.get_context("fork").Manager() as made:
        yield made


@pytest.mark.parametrize("make, method", WAYS)
def test_a_managers_dict_that_the_parent_has_used(manager, make, method):
    """Over the parent's own connection, workers would read each other's answers."""
    data = process_sets.Shared(manager)
    loader = MAKERS[make](data, method, batch_size=5)
    assert torch.cat(list(loader)).tolist() == [i * i for i in range(data.n)]
    close(loader)
    assert data.table.copy() == {"parent": 1, **{i: i * i for i in range(data.n)}}


def facts(make, method):
    multiprocessing.process._process_counter = itertools.count(1)
    loader = MAKERS[make](process_sets.Facts(), method, batch_size=4)
    seen = [tuple(column.tolist() if isinstance(column, torch.Tensor) else list(column) for column in batch) for batch in loader]
    close(loader)
    return seen


def test_names_parents_and_stdin_as_with_torch():
    expected = facts("torch", "fork")
    assert facts("DataLoader", "fork") == expected
    assert expected[0][1] == ["ForkProcess-1"] * 4 and expected[1][4] == [os.getpid()] * 4 and expected[0][5] == [True] * 4


def test_names_and_parents_of_a_fork_server():
    for step, (_, name, daemon, parent, pid, alive, stdin, identity, how) in enumerate(facts("DataLoader", "forkserver")):
        number = step % 2 + 1
        assert (set(name), set(identity)) == ({f"ForkServerProcess-{number}"}, {f"({number},)"})
        assert (set(daemon), set(parent), set(pid)) == ({True}, {"MainProcess"}, {os.getpid()})
        assert (set(alive), set(stdin), set(how)) == ({True}, {""}, {"forkserver"})


def test_workers_of_a_loader_may_have_children():
    """Not daemons, which multiprocessing allows no children."""
    assert {(name, flag) for batch in facts("Loader", "fork") for name, flag in zip(batch[1], batch[2], strict=True)} <= {
        ("ForkProcess-1", False), ("ForkProcess-2", False)}


@pytest.mark.parametrize("make, method", WAYS)
def test_what_workers_leave_when_they_end(tmp_path, make, method):
    """All of a queue arrives, and finalizers run; locks and values are those of the parent."""
    many = 4000
    data = process_sets.Telling(multiprocessing.get_context(method), tmp_path, many)
    got = []

    def drain():
        while (item := data.queue.get(timeout=100)) is not None:
            got.append(item[:2])

    reader = threading.Thread(target=drain)
    loader = MAKERS[make](data, method, batch_size=1)
    it = iter(loader)
    seen = [int(next(it))]
    reader.start()                              # after the workers, which are forked
    seen += [int(i) for i in it]
    close(loader)
    data.queue.put(None)
    reader.join(100)
    assert sorted(seen) == list(range(process_sets.N)) and data.count.value >= sum(seen)
    wanted = {(i, k) for i in (process_sets.N - 2, process_sets.N - 1) for k in range(many)}
    assert wanted <= set(got) and len(os.listdir(tmp_path)) in (1, 2)


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("left", [False, True])
def test_workers_do_not_run_what_libraries_do_at_exit(method, left):
    """torch's workers that are spawned do: of a loop that is left, one in a few prints "terminate called without an active exception"."""
    it = iter(MAKERS["DataLoader"](process_sets.Exiting(), method, batch_size=1))
    workers = it._workers
    seen = [int(i) for i in itertools.islice(it, 2 if left else None)]
    it.stop()
    assert seen == list(range(2 if left else process_sets.N))
    assert [w.exitcode for w in workers] == [0, 0]


@pytest.mark.parametrize("make", ["torch", "DataLoader"])
def test_a_loop_that_is_left_breaks_no_lock(make):
    """A worker that is killed while it has a lock would have it for good."""
    context = multiprocessing.get_context("fork")
    lock, entered = context.Lock(), context.Event()
    it = iter(MAKERS[make](process_sets.Locking(lock, entered), "fork", batch_size=1))
    assert int(next(it)) == 0 and entered.wait(100)
    del it
    assert lock.acquire(timeout=100)


# ---- idle workers that end -----------------------------------------------------------------------

@pytest.mark.parametrize("persistent", [False, True])
def test_an_idle_worker_that_is_killed_is_an_error(tmp_path, persistent):
    """Its draws would begin again in another: torch raises."""
    gate = tmp_path / "gate"
    loader = stoker.DataLoader(process_sets.Drawn(gate), batch_size=4, num_workers=2, multiprocessing_context="fork", prefetch_factor=1,
                               persistent_workers=persistent, timeout=60)
    it = iter(loader)
    next(it)
    idle = it._workers[0]
    process_sets.by_signal(idle.pid)
    idle.join(100)
    with pytest.raises(RuntimeError, match=rf"^DataLoader worker \(pid {idle.pid}\) is killed by signal: Killed\. worker 0 .* while idle$"):
        next(it)
    gate.touch()
    loader.close()


class Uneven(theirs.IterableDataset):
    def __init__(self, folder):
        self.gate = str(folder / "gate")

    def __iter__(self):
        worker = theirs.get_worker_info().id
        yield worker
        while worker and not os.path.exists(self.gate):
            os.sched_yield()
        yield from [worker] * worker


def test_a_worker_whose_iterable_is_over_has_ended(tmp_path):
    """As in torch: how it ends is of no matter any more."""
    it = iter(stoker.DataLoader(Uneven(tmp_path), batch_size=None, num_workers=2, multiprocessing_context="fork", prefetch_factor=1))
    seen, (first, _) = [next(it), next(it)], it._workers
    threading.Timer(0.5, (tmp_path / "gate").touch).start()
    seen += list(it)
    assert sorted(seen) == [0, 1, 1] and not first.is_alive() and first.exitcode == 0
