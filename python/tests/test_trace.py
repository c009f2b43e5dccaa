# SPDX-License-Identifier: Apache-2.0
"""loader.trace(): what every thread did, for Perfetto; and ranges of torch.profiler."""

import json
import threading
from collections import Counter

import pytest
import stoker
from conftest import write_tar

FIELDS = {"x": "from(txt) | text"}


@pytest.fixture
def tar(tmp_path):
    return str(write_tar(tmp_path / "t.tar", [(f"{i:03d}.txt", b"%d" % i) for i in range(200)]))


def spans(path):
    events = json.loads(path.read_text())["traceEvents"]
    assert all(e["ph"] in "MX" and e["dur" if e["ph"] == "X" else "args"] is not None for e in events)
    return [e for e in events if e["ph"] == "X"], {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}


@pytest.mark.asan
def test_a_trace_has_every_thread(tar, tmp_path):
    with stoker.Loader(tar, FIELDS, batch_size=4, num_workers=2, collate="list") as loader:
        with loader.trace(tmp_path / "t.json"):
            n = sum(1 for _ in loader)
        stats = loader.stats()
        found, names = spans(tmp_path / "t.json")
        assert names[0] == "loop" and {"worker 0", "worker 1"} & set(names.values())     # one may do it all
        took = Counter()
        for e in found:
            took[e["name"]] += e["dur"] * 1e-6
        steps = {e["args"]["step"] for e in found if e["name"] == "next"}
        assert steps == set(range(n))
        for stage in ("fetch", "value", "batch"):
            assert 0 < took[stage] <= 1.05 * stats["stages"][stage] + 1e-4     # workers went on meanwhile
        for tid in names:                           # one thing at a time
            mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in found if e["tid"] == tid)
            assert all(a[1] <= b[0] + 0.01 for a, b in zip(mine, mine[1:]))
        before = (tmp_path / "t.json").read_text()
        for _ in loader:
            pass
    assert (tmp_path / "t.json").read_text() == before      # it has ended


@pytest.mark.asan
def test_it_is_bounded_and_written_at_close(tar, tmp_path):
    loader = stoker.Loader(tar, FIELDS, batch_size=1, num_workers=1, collate="list")
    loader.trace(tmp_path / "t.json", spans=64)
    for _ in range(3):
        for _ in loader:
            pass
    assert not (tmp_path / "t.json").exists()
    loader.close()
    found, names = spans(tmp_path / "t.json")
    assert 32 < len(found) <= 64 * len(names)
    assert max(e["args"].get("step", 0) for e in found) == 199      # the last ones are kept


@pytest.mark.asan
def test_two_traces_and_none(tar, tmp_path):
    with stoker.Loader(tar, FIELDS, batch_size=50, num_workers=0, collate="list") as loader:
        with loader.trace(tmp_path / "none.json"):
            pass
        assert spans(tmp_path / "none.json") == ([], {0: "loop"})
        with loader.trace(tmp_path / "a.json"):
            for _ in loader:
                pass
        with loader.trace(tmp_path / "b.json") as second:
            next(iter(loader))
            second.save()
        found, _ = spans(tmp_path / "b.json")
        begin = max(e["ts"] + e["dur"] for e in spans(tmp_path / "a.json")[0])
        assert found and min(e["ts"] for e in found) >= begin - 1   # of the first nothing is left
        second.close()


@pytest.mark.asan
def test_any_thread_may_save_meanwhile(tar, tmp_path):
    with stoker.Loader(tar, FIELDS, batch_size=2, num_workers=2, collate="list") as loader:
        trace, done = loader.trace(tmp_path / "t.json", spans=32), threading.Event()

        def look():
            while not done.is_set():
                trace.save()
                spans(tmp_path / "t.json")

        other = threading.Thread(target=look)
        other.start()
        for _ in range(5):
            for _ in loader:
                pass
        done.set()
        other.join()


def test_what_cannot_be_written(tar, tmp_path):
    with stoker.Loader(tar, FIELDS, batch_size=50, collate="list") as loader:
        with pytest.raises(stoker.StokerError, match="there is no folder"):
            loader.trace(tmp_path / "no" / "t.json")
        with pytest.raises(stoker.StokerError, match="/dev/full: the trace could not be written: No space left"):
            loader.trace("/dev/full").close()
        with pytest.raises(stoker.StokerError, match="spans"):
            loader.trace(tmp_path / "t.json", spans=0)
        loader.trace("/dev/full")
        with pytest.raises(stoker.StokerError, match="No space left"):
            loader.close()
    with pytest.raises(stoker.StokerError, match="closed"):
        loader.trace(tmp_path / "t.json")


def test_profilers_see_next(tar):
    torch = pytest.importorskip("torch")
    with stoker.Loader(tar, FIELDS, batch_size=50, collate="list") as loader:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
            for _ in loader:
                pass
        mine = [e for e in prof.events() if e.name == "stoker.next"]
        assert len(mine) == 5                       # four batches and the end
        for _ in loader:                            # and without one nothing happens
            pass
