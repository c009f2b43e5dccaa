# SPDX-License-Identifier: Apache-2.0
"""Python data sets that fail, and signal handlers that raise at random moments: no sample is lost or repeated, the state
says what was handed out, and no process is left.

STOKER_INTERRUPTS says how many interrupts each case has; the seed is printed with a failure.
"""

import os
import signal

import pytest
from conftest import ALARM, run_python
from iterables import Counted

import stoker

INTERRUPTS = int(os.environ.get("STOKER_INTERRUPTS", "300")) // 20
SEED = int(os.environ.get("STOKER_SEED", "20240611"))

# Each epoch has a loader of its own, so that its start and its end are interrupted too.
LOOP = ALARM + """
    import gc, os, random, signal, stoker, sys, warnings

    warnings.simplefilter("ignore")

    class Numbers:
        def __len__(self): return 60
        def __getitem__(self, i): return {"i": i}

    class Streamed:
        def __iter__(self):
            for i in range(60):
                yield {"i": i}

    class Shared:
        def __iter__(self):
            info = stoker.get_worker_info()
            for i in range(info.id, 60, info.num_workers) if info else range(60):
                yield {"i": i}

    class Kept:
        at = 0
        def __iter__(self):
            while self.at < 60:
                self.at += 1
                yield {"i": self.at - 1}
            self.at = 0
        def state_dict(self): return {"at": self.at}
        def load_state_dict(self, state): self.at = state["at"]

    def no_children():
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        return False

    def run(make, seed, wanted):
        global armed
        draws, hits, epochs = random.Random(seed), 0, 0
        signal.signal(signal.SIGALRM, handler)
        while hits < wanted:
            loader = it = batch = None
            got, over, left, in_vain = [], False, draws.random() < 0.2, 0
            while not over:
                try:
                    try:
                        armed = True
                        # On a busy machine workers may take longer to start than any signal to come: then signals come later.
                        signal.setitimer(signal.ITIMER_REAL, draws.choice((5e-4, 3e-3, 2e-2)) * draws.random() * (1 + in_vain / 8) + 1e-6)
                        if loader is None:
                            loader = make()
                        if it is None:
                            it = iter(loader)
                        for batch in it:
                            got.append(batch)
                            if left and len(got) == 5:
                                break
                        over = True
                        loader.close()
                    finally:
                        armed = False
                        signal.setitimer(signal.ITIMER_REAL, 0)     # none comes when the interpreter has taken the handler away
                except Alarm:
                    hits += 1
                    in_vain += 1
                if batch is not None and (not got or got[-1] is not batch):
                    got.append(batch)           # it was bound; the signal came before it was noted
                if loader is not None and not over:
                    where = loader.state_dict()
                    done = sum(len(b["i"]) for b in got)
                    assert (where["epoch"], where["position"]) in ((0, done), (1, 0)), (where, done)
            del loader, it                      # a close that was cut short goes on
            gc.collect()
            assert no_children()
            rows = [i for b in got for i in b["i"].tolist()]
            assert left or sorted(rows) == list(range(60)), rows
            epochs += 1
        return epochs
"""

CASES = """
    for kind, data in (("map", Numbers), ("iterable", Streamed), ("shared", Shared), ("state", Kept), ("own", lambda: iter([{"i": i} for i in range(60)]))):
        for workers in (0, 2):
            make = lambda: stoker.Loader(data(), batch_size=7, num_workers=workers, worker_type="fork")
            try:
                run(make, {seed}, {wanted})
            except BaseException as e:
                raise AssertionError(f"{kind}, {workers} workers, seed {seed}") from e
"""


@pytest.mark.parametrize("base", ["Exception", "BaseException"])
def test_handlers_that_raise_lose_nothing(base):
    script = LOOP.replace("{base}", base) + CASES.replace("{seed}", str(SEED)).replace("{wanted}", str(INTERRUPTS))
    done = run_python(script, timeout=120 + INTERRUPTS * 10)
    assert done.returncode == 0, done.stderr[-3000:]


class Trouble:
    """Something happens at sample 13, once or always: `path` says that it did."""

    def __init__(self, path, what, always):
        self.path, self.what, self.always = str(path), what, always

    def sample(self, i):
        if i == 13 and self.what not in ("collate", "none"):
            self.happen()
        return {"i": i}

    def happen(self):
        if self.always or not os.path.exists(self.path):
            open(self.path, "w").close()
            if self.what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyError("thirteen")

    def collate(self, samples):
        if self.what == "collate" and samples[0]["i"] == 12:
            self.happen()
        return [sample["i"] for sample in samples]


class Numbered(Trouble):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return self.sample(i)


class Streamed(Trouble):
    def __iter__(self):
        for i in range(40):
            yield self.sample(i)


class Kept(Counted, Trouble):
    pass


class Own(Trouble):
    """Its own iterator; it goes on after an exception, with the same sample."""

    at = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.at == 40:
            raise StopIteration
        made = self.sample(self.at)
        self.at += 1
        return made


@pytest.mark.filterwarnings("ignore:this data set has no state_dict")
@pytest.mark.parametrize("workers,kind", [(0, None), (2, "fork"), (1, "thread")])
def test_what_raised_is_made_again(tmp_path, workers, kind):
    whole = [list(range(k, min(k + 4, 40))) for k in range(0, 40, 4)]
    for data in (Numbered, Streamed, Kept, Own):
        for what in ("sample", "collate", *(["kill"] if kind == "fork" else [])):
            error = RuntimeError if what == "kill" else KeyError
            for always in (False, True) if what == "sample" else (False,):
                path = tmp_path / f"{data.__name__}-{what}-{always}"
                made = data(path, what, always)
                options = {"batch_size": 4, "num_workers": workers if data is Numbered else min(workers, 1), "worker_type": kind,
                           "collate": made.collate}
                with stoker.Loader(made, **options) as loader:
                    it = iter(loader)
                    assert [next(it) for _ in range(3)] == whole[:3]
                    for _ in range(1 + always):
                        with pytest.raises(error):
                            next(it)
                        assert loader.state_dict()["position"] == 12
                    state = loader.state_dict()
                    if not always:
                        assert list(it) == whole[3:], (data, what)
                        assert loader.state_dict()["epoch"] == 1
                made = data(path, what, always)         # always: it raises again after a resume, else it goes on there
                with stoker.Loader(made, **{**options, "collate": made.collate}) as loader:
                    loader.load_state_dict(state)
                    if not always:
                        assert list(loader) == whole[3:]
                        continue
                    with pytest.raises(error):
                        next(iter(loader))


def test_a_generator_that_raised_is_not_over():
    def numbers():
        for i in range(20):
            if i == 6:
                raise KeyError("six")
            yield i

    with stoker.Loader(numbers(), batch_size=4, num_workers=0) as loader:
        it = iter(loader)
        next(it)
        for _ in range(3):
            with pytest.raises((KeyError, RuntimeError), match="six|raised KeyError at sample 6 and gives no more"):
                next(it)
            assert loader.state_dict()["position"] == 4


@pytest.mark.filterwarnings("ignore:this data set has no state_dict")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_set_that_became_shorter(workers):
    def open_(n):
        return stoker.Loader(map(int, range(n)), batch_size=4, num_workers=workers, worker_type="fork")

    with open_(40) as loader:
        it = iter(loader)
        next(it), next(it)
        state = loader.state_dict()
    for n, left in ((40, 32), (50, 42), (8, 0)):
        with open_(n) as loader:
            loader.load_state_dict(state)
            assert sum(len(b) for b in loader) == left
    with open_(7) as loader:
        loader.load_state_dict(state)
        with pytest.raises(ValueError, match="8 samples of the data set were handed out .* and it has 7"):
            list(loader)


class Losing(Kept):
    """Has no way to take up its states."""

    load_state_dict = None

    def state_dict(self):
        return self.__dict__                    # its own, which changes


@pytest.mark.filterwarnings("ignore:this data set has no state_dict")
def test_states_that_a_data_set_cannot_take_up(tmp_path):
    def open_():
        return stoker.Loader(Losing(tmp_path / "x", "none", False), batch_size=4, num_workers=0)

    with open_() as loader:
        it = iter(loader)
        next(it), next(it)
        state = loader.state_dict()
        next(it)
        assert state["stream"]["states"][0][0]["at"] == 8
    with open_() as loader:
        loader.load_state_dict(state)
        assert next(iter(loader))["i"].tolist() == [8, 9, 10, 11]


class Sharing:
    def __iter__(self):
        info = stoker.get_worker_info()
        yield from range(info.id, 60, info.num_workers) if info else range(60)


@pytest.mark.filterwarnings("ignore:this data set has no state_dict")
def test_workers_that_share_resume_exactly_or_are_refused():
    def open_(workers, size=4, **options):
        return stoker.Loader(Sharing(), batch_size=size, num_workers=workers, worker_type="fork", **options)

    def begun(workers):
        with open_(workers) as loader:
            it = iter(loader)
            got = [i for _ in range(5) for i in next(it).tolist()]
            return got, loader.state_dict()

    got, state = begun(2)
    for size, world in ((4, 1), (7, 1), (3, 2)):
        rest = []
        for rank in range(world):
            with open_(2, size, rank=rank, world_size=world) as loader:
                loader.load_state_dict(state)
                for batch in loader:
                    rest += [i for i, ok in zip(batch.tolist(), loader.valid.tolist(), strict=True) if ok]
        assert sorted(got + rest) == list(range(60)), (size, world)
    for workers in (0, 1, 3):
        with open_(workers) as loader, pytest.raises(ValueError, match="2 workers that share .* give num_workers=2"):
            loader.load_state_dict(state)
    got, state = begun(0)                       # that it asks was not seen there
    with open_(2) as loader:
        loader.load_state_dict(state)
        with pytest.raises(ValueError, match="shares its samples among 2 workers, and the state is of num_workers=1"):
            next(iter(loader))
    with open_(1) as loader:
        loader.load_state_dict(state)
        assert sorted(got + [i for b in loader for i in b.tolist()]) == list(range(60))


@pytest.mark.parametrize("stream,said", [
    (5, "stream is 5"), ({}, "counts batches"), ({"read": [8]}, "stream has no active, workers"),
    ({"read": [8, 1]}, "read of stream is"), ({"read": [-1]}, "the state's count"), ({"states": [4]}, "a worker's state is 4"),
    ({"turn": 1}, "turn"), ({"active": 10**9}, "active"), ({"read": [9]}, "reads 9 samples, and its position is 8"),
])
def test_damaged_places_are_refused(stream, said):
    with stoker.Loader(Sharing(), batch_size=4, num_workers=0) as loader:
        it = iter(loader)
        next(it), next(it)
        state = loader.state_dict()
        if said.startswith(("read of", "the state's count", "a worker", "turn", "active", "reads")):
            stream = {**state["stream"], **stream}
        with pytest.raises(ValueError, match=said):
            loader.load_state_dict({**state, "stream": stream})
