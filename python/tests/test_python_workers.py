# SPDX-License-Identifier: Apache-2.0
"""Workers of Python data sets that go wrong: killed, raising, printing, forking; parents that are killed."""

import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import stoker

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tests"))
from forked_python import TORCH  # noqa: E402
from forked_python import python as forked_python  # noqa: E402

torch = pytest.importorskip("torch")


class Trouble:
    """Sample 13 does something."""

    def __init__(self, what, n=40, at=(13,)):
        self.what, self.n, self.at = what, n, at

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i in self.at:
            self.what()
        return {"i": i, "x": torch.full((5000,), float(i))}


def kill_myself():
    os.kill(os.getpid(), signal.SIGKILL)


def fail():
    raise KeyError("thirteen")


def rows(data, **options):
    with stoker.Loader(data, **{"batch_size": 4, "num_workers": 2, "worker_type": "fork", **options}) as loader:
        return [(b["i"].tolist(), b.valid.tolist(), b["x"][:, 0].tolist()) for b in loader], loader.stats()


@pytest.mark.parametrize("what,said", [(kill_myself, r"was killed by SIGKILL \(out of memory\?\)"),
                                       (lambda: os.kill(os.getpid(), signal.SIGUSR1), "was killed by SIGUSR1"),
                                       (lambda: os._exit(3), "ended with status 3"),
                                       (lambda: sys.exit(4), "ended with status 4")])
def test_a_dead_worker_is_named(what, said):
    with pytest.raises(RuntimeError, match=rf"worker \d \(process \d+\) {said} while making sample 13") as e:
        rows(Trouble(what))
    assert e.value.sample == 13


def test_a_dead_worker_is_seen_at_once():
    """The consumer waits for a batch when its worker is killed from outside."""
    with stoker.Loader(Trouble(lambda: time.sleep(600)), batch_size=4, num_workers=1, worker_type="fork") as loader:
        it = iter(loader)
        for _ in range(3):
            next(it)
        pid = loader._crew._workers[0].pid
        threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
        with pytest.raises(RuntimeError, match="making sample 13"):
            next(it)


@pytest.mark.parametrize("what", [kill_myself, fail])
@pytest.mark.parametrize("workers", [1, 2])
def test_skip_goes_on_with_another_sample(what, workers):
    expected, stats = rows(Trouble(fail), num_workers=0, on_error="skip")
    assert stats["skipped"] == 1 and "thirteen" in stats["bad_samples"][0]["reason"]
    found, stats = rows(Trouble(what), num_workers=workers, on_error="skip")
    assert found == expected and stats["skipped"] == 1
    ids, valid, values = found[3]
    assert valid == [True, False, True, True] and 13 not in ids and values == [float(i) for i in ids]


def test_three_deaths_in_a_row_raise():
    with pytest.raises(RuntimeError, match="was killed by SIGKILL"):
        rows(Trouble(kill_myself, at=range(10, 40)), on_error="skip")


def test_a_budget_of_bad_samples():
    with pytest.raises(ValueError, match="more than 2 bad samples in epoch 0"):
        rows(Trouble(fail, n=400, at=(5, 6, 30)), on_error={"skip": 2})
    assert rows(Trouble(fail, n=400, at=(5, 6, 30)), on_error={"skip": 3})[1]["skipped"] == 3


@pytest.mark.parametrize("workers,kind", [(0, "fork"), (2, "fork"), (2, "thread")])
def test_an_exception_has_its_type_and_the_sample(workers, kind):
    with pytest.raises(KeyError) as e:
        rows(Trouble(fail), num_workers=workers, worker_type=kind)
    said = str(e.value) + "".join(getattr(e.value, "__notes__", ()))
    assert "thirteen" in said and "sample 13" in said
    if kind == "fork" and workers:
        assert "in fail" in said and "Traceback" in said


def test_an_exception_that_does_not_pickle():
    def odd():
        class Odd(Exception):
            pass
        raise Odd("strange")

    with pytest.raises(RuntimeError, match="(?s)sample '13'.*Odd: strange"):
        rows(Trouble(odd))


def test_after_an_exception_the_same_batch_comes():
    """As for files: what was not handed out is not lost, and the state does not count it."""
    with stoker.Loader(Trouble(fail), batch_size=4, num_workers=2, worker_type="fork") as loader:
        it = iter(loader)
        got = [next(it)["i"].tolist()[0] for _ in range(3)]
        for _ in range(3):
            with pytest.raises(KeyError, match="sample 13"):
                next(it)
            assert loader.state_dict()["position"] == 12
    assert got == [0, 4, 8]


def busy():
    print("out of a worker")
    assert subprocess.run(["true"]).returncode == 0
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    thread = threading.Thread(target=time.sleep, args=(0.01,))
    thread.start()
    thread.join()


def test_samples_that_print_fork_and_start_threads(capfd):
    found, _ = rows(Trouble(busy, at=range(40)))
    assert [i for b in found for i in b[0]] == list(range(40))
    assert capfd.readouterr().out.count("out of a worker") >= 40       # and of the next epoch, ahead


def test_a_data_set_that_does_not_pickle_is_named():
    data = Trouble(lambda: None)
    with stoker.Loader(data, num_workers=1, worker_type="spawn") as loader, \
            pytest.raises(NotImplementedError, match="does not pickle .*top level"):
        next(iter(loader))


def test_forkserver_is_chosen_where_threads_are(tmp_path):
    from stoker import _crew
    assert _crew.method_for(None, False) == "fork"
    assert _crew.method_for(None, True) == "forkserver"
    assert _crew.method_for("spawn", True) == "spawn"


def script(tmp_path, text):
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(text))
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(stoker.__file__))}
    return [sys.executable, str(path)], env


def children(parent):
    """Processes whose environment says that they come from this test."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if parent in f.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


LIVES = """
    import os, sys, time
    sys.modules["torch"] = None                         # its import takes longer than the rest
    import stoker
    class D:
        def __len__(self): return 1000000
        def __getitem__(self, i):
            if i == 100: time.sleep(600)
            return {"i": i}
    if __name__ == "__main__":
        loader = stoker.Loader(D(), batch_size=4, num_workers=3, worker_type=sys.argv[1])
        it = iter(loader)
        next(it)
        print("ready", flush=True)
        for _ in it: pass
"""


def wait_for(what):
    until = time.monotonic() + 120
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


def no_orphans_after_kill(tmp_path, method, number):
    command, env = script(tmp_path, LIVES)
    mark = f"STOKER_TEST_{os.getpid()}_{method}_{number}"
    parent = subprocess.Popen([*command, method], env={**env, mark: "1"}, stdout=subprocess.PIPE)
    assert parent.stdout.readline() == b"ready\n"
    wait_for(lambda: len(children(mark.encode())) >= 4)
    parent.kill()
    parent.wait()
    wait_for(lambda: not children(mark.encode()))
    parent.stdout.close()


@pytest.mark.parametrize("method", ["fork", "fork", "fork", "forkserver", "spawn"])
def test_no_orphans_when_the_parent_is_killed(tmp_path, method):
    times = int(os.environ.get("STOKER_SOAK_KILLS", "1"))
    for number in range(times):
        no_orphans_after_kill(tmp_path, method, number)


def test_no_orphans_of_a_loader_that_a_thread_made(tmp_path):
    command, env = script(tmp_path, """
        import sys, threading
        sys.modules["torch"] = None
        import stoker
        class D:
            def __len__(self): return 40
            def __getitem__(self, i): return {"i": i}
        made = []
        def make():
            made.append(stoker.Loader(D(), batch_size=4, num_workers=2, worker_type="fork"))
            made.append(next(iter(made[0])))
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        print(sum(len(b["i"]) for b in made[0]))        # workers outlive the thread that made them
        made[0].close()
    """)
    out = subprocess.run(command, env=env, capture_output=True, text=True, timeout=180)
    assert out.stdout == "40\n", out.stderr


def shared_memory_files(*pids):
    """Names in /dev/shm that these processes have mapped.  A list of the folder has the files of other tests too."""
    return {line.split()[5] for pid in pids for line in open(f"/proc/{pid}/maps") if "/dev/shm/" in line}


def test_few_descriptors_and_no_shared_memory_files(tmp_path):
    before = shared_memory_files("self")
    with stoker.Loader(Trouble(lambda: None, n=400, at=()), batch_size=4, num_workers=8, worker_type="fork") as loader:
        start = len(os.listdir("/proc/self/fd"))
        held = []
        for batch in loader:
            held.append(batch)
        assert len(os.listdir("/proc/self/fd")) - start <= 2 * 8 + 1
        pids = [worker.pid for worker in loader._crew._workers]
        assert len(os.listdir(f"/proc/{pids[7]}/fd")) <= start + 4
        assert shared_memory_files("self", *pids) <= before
    del held, batch
    assert len(os.listdir("/proc/self/fd")) <= start


def test_works_with_64_descriptors(tmp_path):
    command, env = script(tmp_path, """
        import resource, stoker, torch
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        class D:
            def __len__(self): return 512
            def __getitem__(self, i): return [torch.full((100,), i) for _ in range(40)]
        held = list(stoker.Loader(D(), batch_size=8, num_workers=8, worker_type="fork"))
        print(len(held), held[-1][39][7, 0].item())
    """)
    out = forked_python(*TORCH).run(command[1:], env=env, timeout=180)
    assert out.stdout == "64 511\n", out.stderr


def test_a_closed_loader_and_an_interrupt():
    loader = stoker.Loader(Trouble(lambda: None, at=()), batch_size=4, num_workers=2, worker_type="fork")
    it = iter(loader)
    seen = next(it)["i"].tolist()

    def interrupt(number, frame):
        if frame.f_code.co_filename != __file__:        # in next(): after it, the test itself would lose what it got
            raise InterruptedError

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        while True:
            signal.setitimer(signal.ITIMER_REAL, 0.0005)
            try:
                seen += next(it)["i"].tolist()
            except InterruptedError:
                continue
            except StopIteration:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert seen == list(range(40))
    loader.close()
    loader.close()
    with pytest.raises(RuntimeError, match="closed"):
        iter(loader)


def test_less_address_space():
    """A ring whose slots are smaller where there is less room."""
    ring = stoker._stoker.Ring(-1, 1 << 20)
    slot = ring.take()
    with pytest.raises(MemoryError, match="lower batch_size"):
        slot.check(0, (1 << 20) + 1)
    with pytest.raises(MemoryError):
        slot.copy((1 << 20) - 1, b"xx")
    with pytest.raises(ValueError):
        slot.say(1, 1 << 20, 5)
        slot.hear()
    assert re.fullmatch(r"\d+", str(slot.number)) and resource.getrlimit(resource.RLIMIT_AS)


def loops_until_whole(loader, most=3):
    """Errors of loops before one that gives all batches; close() then raises nothing."""
    errors = []
    for _ in range(most):
        try:
            seen = [i for batch in loader for i in batch["i"].tolist()]
        except RuntimeError as e:
            errors.append(str(e))
        else:
            loader.close()
            assert sorted(seen) == list(range(40))
            return errors
    raise AssertionError(errors)


def test_idle_workers_that_are_killed():
    """Another takes the place; what was sent to the dead one may be an error, once."""
    with stoker.Loader(Trouble(lambda: None, at=()), batch_size=4, num_workers=2, worker_type="fork", prefetch=1) as loader:
        assert len(list(loader)) == 10
        for worker in loader._crew._workers:
            os.kill(worker.pid, signal.SIGKILL)
        assert all("was killed by SIGKILL" in e for e in loops_until_whole(loader))


def test_the_process_that_workers_come_from_is_killed():
    with stoker.Loader(Trouble(print, at=()), batch_size=4, num_workers=1, worker_type="forkserver") as loader:
        next(iter(loader))
        os.kill(loader._crew._server.pid, signal.SIGKILL)       # and the kernel ends its workers
        assert all("was killed by SIGKILL" in e for e in loops_until_whole(loader))
    loader = stoker.Loader(Trouble(print, at=()), batch_size=4, num_workers=1, worker_type="forkserver")
    next(iter(loader))
    os.kill(loader._crew._server.pid, signal.SIGKILL)
    loader.close()


@pytest.mark.parametrize("make", [lambda data: stoker.Loader(data, batch_size=2, num_workers=2, worker_type="fork"),
                                  lambda data: stoker.Loader(data, batch_size=2, num_workers=0),
                                  lambda data: stoker.DataLoader(data, 2, num_workers=2, multiprocessing_context="fork")])
def test_threads_take_turns(make):
    """Several threads at one iterator: every sample once."""
    loader, got, errors = make(Trouble(lambda: time.sleep(0.001), n=200, at=range(200))), [], []
    running = iter(loader)

    def take():
        try:
            for batch in running:
                got.extend(batch["i"].tolist())
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loader.close()
    assert not errors and sorted(got) == list(range(200))
