# SPDX-License-Identifier: Apache-2.0
"""Epochs: order, determinism, break, state, threads, memory."""

import copy
import threading
import time

import numpy as np
import pytest
from conftest import FIELDS, LABEL, SAMPLES, as_numpy, epoch_of, ids_of

import stoker
from stoker import _renamed

pytestmark = pytest.mark.asan


def test_every_epoch_is_another_permutation(urls):
    with stoker.Loader(urls, LABEL, batch_size=16, shuffle=True) as loader:
        epochs = [ids_of(loader) for _ in range(4)]
    for ids in epochs:
        assert sorted(ids) == list(range(SAMPLES))
    assert len({tuple(ids) for ids in epochs}) == 4


def test_sequential_order_labels_and_keys(urls):
    with stoker.Loader(urls, LABEL, batch_size=7) as loader:
        assert len(loader) == 15
        batches = list(loader)
    assert [len(b["label"]) for b in batches] == [7] * 14 + [2]
    assert [k for b in batches for k in b.sample_keys] == [f"{i:06d}" for i in range(SAMPLES)]
    assert [int(v) for b in batches for v in b["label"]] == [i % 10 for i in range(SAMPLES)]
    assert all(bool(b.valid.all()) for b in batches)


def test_drop_last(urls):
    with stoker.Loader(urls, LABEL, batch_size=7, drop_last=True) as loader:
        assert len(loader) == 14
        assert {len(b["label"]) for b in loader} == {7}


def test_seed_chooses_the_order(urls):
    orders = []
    for seed in (0, 1, 0, 2**64 - 1):
        with stoker.Loader(urls, LABEL, batch_size=10, shuffle="exact", seed=seed) as loader:
            orders.append(ids_of(loader))
    assert orders[0] == orders[2]
    assert orders[0] != orders[1] and orders[0] != orders[3]


@pytest.fixture(scope="module")
def reference(urls):
    with stoker.Loader(urls, FIELDS, batch_size=16, shuffle=True, seed=5, num_workers=0) as loader:
        return [epoch_of(loader) for _ in range(2)]


def check_same(urls, reference, workers, prefetch):
    with stoker.Loader(urls, FIELDS, batch_size=16, shuffle=True, seed=5, num_workers=workers,
                       prefetch=prefetch) as loader:
        for epoch in reference:
            found = epoch_of(loader)
            assert len(found) == len(epoch)
            for (ids, values), (want_ids, want) in zip(found, epoch, strict=True):
                assert (ids == want_ids).all()
                for name in want:
                    assert values[name].dtype == want[name].dtype
                    assert (values[name] == want[name]).all(), name


@pytest.mark.parametrize("prefetch", [1, 4])
@pytest.mark.parametrize("workers", [0, 1, 2, 8])
def test_bits_do_not_depend_on_threads(urls, reference, workers, prefetch):
    check_same(urls, reference, workers, prefetch)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bits_do_not_depend_on_when_threads_run(urls, reference, seed, monkeypatch):
    """Workers, readers and the consumer are held up at random places (src/base/stall.h)."""
    monkeypatch.setenv("STK_STALL", str(seed))
    check_same(urls, reference, 1 + seed, 1 + seed % 3)


def test_a_stall_seed_that_is_none(urls, monkeypatch):
    monkeypatch.setenv("STK_STALL", "often")
    with pytest.raises(stoker.StokerError, match="STK_STALL=often is not a seed"):
        stoker.Loader(urls, LABEL)


def test_augmentation_differs_between_epochs(reference):
    by_id = [{int(i): row for ids, v in epoch for i, row in zip(ids, v["image"], strict=True)}
             for epoch in reference]
    same = sum((by_id[0][i] == by_id[1][i]).all() for i in range(SAMPLES))
    assert same < SAMPLES // 10


def test_break_begins_the_next_epoch(urls, reference):
    with stoker.Loader(urls, FIELDS, batch_size=16, shuffle=True, seed=5) as loader:
        for batch in loader:
            first = batch
            break
        assert loader.epoch == 0
        assert (as_numpy(first.sample_ids) == reference[0][0][0]).all()
        second = epoch_of(loader)
        assert loader.epoch == 2
    for (ids, values), (want_ids, want) in zip(second, reference[1], strict=True):
        assert (ids == want_ids).all()
        assert (values["image"] == want["image"]).all()


def test_an_older_iterator_is_refused(urls):
    with stoker.Loader(urls, LABEL, batch_size=16, shuffle=True) as loader:
        old = iter(loader)
        next(old)
        new = iter(loader)
        with pytest.raises(stoker.StokerError, match="another epoch"):
            next(old)
        assert loader.epoch == 1
        assert sum(len(b["label"]) for b in new) == SAMPLES
        with pytest.raises(StopIteration):
            next(new)
        with pytest.raises(StopIteration):
            next(new)


def test_an_iterator_that_gave_nothing_leaves_the_epoch_where_it_was(urls):
    """Frameworks call iter() more than once before they begin."""
    with stoker.Loader(urls, LABEL, batch_size=8, shuffle=True, num_workers=0) as loader:
        first = ids_of(loader)
        loader.set_epoch(0)
        iter(loader)
        assert ids_of(iter(loader)) == first and loader.epoch == 1
        state = loader.state_dict()
        iter(loader)
        assert loader.state_dict() == state


def test_set_epoch_keeps_the_place_that_a_state_gave(urls):
    with stoker.Loader(urls, LABEL, batch_size=8, shuffle=True, num_workers=0) as loader:
        epochs = [ids_of(loader) for _ in range(3)]
        loader.set_epoch(1)
        running = iter(loader)
        for _ in range(5):
            next(running)
        state = loader.state_dict()
        loader.load_state_dict(state)
        loader.set_epoch(1)                             # as scripts do before every loop
        assert ids_of(loader) == epochs[1][40:]
        loader.set_epoch(2)
        assert ids_of(loader) == epochs[2]
        loader.load_state_dict(state)
        loader.set_epoch(2)                             # another epoch: from its beginning
        assert ids_of(loader) == epochs[2]
        loader.set_epoch(1)                             # no state is waiting any more
        assert ids_of(loader) == epochs[1]


def test_set_epoch(urls):
    with stoker.Loader(urls, LABEL, batch_size=16, shuffle=True) as loader:
        epochs = [ids_of(loader) for _ in range(3)]
        loader.set_epoch(1)
        assert loader.epoch == 1
        assert ids_of(loader) == epochs[1]
        assert ids_of(loader) == epochs[2]
        for epoch in (0, 1, 2):
            loader.set_epoch(epoch)
            assert ids_of(loader) == epochs[epoch]
        with pytest.raises(stoker.StokerError):
            loader.set_epoch(-1)


@pytest.mark.parametrize("taken", [0, 1, 4, 7])
@pytest.mark.parametrize("workers", [0, 2])
def test_state_goes_on_behind_the_last_batch(urls, taken, workers):
    options = {"batch_size": 16, "shuffle": True, "seed": 3}
    with stoker.Loader(urls, FIELDS, **options) as loader:
        ids_of(loader)
        whole = epoch_of(loader)
        after = ids_of(loader)
    with stoker.Loader(urls, FIELDS, **options) as loader:
        ids_of(loader)
        running = iter(loader)
        for _ in range(taken):
            next(running)
        state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (1, min(16 * taken, SAMPLES))
    with stoker.Loader(urls, FIELDS, num_workers=workers, **options) as loader:
        loader.load_state_dict(state)
        assert loader.state_dict() == state
        rest = epoch_of(loader)
        assert [i.tolist() for i, _ in rest] == [i.tolist() for i, _ in whole[taken:]]
        for (_, values), (_, want) in zip(rest, whole[taken:], strict=True):
            assert (values["image"] == want["image"]).all()
        assert ids_of(loader) == after


def test_state_between_epochs_and_of_another_loader(urls):
    with stoker.Loader(urls, LABEL, batch_size=16, seed=1) as loader:
        ids_of(loader)
        state = loader.state_dict()
        assert (state["epoch"], state["position"]) == (1, 0)
    with stoker.Loader(urls, LABEL, batch_size=8, seed=2) as loader:
        with pytest.raises(stoker.StokerError, match="seed: 1 then, 2 now"):
            loader.load_state_dict(state)
        loader.load_state_dict(state, strict=False)
        assert loader.state_dict()["epoch"] == 1
        with pytest.raises(stoker.StokerError, match="not a state"):
            loader.load_state_dict({"epoch": 1})
        with pytest.raises(stoker.StokerError, match="not whole: it has no order"):
            loader.load_state_dict({k: v for k, v in state.items() if k != "order"})
        with pytest.raises(stoker.StokerError, match="newer Stoker"):
            loader.load_state_dict({**state, "version": 99})
        with pytest.raises(stoker.StokerError, match="position 1000"):
            loader.load_state_dict({**loader.state_dict(), "position": 1000})


def test_two_loaders_at_once(urls):
    with stoker.Loader(urls, LABEL, batch_size=10, shuffle=True, seed=1) as a, \
            stoker.Loader(urls, LABEL, batch_size=10, shuffle=True, seed=2, num_workers=1) as b:
        alone = ids_of(a), ids_of(b)
        a.set_epoch(0)
        b.set_epoch(0)
        pairs = list(zip(a, b, strict=True))
    assert [int(i) for x, _ in pairs for i in x.sample_ids] == alone[0]
    assert [int(i) for _, y in pairs for i in y.sample_ids] == alone[1]


def test_several_data_sets_in_one_loader(data):
    parts = [stoker.open(data / "train-000.tar"), stoker.open([data / "train-001.tar",
                                                               data / "train-002.tar"])]
    with stoker.Loader(parts, LABEL, batch_size=16) as loader:
        assert [k for b in loader for k in b.sample_keys] == [f"{i:06d}" for i in range(SAMPLES)]
    with stoker.Loader(parts[0], LABEL, batch_size=16) as loader:
        assert ids_of(loader) == list(range(len(parts[0])))


@pytest.mark.parametrize("how", ["glob", "list", "path"])
def test_ways_to_name_shards(data, how):
    named = {"glob": str(data / "train-*.tar"),
             "list": [str(p) for p in sorted(data.glob("*.tar"))],
             "path": data / "train-001.tar"}[how]
    with stoker.Loader(named, LABEL, batch_size=50) as loader:
        assert len(ids_of(loader)) == (33 if how == "path" else SAMPLES)


def test_other_outputs(urls):
    fields = {"txt": "text", "meta": "from(json) | json", "n": "from(json) | json(n) | int",
              "raw": "from(cls) | bytes", "x": "from(cls) | float"}
    with stoker.Loader(urls, fields, batch_size=10) as loader:
        batch = next(iter(loader))
    assert batch["txt"] == [f"número {i}" for i in range(10)]
    assert batch["meta"] == [{"n": i, "tags": ["a", "b"]} for i in range(10)]
    assert batch["raw"] == [str(i).encode() for i in range(10)]
    assert as_numpy(batch["n"]).tolist() == list(range(10))
    assert as_numpy(batch["n"]).dtype == np.int64
    assert as_numpy(batch["x"]).dtype == np.float32


def test_collate_list(urls):
    with stoker.Loader(urls, {"image": "from(jpg) | image"}, batch_size=5, collate="list") as loader:
        batch = next(iter(loader))
    assert isinstance(batch["image"], list)
    assert [tuple(i.shape) for i in batch["image"]] == [(3, 50 + i, 60 + i) for i in range(5)]


def test_stats(urls):
    with stoker.Loader(urls, FIELDS, batch_size=16, num_workers=2) as loader:
        ids_of(loader)
        stats = loader.stats()
    assert stats["batches"] == 7 and stats["samples"] >= SAMPLES and stats["bytes"] > 10_000
    assert stats["workers"] == 2 and stats["skipped"] == 0 and stats["bad_samples"] == []
    assert {"fetch", "decode", "resample"} <= set(stats["stages"])
    assert stats["stages"]["decode"] > 0 and stats["first_batch_s"] > 0 and stats["wait_s"] >= 0
    assert 0 < stats["memory"] <= stats["memory_peak"] <= stats["memory_limit"]
    assert set(stats["memory_of"]) == {"batches", "reads", "blocks", "scratch"}
    assert stats["memory_of"]["scratch"] > 0 and stats["memory_of"]["batches"] > 0
    assert stats["wait"]["data_s"] == stats["wait_s"] and stats["wait"]["rest_s"] > 0
    assert stats["wait"]["repair_s"] == stats["wait"]["ledger_s"] == stats["wait"]["now_s"] == 0
    assert set(stats["histograms"]) == set(stats["stages"])
    for stage in ("decode", "resample", "batch"):        # a worker counts when it is through, after the consumer
        edges, counts = zip(*stats["histograms"][stage])
        assert all(b == pytest.approx(2 * a) for a, b in zip(edges, edges[1:]))
        assert sum(counts) >= (5 if stage == "batch" else SAMPLES - 2) and edges[-1] < 10
        assert counts[0] and counts[-1]
    assert len(stats["doing"]) == 2 and all(d["stage"] in stats["stages"] for d in stats["doing"])
    assert all(d["ticket"] >= 0 and 0 <= d["seconds"] < 60 for d in stats["doing"])
    ring = stats["ring"]
    assert ring["slots"] == ring["ahead"] == stats["slots"] and 0 <= ring["ready"] <= ring["open"] <= ring["slots"]


@pytest.mark.parametrize("side, slots", [(32, 32), (512, 8), (1024, 4)])
def test_batches_of_one_thread_fit_into_its_cache(urls, side, slots):
    """Without workers no one waits for more batches; memory that a processor caches is written in less time."""
    with stoker.Loader(urls, {"image": f"from(jpg) | image | resize(({side}, {side})) | to(u8)"}, batch_size=1, num_workers=0) as loader:
        next(iter(loader))
        assert loader.stats()["slots"] == slots
    with stoker.Loader(urls, {"image": f"from(jpg) | image | resize(({side}, {side})) | to(u8)"}, batch_size=1, num_workers=1) as loader:
        assert loader.stats()["slots"] == 32


def test_old_names_in_stats(urls):
    """They work for one version and warn; what goes through all keys sees the new ones alone."""
    with stoker.Loader(urls, FIELDS, batch_size=16) as loader:
        ids_of(loader)
        stats = loader.stats()
    for part in (stats["stages"], stats["histograms"]):
        with pytest.warns(DeprecationWarning, match='"sample" of stats.. is now called "resample"') as seen:
            assert part["sample"] == part["resample"] == part.get("sample")
        assert len(seen) == 2 and all(w.filename == __file__ for w in seen)
        assert "sample" in part and "sample" not in list(part) and type(copy.copy(part)) is dict
        with pytest.raises(KeyError):
            part["mended"]
    assert _renamed.Renamed({"redecoded": 3}, _renamed.KEYS["gpu"]).get("redecoded") == 3
    with pytest.warns(DeprecationWarning, match="redecoded"):
        assert _renamed.with_old_keys({"gpu": {"redecoded": 3}})["gpu"]["mended"] == 3


def test_the_ledger_is_not_waiting(urls, tmp_path):
    with stoker.Loader(urls, LABEL, batch_size=4, num_workers=2) as loader:
        loader.ledger(tmp_path)
        ids_of(loader)
        wait = loader.stats()["wait"]
    assert wait["ledger_s"] > 0 and wait["data_s"] >= 0


def test_stats_never_waits_for_next(urls):
    """1,000 calls while the main thread is in next(), which ends only after them: none waits for it."""
    enough, waits, late = threading.Event(), [], []

    def held(text):
        late.append(not enough.wait(120))
        return text

    def look():
        end = time.monotonic() + 60
        while len(waits) < 1000 or (max(waits) <= 0.01 and time.monotonic() < end):
            waits.append(loader.stats()["wait"]["now_s"])
        enough.set()

    with stoker.Loader(urls, {"text": stoker.from_("txt").text().call(held)}, batch_size=25, num_workers=1, prefetch=1,
                       worker_type="thread") as loader:
        thread = threading.Thread(target=look)
        thread.start()
        next(iter(loader))
        thread.join()
    assert not any(late), "stats() waited until next() was over"
    assert max(waits) > 0.01


def test_set_workers_while_running(urls, reference):
    with stoker.Loader(urls, FIELDS, batch_size=16, shuffle=True, seed=5, num_workers=1) as loader:
        for step, batch in enumerate(loader):
            loader.set_workers(1 + step % 4)
            assert (as_numpy(batch["image"]) == reference[0][step][1]["image"]).all()
        with pytest.raises(stoker.StokerError):
            loader.set_workers(0)


def test_close_and_with(urls):
    with stoker.Loader(urls, LABEL, batch_size=16) as loader:
        running = iter(loader)
        next(running)
    loader.close()
    for use in (lambda: next(iter(loader)), loader.stats, loader.state_dict,
                lambda: loader.set_workers(2)):
        with pytest.raises(stoker.StokerError, match="closed"):
            use()
    with pytest.raises(stoker.StokerError):
        next(running)


def test_the_gil_is_free_while_waiting(urls):
    """A thread of Python counts on while the main thread decodes or waits."""
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=count)
    thread.start()
    steps, end = 0, time.monotonic() + 60
    try:
        fields = {"image": "from(jpg) | image | resize((1024, 1024)) | to(f32)"}
        with stoker.Loader(urls, fields, batch_size=50, num_workers=0) as loader:
            while steps < 5 and time.monotonic() < end:         # a busy machine gives the thread less than its turn
                running, before = iter(loader), counted[0]
                next(running)
                steps = counted[0] - before
    finally:
        stop.set()
        thread.join()
    assert steps >= 5


def test_threads_take_turns(urls):
    """Several Python threads on one iterator: every sample once, and stats() meanwhile."""
    with stoker.Loader(urls, LABEL, batch_size=4, shuffle=True) as loader:
        running, got, lock = iter(loader), [], threading.Lock()

        def take():
            for batch in running:
                with lock:
                    got.extend(batch.sample_ids.tolist())

        threads = [threading.Thread(target=take) for _ in range(4)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            loader.stats()
        for t in threads:
            t.join()
    assert sorted(got) == list(range(SAMPLES))


@pytest.mark.parametrize("workers", [0, 3])
def test_many_outputs(urls, workers):
    fields = {f"n{i}": "from(cls) | int" if i % 2 else "from(txt) | bytes" for i in range(300)}
    with stoker.Loader(urls, fields, batch_size=16, num_workers=workers, limit=40) as loader:
        for batch in loader:
            for i, name in enumerate(fields):
                assert [bytes(v) for v in batch[name]] == [bytes(v) for v in batch[f"n{i % 2}"]]


def test_the_data_says_which_loader_it_is(urls):
    """All are stoker.Loader to isinstance(); none but the stream's derives from that of files."""
    from stoker import _loader_base, _stream, sets

    class Mine(stoker.Loader):
        pass

    made = {stoker.Loader: stoker.Loader(urls, LABEL), sets.SetLoader: stoker.Loader(list(range(6)), num_workers=0),
            _stream.StreamLoader: stoker.Loader(data=stoker.stream(urls), fields=LABEL, epoch_size=8), Mine: Mine(urls, LABEL)}
    for kind, loader in made.items():
        with loader:
            assert type(loader) is kind and isinstance(loader, stoker.Loader) and isinstance(loader, _loader_base.LoaderBase)
            assert next(iter(loader)) is not None
    assert stoker.Loader not in sets.SetLoader.__mro__ and issubclass(sets.SetLoader, stoker.Loader)
    assert not isinstance(urls, stoker.Loader)
    with pytest.raises(TypeError, match="data"):
        stoker.Loader()
