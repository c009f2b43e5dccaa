# SPDX-License-Identifier: Apache-2.0
"""What samples draw belongs to their positions: the same bits for any workers, batch sizes, ranks and resumes.

STOKER_SETUPS says how many random set-ups there are; the seed is printed with a failure.
"""

import os
import random
import zlib

import iterables
import numpy as np
import pytest

import stoker
from stoker import _seeds, _stoker

torch = pytest.importorskip("torch")

SETUPS = int(os.environ.get("STOKER_SETUPS", "12"))
SEED = int(os.environ.get("STOKER_SEED", "20240817"))
WORDS = (0, 1, 2, 3, 311, 312, 623, 624, 625, 1248, 1872, 6240)      # 624 words: the generator's position comes round


def drawn(words):
    """So many words of each generator, and normal numbers, of which they keep every second one for later."""
    parts = [random.randbytes(4 * words), np.random.bytes(4 * words), torch.empty(words).random_().numpy().tobytes()]
    if words % 2:
        parts += [np.float64(random.gauss(0, 1)).tobytes(), np.random.randn(1).tobytes(),
                  torch.randn(1, dtype=torch.float64).numpy().tobytes()]
    return zlib.crc32(b"".join(parts))


def of_seed():
    seed = stoker.sample_seed()
    return seed >> 1, zlib.crc32(np.random.default_rng(seed).bytes(40))


class Base:
    """`shared`: for threads, which have one generator between them."""

    def __init__(self, n, first, shared=False):
        self.n, self.first, self.shared = n, first, shared

    def sample(self, i):
        words = WORDS[(i * 5 + self.first) % len(WORDS)]
        return {"i": i, "seed": of_seed(), "drawn": 0 if self.shared else drawn(words)}


class Draws(Base):
    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.sample(i)


class Many(Draws):
    def __getitems__(self, indices):
        return [self.sample(i) for i in indices]


class Streamed(Base):
    def __iter__(self):
        for i in range(self.n):
            yield self.sample(i)


class Counted(iterables.Counted, Base):
    """Has a state."""


def noted(batch, seen, shared):
    valid = batch.valid.tolist()
    seeds, crcs = batch["seed"]
    for row in zip(batch["i"].tolist(), seeds.tolist(), crcs.tolist(), batch["drawn"].tolist(), valid, strict=True):
        if row[4]:
            assert row[0] not in seen, f"sample {row[0]} twice"
            seen[row[0]] = row[1:3] if shared else row[1:4]


def leg(make, draws, state, shared, seen, steps):
    """All ranks of one run, from a state; the state after."""
    world, states = draws.choice((1, 1, 2, 3)), []
    size, workers = draws.randint(1, 9), draws.choice((0, 0, 1, 2))
    for rank in range(world):
        loader = make(batch_size=size, num_workers=workers, rank=rank, world_size=world)
        with loader:
            if state is not None:
                loader.load_state_dict(state)
            for _, batch in zip(range(steps), loader, strict=False):
                noted(batch, seen, shared)
            states.append(loader.state_dict())
    assert len({(s["epoch"], s["position"]) for s in states}) == 1
    return states[-1]


@pytest.mark.filterwarnings("ignore:this data set has no state_dict")
def test_the_same_bits_for_any_set_up():
    for number in range(SETUPS):
        draws = random.Random(SEED + number)
        kind = draws.choice((Draws, Draws, Many, Streamed, Counted))
        shared = draws.random() < 0.25
        n, first, seed, epoch = draws.randint(1, 40), draws.randrange(12), draws.randrange(2**64), draws.choice((0, 0, 3))
        more = {} if kind in (Streamed, Counted) else {"shuffle": draws.random() < 0.5}

        def make(kind=kind, shared=shared, n=n, first=first, seed=seed, epoch=epoch, more=more, **options):
            loader = stoker.Loader(kind(n, first, shared), seed=seed, worker_type="thread" if shared else "fork", **more, **options)
            loader.set_epoch(epoch)
            return loader

        expected, seen = {}, {}
        with make(batch_size=1, num_workers=0) as loader:
            for batch in loader:
                noted(batch, expected, shared)
        assert sorted(expected) == list(range(n))
        assert len({row[0] for row in expected.values()}) == n      # a seed for each sample
        state = None
        while state is None or state["epoch"] == epoch:
            state = leg(make, draws, state, shared, seen, draws.randint(1, 6))
        assert {i: expected[i] for i in seen} == seen, f"set-up {number}, seed {SEED}: other bits"
        assert seen == expected, f"set-up {number}, seed {SEED}: {sorted(set(expected) - set(seen))} missing"


def test_words_are_written_as_they_are_set(monkeypatch):
    """Where the generators' memory is not found, their own functions give them the same words."""
    def bits():
        return random.getstate(), [v.tolist() if hasattr(v, "tolist") else v for v in np.random.get_state()], \
            random.gauss(0, 1), np.random.randn(), drawn(625)

    direct = _seeds.Seeder()
    assert direct._random and direct._numpy.words and direct._numpy.gauss
    slow = _seeds.Seeder()
    slow._random = slow._numpy.words = 0
    kept = direct.save()
    for address in (0, 1, 2**64 - 1, 0x123456789abcdef0):
        random.gauss(0, 1), np.random.randn(1)          # one more is in store
        direct.seed(address)
        first = bits()
        slow.seed(address)
        assert bits() == first
    state = slow.save()
    random.gauss(0, 1), np.random.randn(1), torch.randn(1)
    expected = bits()
    slow.restore(state)
    random.gauss(0, 1), np.random.randn(1), torch.randn(1)
    assert bits() == expected
    direct.restore(kept)
    assert len({_stoker.twister(a, w) for a in range(9) for w in (0, 1)}) == 18


def test_another_generator_of_numpys(monkeypatch):
    was = np.random.get_bit_generator()
    seeder = _seeds.Seeder()
    try:
        np.random.set_bit_generator(np.random.PCG64(5))
        kept = seeder.save()
        seeder.seed(7)
        first = np.random.bytes(8)
        seeder.seed(8)
        second = np.random.bytes(8)
        seeder.seed(7)
        assert np.random.bytes(8) == first != second
        seeder.restore(kept)
        assert np.random.bytes(8) == np.random.RandomState(np.random.PCG64(5)).bytes(8)
    finally:
        np.random.set_bit_generator(was)


def test_a_collate_function_that_draws():
    def collate(samples):
        return len(samples), stoker.sample_seed() >> 1, drawn(3)

    def batches(data, **options):
        with stoker.Loader(data, batch_size=4, collate=collate, worker_type="fork", **options) as loader:
            return list(loader)

    for data in (list(range(30)), Draws(30, 0)):        # a list draws nothing, its collate function may
        state = random.getstate()
        expected = batches(data, num_workers=0)
        assert random.getstate() == state
        assert len({row[1] for row in expected}) == 8 and batches(data, num_workers=2) == expected


def test_a_data_set_that_draws_nothing_gets_whole_batches(caplog):
    class Says(Many):
        stoker_draws = False

        def __getitems__(self, indices):
            return [{"n": len(indices), "seed": stoker.sample_seed() >> 1} for _ in indices]

    with stoker.Loader(Says(8, 0), batch_size=4, num_workers=0) as loader:
        assert [b["n"].tolist() for b in loader] == [[4] * 4] * 2
    with caplog.at_level("INFO", "stoker"), stoker.Loader(Many(8, 0), batch_size=4, num_workers=0):
        assert "read sample by sample" in caplog.text and "stoker_draws" in caplog.text
