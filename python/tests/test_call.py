# SPDX-License-Identifier: Apache-2.0
"""call: functions of Python in the middle of a chain."""

import functools
import json
import os
import random
import threading

import numpy as np
import pytest
from call_functions import add_tag, always_killed, invert, killed, letters, louder, my_numpy_function, narrow, number, odd, shift
from conftest import SAMPLES, as_numpy, check_python, epoch_of, jpeg, picture, write_tar

import stoker

pytestmark = pytest.mark.usefixtures("forked")


def chain():
    return stoker.from_("jpg").image()


def all_of(urls, fields, **options):
    with stoker.Loader(urls, fields, **{"batch_size": 16, "seed": 5, "shuffle": True, **options}) as loader:
        return epoch_of(loader)


def same(a, b):
    assert len(a) == len(b)
    for (ids, x), (ids2, y) in zip(a, b, strict=True):
        assert (ids == ids2).all() and x.keys() == y.keys()
        for name in x:
            assert np.array_equal(x[name], y[name]), name


# ---- values --------------------------------------------------------------------------------------

@pytest.mark.asan
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_picture_between_two_steps(urls, workers):
    plain = all_of(urls, {"x": chain().resize((24, 20)).to("u8", "hwc")}, num_workers=0)
    made = all_of(urls, {"x": chain().resize((24, 20)).call(invert).to("u8", "hwc")}, num_workers=workers)
    for (ids, a), (ids2, b) in zip(plain, made, strict=True):
        assert (ids == ids2).all() and (a["x"] == 255 - b["x"]).all()


@pytest.mark.asan
def test_other_sizes_and_steps_after_it(urls):
    """What comes after sees the picture that the function gave."""
    made = all_of(urls, {"x": chain().call(narrow).resize((8, 6)).normalize("imagenet").to("f32")}, num_workers=2)
    assert made[0][1]["x"].shape == (16, 3, 8, 6)
    with stoker.Loader(urls, {"x": chain().call(narrow).to("u8", "hwc")}, num_workers=1, collate="list") as loader:
        ds = stoker.open(urls, fields={"x": chain().to("u8", "hwc")})
        for batch in list(loader)[:5]:
            whole = as_numpy(ds[int(batch.sample_ids[0])]["x"])
            assert np.array_equal(as_numpy(batch["x"][0]), narrow(whole))
    once = all_of(urls, {"x": chain().resize((24, 20)).call(invert).call(invert).to("u8")}, num_workers=1)
    same(once, all_of(urls, {"x": chain().resize((24, 20)).to("u8")}, num_workers=1))


def test_random_steps_around_it_draw_as_ever(urls):
    def fields(*calls):
        built = chain().random_resized_crop(20).hflip()
        for f in calls:
            built = built.call(f)
        return {"x": built.color_jitter(0.4, 0.4).to("u8")}

    assert [b[0].tolist() for b in all_of(urls, fields(invert))] == [b[0].tolist() for b in all_of(urls, fields())]
    same(all_of(urls, fields(shift), num_workers=0), all_of(urls, fields(shift), num_workers=2))


def test_draws_are_addressed(urls):
    fields = {"x": chain().resize((16, 40)).call(shift).to("u8")}
    state = random.getstate(), np.random.get_state()[1].copy()
    alone = all_of(urls, fields, num_workers=0)
    assert random.getstate() == state[0] and (np.random.get_state()[1] == state[1]).all()
    same(alone, all_of(urls, fields, num_workers=1))
    same(alone, all_of(urls, fields, num_workers=2))
    other = all_of(urls, fields, num_workers=2, seed=6)
    assert sorted(i for b in other for i in b[0].tolist()) == list(range(SAMPLES))
    with stoker.Loader(urls, fields, batch_size=16, seed=5, shuffle=True, num_workers=2) as loader:
        first, second = epoch_of(loader), epoch_of(loader)
    same(alone, first)
    by_id = {int(i): x for ids, b in first for i, x in zip(ids, b["x"], strict=True)}
    assert any(not np.array_equal(by_id[int(i)], x) for ids, b in second for i, x in zip(ids, b["x"], strict=True))


@pytest.mark.asan
@pytest.mark.parametrize("workers", [0, 2])
def test_text_json_and_numbers(urls, workers):
    fields = {
        "loud": stoker.from_("txt").text().call(louder),
        "codes": stoker.from_("txt").text().call(letters, dtype="int32"),
        "twice": stoker.from_("json").json().call(number, dtype=np.int64, shape=()),
        "tagged": stoker.from_("json").json().call(add_tag),
        "raw": stoker.from_("txt").bytes().call(bytes.upper),
        "sum": chain().call(lambda x: x.sum((0, 1)), dtype="f64", shape=3).to("f32"),
        "label": stoker.from_("cls").int().call(lambda n: n + 1),
        "hot": stoker.from_("cls").int().call(lambda n: (n + 1) % 10).one_hot(10)}
    with stoker.Loader(urls, fields, batch_size=10, num_workers=workers, collate={"codes": ("pad", -1)}) as loader:
        assert len(loader) == 10
        at = 0
        for batch in loader:
            for k in range(10):
                i = at + k
                assert batch["loud"][k] == f"NÚMERO {i}!"
                text = f"número {i}"
                row = as_numpy(batch["codes"])[k]
                assert row.dtype == np.int32 and row[: len(text)].tolist() == letters(text) and (row[len(text):] == -1).all()
                assert batch["twice"][k] == 2 * i and batch["tagged"][k] == {"n": i, "tags": ["a", "b", "c"]}
                assert batch["raw"][k] == f"número {i}".encode().upper()
                assert batch["label"][k] == i % 10 + 1 and as_numpy(batch["hot"])[k].argmax() == (i + 1) % 10
            assert as_numpy(batch["twice"]).dtype == np.int64 and as_numpy(batch["sum"]).shape == (10, 3)
            at += 10


def test_truncate_and_lists_after_it(urls):
    made = all_of(urls, {"codes": stoker.from_("txt").text().call(letters, dtype="i64").truncate(3, keep="last")},
                  shuffle=False, num_workers=1, collate={"codes": "pad"})
    assert made[0][1]["codes"][11].tolist() == letters(" 11")
    with stoker.Loader(urls, {"c": stoker.from_("txt").text().call(letters, dtype="i64")}, batch_size=2, collate="list",
                       num_workers=1) as loader:
        assert [as_numpy(r).tolist() for r in next(iter(loader))["c"]] == [letters("número 0"), letters("número 1")]


def test_a_column_of_a_table(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq
    pq.write_table(pa.table({"x": pa.array(range(40), pa.int32()), "t": [f"t{i}" for i in range(40)]}), tmp_path / "t.parquet")
    fields = {"x": stoker.from_("x").call(lambda v: v * 0.5, dtype="f32", shape=()),
              "y": stoker.from_("x").call(lambda v: v + 1), "t": stoker.from_("t").text().call(louder)}
    with stoker.Loader(str(tmp_path / "t.parquet"), fields, batch_size=20, num_workers=1) as loader:
        batch = next(iter(loader))
    assert as_numpy(batch["x"]).tolist() == [i / 2 for i in range(20)] and batch["t"][3] == "T3!"
    assert as_numpy(batch["y"]).dtype == np.int32 and as_numpy(batch["y"]).tolist() == list(range(1, 21))


@pytest.mark.asan
def test_one_channel(tmp_path):
    write_tar(tmp_path / "a.tar", [(f"{i}.jpg", jpeg(picture(i))) for i in range(4)])
    seen = []

    def look(image):
        seen.append(image.shape)
        return image

    gray = stoker.from_("jpg").image(mode="gray")
    with stoker.Loader(str(tmp_path / "a.tar"), {"x": gray.call(look).to("u8")}, num_workers=0) as loader, \
            stoker.Loader(str(tmp_path / "a.tar"), {"x": gray.to("u8")}, num_workers=0) as plain:
        assert np.array_equal(as_numpy(next(iter(loader))["x"][0]), as_numpy(next(iter(plain))["x"][0]))
    assert seen and all(s == (60, 80, 1) for s in seen)


# ---- the loader's own --------------------------------------------------------------------------------

def test_resume_ranks_and_len(urls):
    fields = {"x": chain().resize((16, 40)).call(shift).to("u8")}
    options = {"seed": 5, "shuffle": True, "num_workers": 2}
    whole = all_of(urls, fields)
    with stoker.Loader(urls, fields, batch_size=16, **options) as loader:
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        state = json.loads(json.dumps(loader.state_dict()))
    parts = {}
    for rank in range(2):
        with stoker.Loader(urls, fields, global_batch_size=16, rank=rank, world_size=2, **options) as loader:
            loader.load_state_dict(state)
            assert len(loader) == len(whole)
            parts[rank] = epoch_of(loader)
    by_id = {int(i): x for ids, b in whole for i, x in zip(ids, b["x"], strict=True)}
    assert len(parts[0]) == len(whole) - 3
    for step in range(len(parts[0])):
        ids = {int(i) for rank in parts for i in parts[rank][step][0]}
        assert ids == set(whole[step + 3][0].tolist())
        for rank in parts:
            for i, x in zip(parts[rank][step][0], parts[rank][step][1]["x"], strict=True):
                assert np.array_equal(x, by_id[int(i)])


def test_the_state_names_the_function(urls):
    def state(f, **options):
        with stoker.Loader(urls, {"x": chain().resize((8, 8)).call(f)}, batch_size=4, num_workers=0, **options) as loader:
            return loader.state_dict(), loader.fields["x"]

    (a, text), (b, _) = state(invert), state(shift)
    assert text == "from(jpg) | image | resize((8, 8)) | call(call_functions.invert)" and a["chains"] != b["chains"]
    assert state(functools.partial(invert))[0]["chains"] == a["chains"]
    with stoker.Loader(urls, {"x": chain().resize((8, 8)).call(shift)}, batch_size=4, num_workers=0) as loader, \
            pytest.raises(ValueError, match="chain"):
        loader.load_state_dict(a)


def test_two_functions_of_one_name(urls):
    fields = {"a": stoker.from_("txt").text().call(lambda t: t + "a"), "b": stoker.from_("txt").text().call(lambda t: t + "b")}
    with stoker.Loader(urls, fields, batch_size=2, num_workers=1) as loader:
        batch = next(iter(loader))
        assert batch["a"][0] == "número 0a" and batch["b"][1] == "número 1b" and "which=1" in loader.fields["b"]


def test_open_and_preview(urls):
    ds = stoker.open(urls, fields={"x": chain().resize((8, 8)).call(shift).to("u8")})
    assert np.array_equal(as_numpy(ds[3]["x"]), as_numpy(ds[3]["x"]))
    with stoker.Loader(urls, {"x": chain().resize((8, 8)).call(invert).hflip().to("u8")}, batch_size=4, num_workers=1) as loader:
        assert "hflip" in str(loader.explain(3))


def test_chains_that_make_no_sense(urls):
    base = chain()
    for bad, says in [(lambda: base.to("bf16").call(invert), "NumPy has no bf16"),
                      (lambda: base.to("f32", "channels_last").call(invert), "not channels_last"),
                      (lambda: base.call("invert"), "takes a function"),
                      (lambda: base.views(2).resize((4, 4)).call(invert, dtype="f32"), "say shape="),
                      (lambda: base.call(invert, shape=3), "dtype"),
                      (lambda: base.call(invert, dtype="q8"), "q8"),
                      (lambda: stoker.from_("txt").text().call(louder).int(), "after call")]:
        with pytest.raises(ValueError, match=says):
            bad()
    with pytest.raises(ValueError, match="no function"):
        stoker.Loader(urls, {"x": "from(jpg) | image | call(f)"}, batch_size=1)
    with pytest.raises(ValueError, match="no functions"):
        stoker.Transform(stoker.image().call(invert))
    with pytest.raises(ValueError, match="rows of arrays"):
        stoker.Loader({"x": np.zeros((4, 2), "f4")}, {"x": stoker.from_("x").call(invert)}, batch_size=1)
    with pytest.raises(ValueError, match="worker_type"):
        stoker.Loader(urls, {"x": base.resize((8, 8))}, batch_size=1, worker_type="thread")


# ---- failures ----------------------------------------------------------------------------------------

@pytest.mark.asan
@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_says_where(urls, workers):
    with stoker.Loader(urls, {"x": chain().resize((16, 16)).call(odd)}, batch_size=16, num_workers=workers) as loader, \
            pytest.raises(stoker.StokerError, match=r"call\(call_functions.odd\) raised ValueError: sum \d+ is no good") as e:
        list(loader)
    assert e.value.key and e.value.sample == int(e.value.key) and e.value.shard.endswith(".tar")
    assert "in odd" in str(e.value.__cause__) and 'raise ValueError(f"sum' in str(e.value.__cause__)


@pytest.mark.asan
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_bad_samples_are_skipped(urls, workers):
    with stoker.Loader(urls, {"x": chain().resize((16, 16)).call(odd).to("u8", "hwc")}, batch_size=16, num_workers=workers,
                       on_error="skip") as loader:
        valid = [bool(v) for b in loader for v in b.valid]
        skipped = loader.stats()["skipped"]
    plain = all_of(urls, {"x": chain().resize((16, 16)).to("u8", "hwc")}, shuffle=False)
    expected = [int(x.astype(np.int64).sum()) % 4 != 0 for _, b in plain for x in b["x"]]
    assert valid == expected and not all(valid) and skipped >= valid.count(False)


@pytest.mark.asan
def test_what_it_may_not_return(urls):
    for f, says in [(lambda x: x.astype("f4"), "a picture is uint8"), (lambda x: None, "a picture is uint8"),
                    (lambda x: x[:4, :4], "after call\\(\\) it is 4x4"), (lambda x: x[..., :1], "no picture"),
                    (lambda x: x[:0], "0")]:
        with stoker.Loader(urls, {"x": chain().resize((16, 16)).call(f)}, batch_size=4, num_workers=0) as loader, \
                pytest.raises(ValueError, match=says):
            next(iter(loader))
    for f, given, says in [(lambda t: 7, {}, "text is to stay text"), (lambda t: [1.5], {"dtype": "i64"}, "round it"),
                           (lambda t: [300], {"dtype": "u8"}, "does not hold"), (lambda t: ["x"], {"dtype": "f4"}, "f4"),
                           (lambda t: [1, 2], {"dtype": "f32", "shape": 3},
                            r"gave numbers of the shape \(2\), and its chain says \(3\)"),
                           (lambda t: [1.5], {"dtype": "i64"}, "returned float64, and its chain says int64: round it"),
                           (lambda t: {1}, {"dtype": "i64"}, "returned set: numbers were asked for")]:
        with pytest.raises(ValueError, match=says), \
                stoker.Loader(urls, {"t": stoker.from_("txt").text().call(f, **given)}, batch_size=1, num_workers=0) as loader:
            next(iter(loader))


@pytest.mark.asan
def test_no_numbers_at_all(urls):
    """A tokenizer gives [] for an empty text, which NumPy takes for float64."""
    ids = stoker.from_("txt").text().call(lambda t: [1, 2] if "3" in t else [], dtype="i64")
    [batch] = stoker.Loader(urls, {"ids": ids}, batch_size=10, num_workers=0, limit=10, collate="pad")
    assert str(batch["ids"].dtype).endswith("int64") and sorted(set(batch.lengths["ids"].tolist())) in ([0], [0, 2])


def test_a_killed_process_is_an_error(urls):
    with stoker.Loader(urls, {"x": chain().resize((16, 16)).call(killed)}, batch_size=16, num_workers=2) as loader, \
            pytest.raises(stoker.StokerError, match=r"worker \d \(process \d+\) was killed by SIGKILL.* while "
                          r"call\(call_functions.killed\) had sample \d+") as e:
        list(loader)
    assert isinstance(e.value, RuntimeError) and e.value.sample is not None


def test_a_killed_process_is_skipped(urls):
    """Not with ASan (tests/support/sanitized.h): the process that takes its place is forked beside the loader's threads."""
    plain = all_of(urls, {"x": chain().resize((16, 16)).to("u8", "hwc")}, shuffle=False)
    expected = [int(x.astype(np.int64).sum()) % 16 != 0 for _, b in plain for x in b["x"]]
    assert 0 < expected.count(False) < 20
    with stoker.Loader(urls, {"x": chain().resize((16, 16)).call(killed).to("u8", "hwc")}, batch_size=16, num_workers=1,
                       on_error="skip") as loader:
        assert [bool(v) for b in loader for v in b.valid] == expected


def test_three_deaths_in_a_row(urls):
    with stoker.Loader(urls, {"x": chain().resize((16, 16)).call(always_killed)}, batch_size=4, num_workers=1,
                       on_error="skip") as loader, pytest.raises(RuntimeError, match="SIGKILL"):
        next(iter(loader))


def test_how_processes_start(urls, tmp_path):
    (tmp_path / "moved.py").write_text("import numpy as np, random\n"
                                       "def shift(x):\n    return np.roll(x, np.random.randint(20) + random.randrange(20), 1)\n")
    check_python("""
        import sys; sys.path.insert(0, sys.argv[2])
        import hashlib, moved, numpy as np, stoker
        def made(how, function=moved.shift):
            fields = {"x": stoker.from_("jpg").image().resize((16, 40)).call(function).to("u8")}
            with stoker.Loader(sys.argv[1], fields, batch_size=16, num_workers=1, shuffle=True, worker_type=how) as loader:
                return hashlib.sha256(b"".join(np.asarray(b["x"]).tobytes() for b in loader)).hexdigest()
        first = made("fork")
        assert made("spawn") == first and made("forkserver") == first and made(None) == first
        try:
            made("spawn", lambda x: x)
        except ValueError as e:
            assert "a function of call() does not pickle" in str(e), e
        else:
            raise SystemExit(1)
    """, urls, tmp_path)


@pytest.mark.asan
def test_threads(urls):
    seen = set()

    def here(image):
        seen.add((os.getpid(), threading.get_ident(), stoker.sample_seed()))
        return image

    made = all_of(urls, {"x": chain().resize((16, 16)).call(here).to("u8")}, num_workers=2, worker_type="thread")
    assert len(made) == 7 and {pid for pid, _, _ in seen} == {os.getpid()} and len({s for _, _, s in seen}) >= SAMPLES


@pytest.mark.asan
def test_break_and_close_leave_nothing(urls):
    check_python("""
        import gc, os, stoker, sys, time
        def slow(image):
            time.sleep(0.01)
            return image
        def opened():
            return stoker.Loader(sys.argv[1], {"x": stoker.from_("jpg").image().resize((16, 16)).call(slow)}, batch_size=8,
                                 num_workers=2)
        opened().close()
        before = sorted(os.listdir("/proc/self/fd"))
        loader = opened()
        for _ in range(2):
            for _ in loader:
                break
        loader.close()
        loader.close()
        gone = opened()
        next(iter(gone))
        del gone, loader, _
        gc.collect()
        assert sorted(os.listdir("/proc/self/fd")) == before
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            raise SystemExit(0)
        raise SystemExit("a process is left")
    """, urls)


def test_ctrl_c_in_a_function(urls):
    check_python("""
        import os, signal, stoker, sys
        def f(x):
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000000): pass
            return x
        with stoker.Loader(sys.argv[1], {"x": stoker.from_("jpg").image().resize((8, 8)).call(f)}, num_workers=0) as loader:
            try:
                next(iter(loader))
            except KeyboardInterrupt:
                print("stopped")
            else:
                raise SystemExit(1)
    """, urls)


def test_the_parent_is_killed(urls, tmp_path):
    check_python("""
        import os, stoker, sys, time
        folder = sys.argv[2]
        def f(x):
            open(f"{folder}/{os.getpid()}", "w").close()
            time.sleep(100)
            return x
        def wait_for(what):
            until = time.monotonic() + 120
            while not what():
                assert time.monotonic() < until
                time.sleep(0.05)
        pid = os.fork()
        if not pid:
            loader = stoker.Loader(sys.argv[1], {"x": stoker.from_("jpg").image().resize((8, 8)).call(f)}, num_workers=2,
                                   batch_size=8)
            next(iter(loader))
        wait_for(lambda: len(os.listdir(folder)) == 2)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        wait_for(lambda: not any(os.path.exists(f"/proc/{p}") for p in os.listdir(folder)))
    """, urls, tmp_path)


# ---- with a tokenizer ------------------------------------------------------------------------------

def test_pairs_with_a_tokenizer(data):
    """A function on pictures and Hugging Face's tokenizer on whole batches, as a user writes it."""
    pytest.importorskip("torch")
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0, "_": 1, "número": 2, **{str(i): 3 + i for i in range(SAMPLES)}}, "?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="_", unk_token="?")
    loader = stoker.Loader(f"{data}/*.tar", {
        "image": stoker.from_("jpg").image().call(my_numpy_function).resize(224).to("f32"),
        "text": "from(txt) | text"}, batch_ops=[lambda b: {**b, **tokenizer(b["text"], padding=True, return_tensors="pt")}])
    with loader:
        batches = iter(loader)
        for i in range(3):
            batch = next(batches)
            assert batch["input_ids"].tolist() == [[2, 3 + i]] and batch["attention_mask"].tolist() == [[1, 1]]
            assert batch["image"][0].shape[0] == 3 and 224 in batch["image"][0].shape[1:]
