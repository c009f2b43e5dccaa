# SPDX-License-Identifier: Apache-2.0
"""Objects whose constructor failed, at any of its lines: they are seen by debuggers and loggers, and by what closes them."""

import copy
import gc
import sys
import warnings

import numpy as np
import pytest
from conftest import write_tar

import stoker
from stoker import loader as loader_module
from stoker import _stream, _watch, sets
from stoker._to_device import ToDevice

DATA = {"x": np.arange(12, dtype="float32")}


class Stop(Exception):
    pass


def stopped(make, kind, line):
    """The object of this class, whose constructor was left at its line number `line` (0: the first); None: it has fewer.
    Lines of the steps that it calls count too."""
    code, found, seen = kind.__init__.__code__, [], 0

    def trace(frame, event, arg):
        nonlocal seen
        step = found and frame.f_back.f_code is code and frame.f_locals.get("self") is found[0]
        if frame.f_code is not code and not step:
            return None if event == "call" else trace
        if event == "line":
            if not found:
                found.append(frame.f_locals[code.co_varnames[0]])
            seen += 1
            if seen > line:
                sys.settrace(None)
                raise Stop
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make()
    except Stop:
        return found[0]
    finally:
        sys.settrace(before)
    return None


def use(half):
    """All that may be done with it raises nothing, or says what is wrong with it."""
    assert isinstance(repr(half), str) and isinstance(str(half), str)
    lengths = [len] if hasattr(half, "__len__") else []
    for ask in (*lengths, iter, lambda h: h.state_dict(), lambda h: h.batch_size, lambda h: h.epoch, lambda h: h.stats(),
                lambda h: h.fields, lambda h: h.nbytes, lambda h: h.samples, lambda h: h[0], lambda h: h.nothing):
        try:
            ask(half)
        except (TypeError, AttributeError, stoker.StokerError) as e:
            assert "NoneType" not in str(e), e
            if isinstance(e, AttributeError) and not isinstance(e, stoker.StokerError):
                assert "has no attribute" in str(e) and not str(e).split("'")[-2].startswith("_"), e
    for _ in range(2):
        if hasattr(type(half), "close"):
            half.close()
            if hasattr(type(half), "__exit__"):
                with half:
                    pass
    assert isinstance(repr(half), str)


@pytest.fixture
def shard(tmp_path):
    return str(write_tar(tmp_path / "a.tar", [("a.txt", b"1"), ("b.txt", b"2"), ("c.txt", b"3")]))


def kinds(shard, tmp_path):
    samples = [{"i": i} for i in range(6)]
    loader = stoker.Loader(DATA, batch_size=2, num_workers=0)
    return {
        loader_module.Loader: lambda: stoker.Loader(DATA, batch_size=2, num_workers=0),
        sets.SetLoader: lambda: stoker.Loader(samples, batch_size=2, num_workers=0),
        _stream.StreamLoader: lambda: stoker.Loader(stoker.stream(shard), {"t": "from(txt) | text"}, epoch_size=3),
        loader_module.Tuples: lambda: loader.as_tuples("x"),
        ToDevice: lambda: stoker.to_device(loader, "cpu"),
        _watch.Watched: lambda: stoker.watch(samples),
        stoker.Dataset: lambda: stoker.open(shard),
        stoker.Mix: lambda: stoker.mix({"a": (samples, 1)}),
        stoker.SharedList: lambda: stoker.SharedList(samples),
        stoker.Store: lambda: stoker.Store(anonymous=True),
        stoker.Stream: lambda: stoker.stream(shard),
        stoker.Transform: lambda: stoker.Transform("hflip | to(f32)"),
        stoker.Writer: lambda: stoker.Writer(str(tmp_path / "w-%d.tar")),
    }


def test_a_constructor_that_stops_at_any_line(shard, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: raised.append((what.object, what.exc_value)))
    for kind, make in kinds(shard, tmp_path).items():
        line = 0
        while (half := stopped(make, kind, line)) is not None:
            use(half)
            del half
            line += 1
        assert line > 0, kind
        gc.collect()
        assert not raised, (kind, raised)


def test_objects_without_a_constructor(shard, tmp_path):
    """As copy and pickle make them."""
    for kind in kinds(shard, tmp_path):
        use(kind.__new__(kind))


def test_what_is_said(shard):
    with pytest.raises(ValueError) as e:
        stoker.Loader(shard, {"t": "from(txt) | nonsense"})
    half = next(at.tb_frame.f_locals["self"] for at in traces(e.value.__traceback__)
                if isinstance(at.tb_frame.f_locals.get("self"), loader_module.Loader))
    assert repr(half) == "<Loader that was not made: its constructor failed>"
    for use_it in (len, iter, lambda h: h.epoch, lambda h: h.state_dict()):
        with pytest.raises(RuntimeError, match="this Loader was not made: its constructor failed"):
            use_it(half)
    half.close()
    assert not hasattr(half, "_no_such") and not hasattr(half, "nothing")


def traces(at):
    while at is not None:
        yield at
        at = at.tb_next


def test_whole_objects_name_what_they_lack(shard):
    """The usual error, so that hasattr() and copies work."""
    with stoker.Loader(DATA, batch_size=2, num_workers=0) as loader:
        for thing in (loader, loader.as_tuples("x"), stoker.to_device(loader, "cpu"), stoker.open(shard), stoker.SharedList([1])):
            with pytest.raises(AttributeError, match="object has no attribute 'nothing'"):
                thing.nothing
            assert getattr(thing, "__torch_function__", None) is None
    assert copy.copy(stoker.SharedList([1, 2])) == [1, 2]
