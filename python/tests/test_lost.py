# SPDX-License-Identifier: Apache-2.0
"""Whatever next() raises: the state counts what was handed out, a resume hands out the rest, each sample once; and after an
error that passes next() gives the same batch, bit for bit."""

import json
import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import check_python
from lost_matrix import BAD, BATCH, EACH, KINDS, SAMPLES, Fault, InBatch, InChain, Refused, loader, make_shards, survives
from test_tokens import megatron

import stoker

ROOT = Path(__file__).resolve().parents[2]
HOSTGPU = Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve() / "tests/gpu/host/libstoker_hostgpu.so"


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return make_shards(tmp_path_factory.mktemp("lost"))


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    return make_shards(tmp_path_factory.mktemp("lost_bad"), bad=True)


def seen_as(view, data):
    """A loader as it is, as tuples, or pulled ahead by to_device()."""
    return data if not view else data.as_tuples("n", "image", "ragged") if view == "tuples" else \
        stoker.to_device(data, "cpu", depth=3)


FAULTS = {"store": Refused, "batch": lambda _: InBatch(), "batch interrupted": lambda _: InBatch(KeyboardInterrupt),
          "chain": lambda _: InChain(), "chain interrupted": lambda _: InChain(KeyboardInterrupt)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", FAULTS)
def test_an_error_that_passes(shards, kind, error):
    if "curl: none" in stoker.build_info() and error == "store":
        pytest.skip("this build reads no remote data")
    for view, workers in (("", 0), ("tuples", 2), ("device", 2), ("tuples", 0)):
        if "interrupted" in error and workers:
            continue                            # the function runs in another thread
        fault = FAULTS[error](Path(shards[0]).parent)
        try:
            survives(lambda f: seen_as(view, loader(shards, f, {**KINDS[kind], "num_workers": workers})), fault,
                     ahead=KINDS[kind].get("streams", 1) - 1 if error == "store" else 0)
        finally:
            fault.close()


@pytest.mark.asan
@pytest.mark.parametrize("kind", ["shuffled", "mixed stream"])
def test_a_store_that_fails_and_comes_back(shards, kind):
    if "curl: none" in stoker.build_info():
        pytest.skip("this build reads no remote data")
    fault = Refused(Path(shards[0]).parent)
    survives(lambda f: loader(shards, f, {**KINDS[kind], "num_workers": 3, "batch_size": 4}), fault, again=4)
    fault.close()


@pytest.mark.asan
@pytest.mark.parametrize("kind", [k for k in KINDS if "max" not in k])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_sample(damaged, kind, workers, tmp_path):
    """It is raised each time, the state stays before its batch, and a resume that skips it hands out all others once."""
    how = {**KINDS[kind], "num_workers": workers}
    with loader(damaged, Fault(), how) as data:
        if "stream" not in kind:
            data.ledger(tmp_path / "ledger")
        it, got = iter(data), []
        with pytest.raises(stoker.StokerError, match="not a picture"):
            while True:
                got += next(it)["n"].tolist()
        place = data.state_dict()["position"]
        for _ in range(2):
            with pytest.raises(stoker.StokerError, match="not a picture"):
                next(it)
        state = json.loads(json.dumps(data.state_dict()))
        assert state["position"] == place and BAD not in got
    with loader(damaged, Fault(), how, on_error="skip") as data:
        data.load_state_dict(state)
        if "stream" not in kind:
            data.ledger(tmp_path / "ledger")
        got += [int(n) for batch in data for n, ok in zip(batch["n"], batch.valid) if ok]
        assert data.stats()["skipped"] >= 1 and len(data.stats()["bad_samples"]) == 1
        handed = data.stats()["handed_out"]
    if kind != "rank":
        assert sorted(got) == [n for n in range(SAMPLES) if n != BAD]
        assert handed == SAMPLES - place
    if "stream" not in kind:
        done = subprocess.run([os.environ.get("STOKER_CLI", "stoker"), "ledger", tmp_path / "ledger", "--json"],
                              capture_output=True, text=True, check=True) if os.environ.get("STOKER_CLI") else None
        assert done is None or kind == "rank" or json.loads(done.stdout)["epochs"][0]["never"] == 1, done.stdout


def test_the_skip_budget_stays_spent(damaged):
    """Making the batch again does not count its bad samples from zero."""
    with loader(damaged, Fault(), {"batch_size": 1, "num_workers": 0}, on_error={"skip": 1}, repeat=2) as data:
        it = iter(data)
        for _ in range(EACH + 8 + 1):
            next(it)
        got = 0
        for _ in range(3):
            with pytest.raises(stoker.StokerError, match="more than 1 bad sample"):
                while True:
                    next(it)
                    got += 1
        assert data.state_dict()["position"] == EACH + 8 + 1 + got < 2 * SAMPLES


def test_a_loop_that_failed_is_gone_on_with(damaged, shards):
    """Another loop begins with the batch that failed; after a break it is the next epoch."""
    with loader(damaged, Fault(), {}) as data:
        for _ in range(2):
            with pytest.raises(stoker.StokerError):
                for _ in data:
                    pass
            assert data.epoch == 0 and data.state_dict()["position"] == BAD // BATCH * BATCH
    with loader(shards, Fault(), {}) as data:
        for _ in data:
            break
        assert next(iter(data)) is not None and data.epoch == 1


def test_memory_that_comes_back(shards):
    """Batches that are held fill memory_limit; with one let go the next is the one that was to come."""
    fields = {"image": "from(jpg) | image | resize((512, 512)) | to(f32)", "n": "from(cls) | int"}
    for workers in (0, 2):
        with stoker.Loader(shards, fields, batch_size=4, num_workers=workers, prefetch=2, memory_limit="120MB") as data:
            it, held, got = iter(data), [], []
            for _ in range(3):
                with pytest.raises(stoker.StokerError, match="you hold"):
                    while True:
                        held.append(next(it))
                        got += held[-1]["n"].tolist()
                assert data.state_dict()["position"] == len(got)
                held.clear()
            got += [int(n) for batch in it for n in batch["n"]]
            assert got == list(range(SAMPLES))


def test_packed_rows(tmp_path):
    """Documents packed into rows, and a function that fails on one of their batches."""
    rng = np.random.default_rng(4)
    megatron(tmp_path / "docs", [rng.integers(0, 50000, n).astype("u2") for n in rng.integers(1, 30, 120)])
    for workers in (0, 2):
        seen = []

        def fails(batch):
            seen.append(np.asarray(batch["x"]).tobytes())
            np.asarray(batch["x"])[:] += 1
            if len(seen) in (3, 4):
                raise ValueError("no")
            return batch

        with stoker.Loader(tmp_path / "docs.bin", {"x": "tokens(block=32, pack=best)"}, batch_size=5, batch_ops=[fails],
                           num_workers=workers, prefetch=1, shuffle=True) as data:
            it, raised, given = iter(data), 0, []
            while True:
                try:
                    given.append(np.asarray(next(it)["x"]) - 1)
                except StopIteration:
                    break
                except stoker.StokerError as e:
                    assert "raised ValueError: no" in str(e)
                    raised += 1
                    assert data.state_dict()["position"] == sum(map(len, given))
        with stoker.Loader(tmp_path / "docs.bin", {"x": "tokens(block=32, pack=best)"}, batch_size=5, num_workers=0,
                           shuffle=True) as data:
            want = [np.asarray(batch["x"]).tobytes() for batch in data]
        assert raised == 2 and [x.tobytes() for x in given] == want
        assert seen[:len(want) + 2] == want[:3] + want[2:3] * 2 + want[3:]


def test_a_copy_that_fails(shards, monkeypatch):
    """to_device(): a batch that the loader gave and that could not be sent keeps its place."""
    from stoker import _staging
    send, bad = _staging.Host.send, [3, 4]
    sent = []

    def failing(self, batch):
        sent.append(batch)
        if len(sent) in bad:
            raise RuntimeError("out of memory on the device")
        return send(self, batch)

    monkeypatch.setattr(_staging.Host, "send", failing)
    data = stoker.to_device(loader(shards, Fault(), {}), "cpu", depth=2)
    it, got, raised = iter(data), [], 0
    while len(got) < SAMPLES:
        try:
            got += next(it)["n"].tolist()
        except RuntimeError:
            raised += 1
            assert data.state_dict()["position"] == len(got)
    assert raised == 2 and got == list(range(SAMPLES))
    data.close()


def test_a_handler_that_raises_and_a_closed_loader(shards):
    class Stop(Exception):
        pass

    def handler(number, frame):
        raise Stop

    fault = InChain(kind="thread")
    fault.fields = {"n": stoker.from_("cls").int().call(lambda v: (signal.raise_signal(signal.SIGUSR1), v)[1] if v == BAD and fault.on else v)}
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with loader(shards, fault, {"num_workers": 0}) as data:
            it, got = iter(data), []
            with pytest.raises((Stop, stoker.StokerError)):
                while True:
                    got += next(it)["n"].tolist()
            assert data.state_dict()["position"] == len(got) == BAD // BATCH * BATCH
            fault.on = False
            got += [int(n) for batch in it for n in batch["n"]]
            assert got == list(range(SAMPLES))
    finally:
        signal.signal(signal.SIGUSR1, before)
    for call in (lambda: next(iter(data)), data.state_dict):
        with pytest.raises(stoker.StokerError, match="closed"):
            call()


GPU = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import stoker
from lost_matrix import *
shards, bad = (make_shards(Path(folder), i == 1) for i, folder in enumerate(sys.argv[2:4]))
remote = "curl: none" not in stoker.build_info()
for kind, workers, fault in (("shuffled", 2, Refused), ("shuffled", 0, InChain), ("stream", 2, InChain), ("stream", 0, Refused)):
    if fault is InChain or remote:
        made = fault(Path(sys.argv[2])) if fault is Refused else fault()
        survives(lambda f: loader(shards, f, {**KINDS[kind], "num_workers": workers, "device": "cuda"}), made)
        made.close()
for workers in (0, 2):
    got = []
    with loader(bad, Fault(), {"num_workers": workers, "device": "cuda"}) as data:
        it = iter(data)
        for _ in range(3):
            try:
                while True:
                    got += np.frombuffer(content(next(it)["n"]), "i8").tolist()
            except stoker.StokerError as e:
                assert "key 0031" in str(e), e
        state = data.state_dict()
        assert state["position"] == len(got) == BAD // BATCH * BATCH
    with loader(bad, Fault(), {"num_workers": workers, "device": "cuda"}, on_error="skip") as data:
        data.load_state_dict(state)
        for batch in data:
            got += [n for n, ok in zip(np.frombuffer(content(batch["n"]), "i8").tolist(), np.asarray(batch.valid)) if ok]
    assert got == [n for n in range(SAMPLES) if n != BAD]
print("same")
"""


def test_on_a_gpu(tmp_path, monkeypatch):
    if not HOSTGPU.exists():
        pytest.skip("the GPU of threads is not built")
    monkeypatch.setenv("STK_CUDA_LIB", str(HOSTGPU))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    assert check_python(GPU, Path(__file__).parent, tmp_path / "a", tmp_path / "b") == "same\n"


