# SPDX-License-Identifier: Apache-2.0
"""Signal handlers that raise at random moments inside a loop: what the loop got, what the state says and what
the ledger has are the same, batch for batch.

STOKER_INTERRUPTS says how many interrupts each case has; the seed is printed with a failure.
"""

import json
import os
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from conftest import ALARM, run_python

import stoker

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from forked_python import TORCH  # noqa: E402
from forked_python import python as forked_python  # noqa: E402

INTERRUPTS = int(os.environ.get("STOKER_INTERRUPTS", "300"))
SEED = int(os.environ.get("STOKER_SEED", "20240611"))

# A loop that is interrupted after a few microseconds to milliseconds, again and again.  Batches are told apart
# by identity, so that one which was bound and not yet noted when the signal came is counted once.
LOOP = ALARM + """
    import json, random, signal, sys
    import stoker

    def run(loader, ledger, seed, wanted):
        global armed
        draws, got, hits = random.Random(seed), [], 0
        loader.ledger(ledger)
        signal.signal(signal.SIGALRM, handler)
        it = batch = None
        while hits < wanted:
            try:
                try:
                    armed = True
                    signal.setitimer(signal.ITIMER_REAL, draws.choice((5e-5, 2e-4, 1e-3, 3e-3)) * draws.random() + 1e-6)
                    if it is None:
                        it = iter(loader)
                    for batch in it:
                        got.append(batch)
                    it = None
                finally:
                    armed = False               # a round has one alarm, so nothing comes after it
            except Alarm:
                hits += 1
            if batch is not None and (not got or got[-1] is not batch):
                got.append(batch)               # it was bound; the signal came before it was noted
            check(loader, got)
        return [batch.sample_ids.tolist() for batch in got]

    def check(loader, got):
        state = loader.state_dict()
        where = state["epoch"] * STEPS + -(-state["position"] // GLOBAL)
        assert where == len(got), (where, len(got), state["epoch"], state["position"])
"""


def interrupted(tmp_path, make, base="Exception", wrap="", torch_too=False):
    """Runs LOOP over `make`, in a process of its own; what it got, and what the ledger has, in order."""
    script = LOOP.replace("{base}", base) + f"""
    loader = {make}
    STEPS, GLOBAL = len(loader), 8
    {wrap}
    got = run(loader, sys.argv[1], {SEED}, {INTERRUPTS})
    print(json.dumps(got))
    """
    if torch_too:
        done = forked_python(*TORCH).run(["-c", textwrap.dedent(script), tmp_path / "ledger"], timeout=300 + INTERRUPTS / 20)
    else:
        done = run_python(script, tmp_path / "ledger", timeout=300 + INTERRUPTS / 20)
    assert done.returncode == 0, f"seed {SEED}: {done.stderr[-2000:]}"
    return json.loads(done.stdout), ledger_steps(tmp_path / "ledger")


def ledger_steps(folder):
    """Rows of every record of the one file, as docs/ledger.md says they lie."""
    [path] = folder.glob("*.stkl")
    raw, at, steps = path.read_bytes(), 144, []
    while at < len(raw):
        rows = int.from_bytes(raw[at:at + 4], "little")
        ids = np.frombuffer(raw, "<u4", rows, at + 40)
        steps.append(ids.tolist())
        at += 40 + (rows * 4 + (rows + 7) // 8 + 7) // 8 * 8
    return steps


CASES = {
    "plain": 'stoker.Loader(URLS, {"label": "from(cls) | int"}, batch_size=8, shuffle=True)',
    "pictures": 'stoker.Loader(URLS, {"image": "from(jpg) | image | resize(32) | center_crop(32)"}, batch_size=8)',
    "own thread": 'stoker.Loader(URLS, {"label": "from(cls) | int"}, batch_size=8, num_workers=0)',
    "skip": 'stoker.Loader(URLS, {"label": "from(cls) | int"}, batch_size=8, skip=3, limit=90, on_error="skip")',
    "text": 'stoker.Loader(URLS, {"t": "from(txt) | text", "j": "from(json) | json"}, batch_size=8, shuffle=True)',
    "mix": 'stoker.Loader(stoker.mix({"a": (URLS, 0.7), "b": (URLS, 0.3)}), {"label": "from(cls) | int"}, '
           'batch_size=8, shuffle=True, epoch_size=160)',
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("base", ["Exception", "BaseException"])
def test_nothing_is_lost(tmp_path, urls, case, base):
    got, ledger = interrupted(tmp_path, CASES[case].replace("URLS", repr(urls)), base)
    assert len(got) > 20, "the loop hardly went on"
    assert got == ledger, f"seed {SEED}"


def test_to_device_gives_each_batch_once(tmp_path, urls):
    pytest.importorskip("torch")
    make = CASES["plain"].replace("URLS", repr(urls))
    got, ledger = interrupted(tmp_path, make, "Exception", 'loader = stoker.to_device(loader, "cpu", depth=3)',
                              torch_too=True)
    assert len(got) > 20 and got == ledger[:len(got)], f"seed {SEED}"    # the ledger has what was pulled


def test_what_is_peeked_at_is_not_in_the_state(urls):
    loader = stoker.Loader(urls, {"label": "from(cls) | int"}, batch_size=8, shuffle=True)
    it = iter(loader)
    next(it)
    before = loader.state_dict()
    (_, ids, _), token, _ = loader._core.peek(0)
    assert loader.state_dict() == before and token == (0, 1)
    assert loader._core.peek(0)[0][1] == ids
    other = stoker.Loader(urls, {"label": "from(cls) | int"}, batch_size=8, shuffle=True)
    other.load_state_dict(before)
    assert next(iter(other)).sample_ids.numpy().tobytes() == ids == next(it).sample_ids.numpy().tobytes()
    assert loader._core.give(*token) is False           # another call took it
    loader._core.peek(0)
    loader.load_state_dict(before)                      # what was peeked at is of another place now
    assert next(iter(loader)).sample_ids.numpy().tobytes() == ids


def test_an_interrupted_start_begins_no_other_epoch(urls, monkeypatch):
    loader = stoker.Loader(urls, {"label": "from(cls) | int"}, batch_size=8)
    for _ in loader:
        break                                           # the next loop is epoch 1
    resume = loader._core.resume

    class Cut:
        def __getattr__(self, name):
            return getattr(core, name)

        def resume(self, *place):
            resume(*place)
            raise KeyboardInterrupt

    core, loader._core = loader._core, Cut()
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            iter(loader)
    loader._core = core
    iter(loader)
    assert loader.epoch == 1


def test_torch_is_there_before_the_first_batch(urls):
    pytest.importorskip("torch")
    done = run_python(f"""
        import sys
        import stoker
        assert "torch" not in sys.modules
        loader = stoker.Loader({urls!r}, {{"label": "from(cls) | int"}})
        assert "torch" in sys.modules
    """, torch_too=True)
    assert done.returncode == 0, done.stderr


def test_an_interrupt_does_not_cut_the_import_of_torch(urls):
    pytest.importorskip("torch")
    done = run_python(f"""
        import random, signal, sys
        import stoker

        def handler(number, frame):
            raise KeyboardInterrupt

        draws = random.Random({SEED})
        signal.signal(signal.SIGALRM, handler)
        for after in (draws.uniform(0.005, 0.15) for _ in range(20)):   # many while one import goes on
            signal.setitimer(signal.ITIMER_REAL, after)
            try:
                loader = stoker.Loader({urls!r}, {{"label": "from(cls) | int"}}, batch_size=8)
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        loader = stoker.Loader({urls!r}, {{"label": "from(cls) | int"}}, batch_size=8)
        print(sum(len(b.sample_ids) for b in loader), type(next(iter(loader))["label"]))
    """, torch_too=True)
    assert done.returncode == 0 and done.stdout.split()[0] == "100" and "Tensor" in done.stdout, done.stderr
