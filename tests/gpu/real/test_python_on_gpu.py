# SPDX-License-Identifier: Apache-2.0
"""Python in the path of a GPU: functions in chains, Python data sets, functions on batches, workers after CUDA began."""

import gc
import json
import random

import on_gpu
import pytest
import python_data_on_gpu as mine
import stoker
from on_gpu import DEVICE, Verdict, bits, delay, options

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def tar(tmp_path_factory):
    return on_gpu.write_pictures(tmp_path_factory.mktemp("python") / "a.tar", on_gpu.every_kind(rounds=1))


def leaves(value):
    """Tensors as their bits on the host, all else as it is."""
    if isinstance(value, torch.Tensor):
        return bits(value).tolist()
    if isinstance(value, dict):
        return {name: leaves(v) for name, v in value.items()}
    return [leaves(v) for v in value] if isinstance(value, (list, tuple)) else value


def seen(batches):
    return [(torch.as_tensor(b.sample_ids).tolist(), torch.as_tensor(b.valid).tolist(), leaves(dict(b))) for b in batches]


def on_device(*tensors):
    return all(t.device.type == DEVICE for t in tensors)


# ---- functions in chains -----------------------------------------------------------------------------

FIELDS = {"image": stoker.from_("pic").image().resize((48, 40)).call(mine.shift).random_crop(32).hflip().to("f16"),
          "numbers": stoker.from_("pic").image().random_resized_crop(24).normalize("imagenet").to("f32").call(mine.double),
          "plain": "from(pic) | image | random_resized_crop(24) | hflip | to(f16)",
          "text": stoker.from_("txt").text().call(mine.tagged), "label": "from(cls) | int"}
HOW = {"batch_size": 7, "shuffle": True, "seed": on_gpu.SEED}


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_functions_in_chains(tar, kind):
    """Beside an output that the GPU decodes: the batches of the CPU, bit for bit, also after a resume."""
    with stoker.Loader(tar, FIELDS, num_workers=0, **HOW) as cpu, \
            stoker.Loader(tar, FIELDS, num_workers=2, worker_type=kind, **HOW, **options()) as gpu:
        want, batches = seen(cpu), iter(gpu)
        head = [next(batches) for _ in range(2)]
        assert on_device(*(head[0][name] for name in ("image", "numbers", "plain", "label")))
        assert head[0]["text"][0].startswith("<") and len(gpu) == len(want)
        state = json.loads(json.dumps(gpu.state_dict()))
        assert seen(head) + seen(batches) == want
        gpu.load_state_dict(state)
        assert seen(gpu) == want[2:]


def test_a_function_that_fails(tar):
    fields = {"image": stoker.from_("pic").image().resize((16, 16)).call(mine.fails).to("f16")}
    with stoker.Loader(tar, fields, num_workers=1, batch_size=4, **options()) as loader, \
            pytest.raises(ValueError, match="no picture of mine"):
        next(iter(loader))


# ---- functions on batches ----------------------------------------------------------------------------

def test_functions_on_batches(tar):
    """They get what the loop gets, on the stream that is current there, and may wait for nothing."""
    verdict, rng = Verdict(), random.Random(on_gpu.SEED)

    def statistics(batch):
        assert on_device(batch["plain"], batch["label"])
        delay(rng)
        return {**batch, "mean": batch["plain"].float().mean((1, 2, 3)), "next": batch["label"] + 1, "kind": "gpu"}

    fields = {name: FIELDS[name] for name in ("plain", "label")}
    with stoker.Loader(tar, fields, batch_ops=[statistics], **HOW, **options()) as loader:
        state = None
        for step, batch in enumerate(loader):
            verdict.equal(batch["next"], batch["label"] + 1)
            verdict.equal(batch["mean"], batch["plain"].float().mean((1, 2, 3)))
            assert batch["kind"] == "gpu" and on_device(batch["mean"]) and len(batch.sample_keys) == len(batch["label"])
            state = loader.state_dict() if step == 2 else state
        verdict.check()
        loader.load_state_dict(state)
        assert sum(1 for _ in loader) == len(loader) - 3


# ---- Python data sets --------------------------------------------------------------------------------

@pytest.mark.parametrize(("workers", "kind"), [(0, None), (2, "forkserver"), (2, "thread")])
def test_a_python_data_set(workers, kind):
    how = {"batch_size": 8, "shuffle": True, "seed": 3, "on_error": "skip", "num_workers": workers, "worker_type": kind}
    drawn = kind == "thread"                    # threads share the generators, which are left alone
    with stoker.Loader(mine.Clips(bad=True), **{**how, "num_workers": 0, "worker_type": None}) as cpu, \
            stoker.Loader(mine.Clips(bad=True), **how, **options()) as gpu:
        for _ in range(2):
            want, got = seen(cpu), []
            for batch in gpu:
                assert on_device(batch["clip"], batch["array"], batch["label"], batch["nested"]["pair"][1])
                got += seen([batch])
            for part in (want, got) if drawn else ():
                for _, _, batch in part:
                    del batch["noise"]
            assert got == want and not all(ok for _, valid, _ in got for ok in valid)


def test_state_of_a_python_data_set():
    """It says what was handed out, whatever is on its way."""
    how = {"batch_size": 4, "shuffle": True, "num_workers": 2, "worker_type": "forkserver", "seed": 9}
    with stoker.Loader(mine.Clips(), **how, **options()) as loader:
        batches = iter(loader)
        for _ in range(5):
            next(batches)
        state = json.loads(json.dumps(loader.state_dict()))
        assert state["position"] == 20
        rest = seen(batches)
    with stoker.Loader(mine.Clips(), **{**how, "num_workers": 0, "worker_type": None}) as loader:
        loader.load_state_dict(state)
        assert seen(loader) == rest


def test_an_iterable_and_delays():
    """Batches that were copied ahead are right on the loop's stream, however late that is; slots are used again."""
    verdict, rng = Verdict(), random.Random(on_gpu.SEED)
    for _ in range(3):
        with stoker.Loader(mine.Numbers(), batch_size=6, num_workers=1, worker_type="forkserver", **options()) as loader:
            for k, batch in enumerate(loader):
                delay(rng)
                verdict.equal(batch, torch.arange(6 * k, min(6 * k + 6, 50), device=DEVICE))
                batch.fill_(-1)
    verdict.check()


def test_an_error_stays_in_its_place():
    with stoker.Loader(mine.Clips(bad=True), batch_size=5, num_workers=1, worker_type="forkserver", **options()) as loader:
        batches = iter(loader)
        assert next(batches)["label"].tolist() == [i * i for i in range(5)]
        with pytest.raises(ValueError, match="clip 5"):
            next(batches)
        with pytest.raises(ValueError, match="clip 5"):         # the same batch again: nothing is lost
            next(batches)


@pytest.mark.real_gpu
def test_device_memory_comes_back():
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    with stoker.Loader(mine.Clips(200), batch_size=8, num_workers=2, worker_type="forkserver", device="cuda") as loader:
        for batch in loader:
            pass
    del batch
    gc.collect()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before < 1 << 20


# ---- torch's DataLoader by name ----------------------------------------------------------------------

@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader_pins(workers):
    how = {"batch_size": 5, "num_workers": workers, "multiprocessing_context": "forkserver" if workers else None}
    for k, (x, y) in enumerate(stoker.DataLoader(mine.Pairs(), pin_memory=not on_gpu.DRY, **how)):
        assert on_gpu.DRY or x.is_pinned() and y.is_pinned()
        there = x.to(DEVICE, non_blocking=True)
        del x                                   # its memory may be used again: not before the copy is over
        assert y.tolist() == list(range(5 * k, 5 * k + 5))
        assert torch.equal(there.cpu(), torch.arange(1000) * y[:, None])
    for k, (x, y) in enumerate(stoker.to_device(stoker.DataLoader(mine.Pairs(), **how), DEVICE)):
        assert on_device(x, y) and y.tolist() == list(range(5 * k, 5 * k + 5))


@pytest.mark.real_gpu
def test_loader_pins():
    with stoker.Loader(mine.Clips(), batch_size=5, pin_memory=True, num_workers=1, worker_type="forkserver") as loader:
        for batch in loader:
            assert batch["clip"].is_pinned() and batch["nested"]["pair"][1].is_pinned()


# ---- start of workers --------------------------------------------------------------------------------

@pytest.mark.real_gpu
def test_workers_after_cuda_began():
    """A process that uses CUDA is not forked: workers come from a fresh one, and know nothing of CUDA.  DataLoader forks, as torch's."""
    torch.ones(3, device="cuda").sum().item()
    with stoker.Loader(mine.Where(), batch_size=2, num_workers=2) as loader:
        rows = [(bool(b), int(p)) for batch in loader for b, p in zip(batch["began"], batch["pid"], strict=True)]
        assert loader._crew._method == "forkserver"
    assert len(rows) == 8 and not any(began for began, _ in rows)
    loader = stoker.DataLoader(mine.Where(), batch_size=2, num_workers=2)
    batches = iter(loader)
    assert batches._crew._method == "fork" and [int(i) for b in batches for i in b["i"]] == list(range(8))
    with stoker.Loader(mine.Where(), batch_size=2, num_workers=2, device="cuda") as loader:
        assert [int(i) for b in loader for i in b["i"]] == list(range(8))
        assert loader._crew._method == "forkserver"


@pytest.mark.real_gpu
def test_functions_after_cuda_began(tar):
    """The same for functions in chains, beside a loader with threads."""
    torch.ones(3, device="cuda").sum().item()
    with stoker.Loader(tar, FIELDS, num_workers=1, device="cuda", **HOW) as other, \
            stoker.Loader(tar, FIELDS, num_workers=1, device="cuda", **HOW) as loader:
        assert seen(loader) == seen(other)


@pytest.mark.real_gpu
def test_a_data_set_that_does_not_pickle_is_forked_all_the_same():
    torch.ones(3, device="cuda").sum().item()
    data = mine.Where()
    data.function = lambda: None
    with stoker.Loader(data, batch_size=2, num_workers=1) as loader:
        assert [int(i) for b in loader for i in b["i"]] == list(range(8))
        assert loader._crew._method == "fork"
