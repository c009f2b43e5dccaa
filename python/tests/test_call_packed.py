# SPDX-License-Identifier: Apache-2.0
"""call before pack, and in batches that are made by length."""

import io
import json

import numpy as np
import pytest
from call_functions import halves, ids_of_text, letters, pixel_codes, words_per_epoch
from call_ways import all_of, check_ways, epoch_of, same
from conftest import SAMPLES, jpeg, picture, write_tar

import stoker

pytestmark = pytest.mark.usefixtures("forked")

TEXT = [("word " * (3 + 7 * i % 23)).strip() + f" {i}" for i in range(SAMPLES)]


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    """Text, and what the function makes of it."""
    members = [(f"{i:03d}.{name}", data) for i, text in enumerate(TEXT)
               for name, data in (("txt", text.encode()), ("npy", npy(np.array(ids_of_text(text), np.int64))),
                                  ("jpg", jpeg(picture(i, 8 + i % 9, 6))))]
    return str(write_tar(tmp_path_factory.mktemp("packed") / "a.tar", members))


def called():
    return stoker.from_("txt").text().call(ids_of_text, dtype="i64")


def packed(base):
    return {"ids": base.pack(64), "labels": base.pack(64, shift=1), "documents": base.pack(64, give="documents"),
            "positions": base.pack(64, give="positions").to("i32"), "mask": base.pack(64, shift=1, give="mask")}


def test_packed_as_stored_numbers_are(shard):
    options = {"batch_size": 4}
    plain = all_of(shard, packed(stoker.from_("npy").npy(dtype="i64")), **options)
    same(plain, all_of(shard, packed(called()), **options))
    for workers, kind in [(1, None), (2, None), (7, None), (2, "thread")]:
        same(plain, all_of(shard, packed(called()), num_workers=workers, worker_type=kind, **options))
    cut = all_of(shard, {"ids": stoker.from_("npy").npy(dtype="i64").truncate(5, keep="last").pack(32)}, **options)
    same(cut, all_of(shard, {"ids": called().truncate(5, keep="last").pack(32)}, num_workers=2, **options))
    twice = all_of(shard, {"ids": stoker.from_("npy").npy(dtype="i64").to("i32").call(halves).call(halves).pack(32).to("i64")}, **options)
    by_hand = sorted(v // 4 for t in TEXT for v in ids_of_text(t))
    assert sorted(v for _, b in twice for v in b["ids"].ravel().tolist() if v) == [v for v in by_hand if v]


def test_state_and_ranks(shard):
    fields = packed(called())
    whole = all_of(shard, fields, batch_size=4)
    with stoker.Loader(shard, fields, batch_size=4, seed=5, shuffle=True, num_workers=2) as loader:
        length = len(loader)
        batches = iter(loader)
        next(batches), next(batches)
        state = json.loads(json.dumps(loader.state_dict()))
    assert length == len(whole)
    rows = []
    for rank in range(2):
        with stoker.Loader(shard, fields, global_batch_size=4, rank=rank, world_size=2, seed=5, shuffle=True, num_workers=1) as loader:
            loader.load_state_dict(state)
            rows.append([r.tobytes() for _, b in epoch_of(loader) for r in b["ids"]])
    assert sorted(rows[0] + rows[1]) == sorted(r.tobytes() for _, b in whole[2:] for r in b["ids"])


def test_functions_are_called_for_values_alone(shard):
    seen = []

    def count(text):
        seen.append(text)
        return ids_of_text(text)

    base = stoker.from_("txt").text().call(count, dtype="i64")
    fields = {"ids": base.pack(64), "positions": base.pack(64, give="positions"), "mask": base.pack(64, give="mask")}
    lengths = np.array([len(ids_of_text(t)) for t in TEXT], np.uint32)
    with stoker.Loader(shard, fields, batch_size=4, num_workers=0, lengths=lengths) as loader:
        assert not seen                                 # lengths are given: nothing is measured
        given = epoch_of(loader)
    assert len(seen) == SAMPLES                         # no sample is longer than a row
    with stoker.Loader(shard, fields, batch_size=4, num_workers=0) as loader:
        assert len(seen) == 2 * SAMPLES                 # measured once, by one of the outputs
        same(given, epoch_of(loader))


def test_lengths_follow_the_function_of_today(shard):
    """One of the same name that gives more: nothing old is kept."""
    def made(times):
        def longer(text):
            return ids_of_text(text) * times
        return all_of(shard, {"ids": stoker.from_("txt").text().call(longer, dtype="i64").pack(64)}, batch_size=1)

    short, long = made(1), made(2)
    assert sum(b["ids"].astype(bool).sum() for _, b in long) == 2 * sum(b["ids"].astype(bool).sum() for _, b in short)


def test_other_lengths_are_an_error(shard):
    with stoker.Loader(shard, {"ids": stoker.from_("txt").text().call(words_per_epoch, dtype="i64").pack(64)}, batch_size=1, seed=3,
                       num_workers=1) as loader, pytest.raises(ValueError, match="values, and lengths say"):
        for _ in range(5):
            for _ in loader:
                pass


def test_numbers_of_pictures_are_packed(shard):
    fields = {"ids": stoker.from_("jpg").image().call(pixel_codes, dtype="i32").pack(128)}
    made = check_ways(shard, fields, batch_size=4)
    assert sum(int((b["ids"] > 0).sum()) for _, b in made) == sum((8 + i % 9) * 6 for i in range(SAMPLES))


@pytest.mark.asan
def test_batches_by_length(shard):
    options = {"batch_size": None, "max_tokens": 100, "collate": "pad"}
    plain = all_of(shard, {"ids": stoker.from_("npy").npy(dtype="i64")}, **options)
    for workers in (0, 2):
        same(plain, all_of(shard, {"ids": called()}, num_workers=workers, **options))
    raw = stoker.from_("txt").bytes().call(bytes.upper)
    made = all_of(shard, {"raw": raw}, num_workers=1, **{**options, "max_tokens": 400})
    assert all(b["raw"].size <= 400 for _, b in made) and sum(len(b["raw"]) for _, b in made) == SAMPLES


def test_what_does_not_go_together():
    with pytest.raises(ValueError, match="call stands before pack"):
        stoker.from_("txt").text().call(letters, dtype="i64").pack(8).call(halves)
    with pytest.raises(ValueError, match="whole numbers"):
        stoker.from_("txt").text().call(letters, dtype="f32").pack(8)
