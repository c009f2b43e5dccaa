# SPDX-License-Identifier: Apache-2.0
"""Consumer-stream stress: delays, poisoned buffers, side streams, autograd's thread, bare DLPack.  No batch may be stale
or torn.  What is checked is checked on the device, in order with the consumer's work, without waiting for it."""

import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import on_gpu
import pytest
import stoker
from on_gpu import DEVICE, Verdict, delay, meet, on, options, side_stream

torch = pytest.importorskip("torch")

BATCHES = int(os.environ.get("STOKER_GPU_BATCHES", "200" if on_gpu.DRY else "10000"))
ROWS, WIDTH, WIDE = 16, 256, 8192      # 16 KB, and 512 KB, which is handed out without a copy


def numbered(batches, width=WIDTH):
    """Rows that say which they are in every element."""
    rows = np.arange(ROWS * batches, dtype=np.int32)
    return np.ascontiguousarray(np.broadcast_to(rows[:, None], (len(rows), width)))


def wanted(step):
    return torch.arange(step * ROWS, (step + 1) * ROWS, dtype=torch.int32, device=DEVICE)[:, None]


@pytest.mark.parametrize("wrap", ["loader", "to_device"])
@pytest.mark.parametrize("width, batches", [(WIDTH, BATCHES), (WIDE, max(BATCHES // 20, 50))], ids=["small", "large"])
def test_ten_thousand_batches(wrap, width, batches):
    """Late readers, then poison: memory that comes back too early shows as -1 or as another row."""
    rng, verdict = random.Random(on_gpu.SEED), Verdict()
    data = {"x": numbered(batches, width)}
    if wrap == "loader":
        loader = stoker.Loader(data, batch_size=ROWS, **options())
    else:
        loader = stoker.to_device(stoker.Loader(data, batch_size=ROWS), DEVICE, depth=3)
    held, count = [], 0
    for step, batch in enumerate(loader):
        x = batch["x"]
        delay(rng)
        verdict.equal(x, wanted(step))
        if not on_gpu.DRY:                      # on the CPU a batch may be shared with its source
            x.fill_(-1)
        if rng.random() < 0.1:                  # some live on for a while
            held.append(x)
            del held[:-5]
        del batch, x                            # while the work above is still to be done
        count += 1
    assert count == batches
    verdict.check()


@pytest.mark.real_gpu
@pytest.mark.parametrize("side", [False, True], ids=["default stream", "side stream"])
def test_pinned_batches_dropped_behind_a_copy(side):
    """The loop that everybody writes: x = batch["x"].to("cuda", non_blocking=True), and on to the next batch.  The copy
    may come late; the pinned memory must not be filled anew before it."""
    rng, verdict, batches = random.Random(on_gpu.SEED + 4), Verdict(), 300
    stream = side_stream() if side else torch.cuda.current_stream()
    stream.wait_stream(torch.cuda.current_stream())
    loader = stoker.Loader({"x": numbered(batches, WIDE)}, batch_size=ROWS, pin_memory=True)
    with on(stream):
        for step, batch in enumerate(loader):
            delay(rng, 3_000_000)
            verdict.equal(batch["x"].to("cuda", non_blocking=True), wanted(step))
    verdict.check()


def test_side_streams():
    """next() under one stream, then under another: the batch is good on the one that was current."""
    rng, verdict = random.Random(on_gpu.SEED + 1), Verdict()
    batches = max(BATCHES // 5, 50)
    streams = [None, side_stream(), side_stream()]
    it = iter(stoker.Loader({"x": numbered(batches)}, batch_size=ROWS, **options()))
    for step in range(batches):
        stream = rng.choice(streams)
        with on(stream):
            delay(rng)
            x = next(it)["x"]
            verdict_here = (x != wanted(step)).sum()
            delay(rng)
            x.fill_(-1)
            del x
        meet(stream)
        if not on_gpu.DRY and stream is not None:
            verdict_here.record_stream(torch.cuda.current_stream())
        verdict.wrong += verdict_here
        verdict.seen += 1
    verdict.check()


def test_from_autograds_thread():
    """backward() runs in a thread of its own, on the stream of forward()."""
    verdict, batches = Verdict(), 200
    it = iter(stoker.Loader({"x": numbered(batches)}, batch_size=ROWS, **options()))
    step = iter(range(batches))

    class Pull(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            verdict.equal(next(it)["x"], wanted(next(step)))
            return grad

    for stream in (None, side_stream()):
        if stream is not None:
            stream.wait_stream(torch.cuda.current_stream())     # the verdict is written there
        with on(stream):
            for _ in range(batches // 2):
                x = torch.ones(8, device=DEVICE, requires_grad=True)
                Pull.apply(x).sum().backward()
        meet(stream)
    verdict.check()


def test_two_loaders_at_once():
    rng, verdict = random.Random(on_gpu.SEED + 2), Verdict()
    batches = 300
    one = stoker.Loader({"x": numbered(batches)}, batch_size=ROWS, **options())
    other = stoker.Loader({"x": numbered(batches) + 1}, batch_size=ROWS, **options())
    for step, (a, b) in enumerate(zip(one, other, strict=True)):
        delay(rng)
        verdict.equal(a["x"], wanted(step))
        verdict.equal(b["x"], wanted(step) + 1)
    verdict.check()


def test_pictures_under_delays(tmp_path):
    """The whole path of pictures, against the CPU's, with a slow consumer that spoils what it was given."""
    tar = on_gpu.write_pictures(tmp_path / "a.tar", on_gpu.every_kind())
    fields = {"image": "from(pic) | image | random_resized_crop(32) | hflip | normalize(imagenet) | to(f16)"}
    how = {"batch_size": 8, "shuffle": True, "seed": 5, "drop_last": True}
    rng, verdict = random.Random(on_gpu.SEED + 3), Verdict()
    cpu, gpu = stoker.Loader(tar, fields, **how), stoker.Loader(tar, fields, **how, **options())
    for _ in range(3 if on_gpu.DRY else 30):
        for want, got in zip(cpu, gpu, strict=True):
            reference = want["image"].to(DEVICE)
            delay(rng, 2_000_000)
            verdict.equal(got["image"], reference)
            got["image"].fill_(float("nan"))
    verdict.check()


def test_a_consumer_that_leaves_in_the_middle():
    for depth in range(20):
        loader = stoker.Loader({"x": numbered(60)}, batch_size=ROWS, **options())
        for step, batch in enumerate(loader):
            if step == depth:
                break
        assert torch.equal(batch["x"].cpu(), wanted(step).cpu().expand(ROWS, WIDTH))
        loader.close()


# ---- without torch ------------------------------------------------------------------------------

BARE = """
    import numpy as np, stoker
    rows = np.ascontiguousarray(np.broadcast_to(np.arange(4000, dtype=np.int32)[:, None], (4000, 64)))
    loader = stoker.Loader({"x": rows}, batch_size=16, device="cuda")
    for step, batch in enumerate(loader):
        x = batch["x"]
        assert x.__dlpack_device__()[0] == 2, x.__dlpack_device__()
        taken = take(x)
        assert equal(taken, np.arange(step * 16, step * 16 + 16, dtype=np.int32)[:, None]), step
        del x, batch
        if step % 3:
            del taken
    print("batches", step + 1)
"""
TAKERS = {
    "cupy": """
    import cupy
    side = cupy.cuda.Stream(non_blocking=True)
    def take(x):
        with side:
            return cupy.from_dlpack(x)
    def equal(a, b):
        with side:
            return bool((a == cupy.asarray(b)).all())
    """,
    "jax": """
    import os
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax, jax.numpy as jnp
    def take(x):
        return jax.dlpack.from_dlpack(x)
    def equal(a, b):
        return bool((a == jnp.asarray(b)).all())
    """,
}


@pytest.mark.real_gpu
@pytest.mark.parametrize("torch_too", [False, True], ids=["bare", "with torch"])
@pytest.mark.parametrize("package", sorted(TAKERS))
def test_dlpack(package, torch_too):
    pytest.importorskip(package)
    path = [str(Path(stoker.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    if not torch_too:
        path.insert(0, str(on_gpu.ROOT / "tools/notorch"))
    code = textwrap.dedent(TAKERS[package]) + textwrap.dedent(BARE)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(path)})
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["batches", "250"]
