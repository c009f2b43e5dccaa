# SPDX-License-Identifier: Apache-2.0
"""Shards that are read as streams, before there is an index."""

import json
import random

import numpy as np
import pytest
import stoker
from conftest import jpeg, picture, write_tar

SHARDS, EACH = 6, 40
NUMBER = {"n": "from(cls) | int"}


def members(first, n, rng):
    for i in range(first, first + n):
        yield f"{i:06d}.cls", str(i).encode()
        yield f"{i:06d}.bin", rng.randbytes(rng.randrange(3000))


def make(folder, sizes):
    rng, first = random.Random(1), 0
    for s, n in enumerate(sizes):
        write_tar(folder / f"s-{s:03}.tar", members(first, n, rng))
        first += n
    return f"{folder}/s-*.tar"


@pytest.fixture
def shards(tmp_path):
    return make(tmp_path, [EACH] * SHARDS)


def loader(url, size=SHARDS * EACH, fields=NUMBER, **more):
    return stoker.Loader(stoker.stream(url), fields, **{"batch_size": 8, "epoch_size": size, **more})


def numbers(batches):
    return [int(n) for batch in batches for n in batch["n"]]


def test_in_the_order_of_shards(shards, tmp_path):
    data = loader(shards)
    assert len(data) == SHARDS * EACH // 8
    assert numbers(data) == numbers(data) == list(range(SHARDS * EACH))     # goes on with the first shard
    assert not list(tmp_path.rglob("*.idx"))


@pytest.mark.asan
def test_an_epoch_is_whole_batches_and_goes_on(shards):
    data = loader(shards, size=100)
    assert len(data) == 13
    assert numbers(data) + numbers(data) == list(range(208))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_shuffled_in_windows(shards, workers):
    data = loader(shards, shuffle=True, window=24, num_workers=workers, seed=5)
    first, second = numbers(data), numbers(data)
    assert sorted(first) == sorted(second) == list(range(SHARDS * EACH))    # as many streams as shards, all alike
    assert first != second and first != sorted(first)
    for w in range(0, SHARDS * EACH, 24):              # a window has the streams' next samples, no others
        assert sorted(n % EACH for n in first[w:w + 24]) == sorted(i // SHARDS for i in range(w, w + 24))
    assert first == numbers(loader(shards, shuffle=True, window=24, num_workers=2, seed=5))
    assert first != numbers(loader(shards, shuffle=True, window=24, num_workers=2, seed=6))


def test_few_streams_take_shards_in_a_new_order_each_time(shards):
    data = loader(shards, shuffle="block", streams=2, window=1)
    epochs = [numbers(data) for _ in range(4)]
    assert all(sorted(e) == list(range(SHARDS * EACH)) for e in epochs)
    assert len({tuple(e) for e in epochs}) > 1


@pytest.mark.parametrize("shuffle", [False, True])
def test_ranks_have_shards_of_their_own(shards, shuffle):
    ranks = [loader(shards, shuffle=shuffle, rank=r, world_size=3, window=16 if shuffle else None) for r in range(3)]
    assert {len(data) for data in ranks} == {SHARDS * EACH // 24}
    got = [numbers(data) for data in ranks]
    for r, found in enumerate(got):
        assert {n // EACH for n in found} == {r, r + 3}
        assert len(found) == len(set(found)) == 2 * EACH


def test_global_batch_and_sample_ids(shards):
    data = [loader(shards, batch_size=stoker.loader._options.Left(1), global_batch_size=16, rank=r, world_size=2)
            for r in range(2)]
    ids = sorted(int(i) for d in data for batch in d for i in batch.sample_ids)
    assert ids == list(range(SHARDS * EACH))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("steps", [1, 7, 29, 30])
def test_a_state_goes_on(tmp_path, shuffle, steps):
    url = make(tmp_path, [30, 41, 52, 1, 38, 47])           # streams end at different times
    more = {"shuffle": shuffle, "window": 48 if shuffle else None, "size": 240}
    data = loader(url, **more)
    numbers(data)                                           # an epoch before
    it = iter(data)
    for _ in range(steps):
        next(it)
    state = json.loads(json.dumps(data.state_dict()))
    want = numbers(it) + numbers(data)
    again = loader(url, num_workers=0, **more)
    again.load_state_dict(state)
    assert numbers(again) + numbers(again) == want


def test_a_state_does_not_read_what_came_before(tmp_path):
    url = make(tmp_path, [300] * 6)
    data = loader(url, size=1800)
    it = iter(data)
    for _ in range(180):                                    # sample 1,440, in the fifth shard
        next(it)
    state = data.state_dict()
    want = [int(n) for n in next(it)["n"]]
    for s in (1, 2, 3):                                     # the first one says what fields there are
        (tmp_path / f"s-{s:03}.tar").write_bytes(b"")
    again = loader(url, size=1800)
    again.load_state_dict(state)
    assert numbers([next(iter(again))]) == want == list(range(1440, 1448))


def test_states_that_do_not_fit(shards):
    state = loader(shards).state_dict()
    other = loader(shards, rank=1, world_size=2, batch_size=8)
    with pytest.raises(stoker.StokerError, match="does not fit"):
        other.load_state_dict(state)
    with pytest.raises(stoker.StokerError, match="rank 0, this is rank 1"):
        other.load_state_dict(loader(shards, rank=0, world_size=2).state_dict())
    with pytest.raises(stoker.StokerError, match="does not fit"):
        loader(shards, shuffle=True).load_state_dict(state)
    for broken in ({}, {"stream": 3}, {"stream": {"rank": 0, "block": -1, "places": [[0, 0, 0]]}},
                   {"stream": {"rank": 0, "block": 1, "places": [[0, 99, 0]]}},
                   {"stream": {"rank": 0, "block": 1, "places": [[0, 0]]}},
                   {"stream": {"rank": 0, "block": 1, "places": []}}):
        with pytest.raises(stoker.StokerError):
            loader(shards).load_state_dict({**state, "local": broken})
    far = loader(shards)
    far.load_state_dict({**state, "local": {"stream": {"rank": 0, "block": 1, "places": [[0, 0, 7]]}}})
    assert numbers(far) == list(range(SHARDS * EACH))       # that mark is after where it begins


@pytest.mark.asan
def test_set_epoch_goes_there(shards):
    data = loader(shards, size=64)
    want = [numbers(data) for _ in range(9)]
    for epoch in (7, 2, 0, 8):                              # forward by marks, and back
        data.set_epoch(epoch)
        assert numbers(data) == want[epoch], epoch


@pytest.mark.asan
def test_a_torn_shard(tmp_path):
    url = make(tmp_path, [EACH] * 3)
    torn = tmp_path / "s-001.tar"
    torn.write_bytes(torn.read_bytes()[:torn.stat().st_size // 2 // 512 * 512 + 100])
    with pytest.raises(stoker.StokerError, match="s-001.tar") as e:
        numbers(loader(url, size=3 * EACH))
    assert "cut short" in str(e.value)
    data = loader(url, size=2 * EACH + 8, on_error="skip")
    batches = list(data)
    got = [int(n) for b in batches for n, ok in zip(b["n"], b.valid, strict=True) if ok]
    assert sum(not ok for b in batches for ok in b.valid) == 1
    assert got == [n for n in range(3 * EACH) if n in got]
    assert set(range(EACH)) <= set(got) and 2 * EACH in got
    assert data.stats()["skipped"] == 1


@pytest.mark.asan
def test_bad_samples_are_replaced_by_near_ones(tmp_path):
    names = [(f"{i:04}.{ext}", b"x" if ext == "cls" and i in (5, 70, 300) else str(i).encode())
             for i in range(400) for ext in ("cls",)]
    write_tar(tmp_path / "s.tar", names)
    for shuffle in (False, True):
        batches = list(loader(str(tmp_path / "s.tar"), size=400, on_error="skip", shuffle=shuffle, num_workers=2,
                              window=50 if shuffle else None))
        valid = np.concatenate([b.valid for b in batches])
        assert (~valid).sum() == 3
        got = np.concatenate([b["n"] for b in batches])
        assert sorted(got[valid]) == sorted(set(range(400)) - {5, 70, 300})
        assert (abs(got[~valid] - np.flatnonzero(~valid)) < 64 + 50).all()


def test_pictures_are_those_of_indexed_shards(tmp_path):
    write_tar(tmp_path / "p.tar", [(f"{i:03}.{ext}", data) for i in range(40)
                                   for ext, data in (("jpg", jpeg(picture(i, 70, 50))), ("cls", str(i).encode()))])
    fields = {"image": "image | resize(40) | center_crop(32) | to(f32)", "n": "from(cls) | int"}
    url = str(tmp_path / "p.tar")
    streamed = list(loader(url, size=40, fields=fields))
    indexed = list(stoker.Loader(url, fields, batch_size=8))
    for a, b in zip(streamed, indexed, strict=True):
        assert np.array_equal(a["image"], b["image"]) and list(a["n"]) == list(b["n"])


def test_samples_may_lack_a_field(tmp_path):
    write_tar(tmp_path / "s.tar", [(f"{i:03}.{ext}", str(i).encode()) for i in range(32) for ext in
                                   (("a", "b") if i % 3 else ("a",))])
    data = loader(str(tmp_path / "s.tar"), size=32, fields={"a": "from(a) | int", "b": "from(b, default=-1) | int"})
    got = [int(n) for batch in data for n in batch["b"]]
    assert got == [i if i % 3 else -1 for i in range(32)]
    with pytest.raises(stoker.StokerError, match="no value in field b"):
        list(loader(str(tmp_path / "s.tar"), size=32, fields={"b": "from(b) | int"}))


@pytest.mark.asan
def test_large_samples_and_small_ones(tmp_path):
    rng = random.Random(3)
    sizes = [rng.choice((0, 1, 511, 512, 513, 300_000, 1_500_000)) for _ in range(24)]
    data = [rng.randbytes(n) for n in sizes]
    write_tar(tmp_path / "s.tar", [(f"{i:03}.bin", d) for i, d in enumerate(data)])
    got = [bytes(x) for batch in loader(str(tmp_path / "s.tar"), size=24, fields={"x": "from(bin) | bytes"})
           for x in batch["x"]]
    assert got == data


def test_what_is_refused(shards, tmp_path):
    with pytest.raises(stoker.StokerError, match="epoch_size= is missing"):
        stoker.Loader(stoker.stream(shards), NUMBER, batch_size=8)
    with pytest.raises(stoker.StokerError, match="6 shards for 7 ranks"):
        loader(shards, rank=3, world_size=7)
    for more in ({"select": [1]}, {"where": "a > 1"}, {"weights": [1.0]}, {"limit": 3}, {"max_tokens": 100},
                 {"shuffle": "exact"}, {"shuffle": "megatron"}, {"window": 8}, {"shuffle": True, "window": 0},
                 {"shuffle": True, "window": 1 << 30}, {"streams": 1000}, {"epoch_size": 0}, {"unheard_of": 1},
                 {"store": stoker.Store()}):
        with pytest.raises((stoker.StokerError, TypeError)):
            loader(shards, **more)
    with pytest.raises(stoker.StokerError, match="nothing matches|no such"):
        loader(f"{tmp_path}/x-*.tar")
    (tmp_path / "no.tar").write_bytes(b"hello" * 1000)
    with pytest.raises(stoker.StokerError, match="no.tar"):
        loader(f"{tmp_path}/no.tar")
    with pytest.raises(stoker.StokerError, match="nope"):
        loader(shards, fields={"x": "from(nope) | int"})
    write_tar(tmp_path / "empty.tar", [])
    with pytest.raises(stoker.StokerError, match="samples"):
        loader(f"{tmp_path}/empty.tar")
    with pytest.raises(stoker.StokerError, match="epoch_size"):
        len(loader(shards).dataset)
    with pytest.raises(stoker.StokerError):
        stoker.stream(3)


def test_a_shard_that_is_not_there_and_one_without_samples(tmp_path):
    make(tmp_path, [16, 16])
    write_tar(tmp_path / "none.tar", [])
    names = [f"{tmp_path}/s-000.tar", f"{tmp_path}/none.tar", f"{tmp_path}/gone.tar", f"{tmp_path}/s-001.tar"]
    with pytest.raises(stoker.StokerError, match="gone.tar"):
        numbers(loader(names, size=32))
    batches = list(loader(names, size=32, on_error="skip"))
    got = [int(n) for b in batches for n, ok in zip(b["n"], b.valid, strict=True) if ok]
    assert got == [*range(31)]


def test_many_loaders_and_breaks(shards):
    for i in range(10):                                     # threads end, whatever they were at
        data = loader(shards, shuffle=True, window=16, seed=i)
        it = iter(data)
        for _ in range(i):
            next(it)
        data.close()


def test_a_window_that_memory_limit_has_no_room_for(tmp_path):
    """300 samples of 64 KB: three eighths of 40 MB are less."""
    write_tar(tmp_path / "s.tar", [(f"{i:06d}.{ext}", data) for i in range(40)
                                   for ext, data in (("bin", bytes(65536)), ("cls", str(i).encode()))])
    more = {"size": 40, "shuffle": True, "window": 300}
    for _ in range(5):
        with loader(f"{tmp_path}/s.tar", memory_limit="40MB", **more) as data, \
                pytest.raises(stoker.StokerError, match=r"more than 14 MB, .* lower window \(300\)"):
            numbers(data)                                   # rows that wait for room do not hold up close()
    assert len(numbers(loader(f"{tmp_path}/s.tar", memory_limit="400MB", **more))) == 40
    more["window"] = 64
    assert len(numbers(loader(f"{tmp_path}/s.tar", memory_limit="40MB", **more))) == 40
