# SPDX-License-Identifier: Apache-2.0
"""batch_ops: mixing of whole batches, and functions that run ahead of the loop."""

import gc
import math
import threading
import time
import weakref

import numpy as np
import pytest
from conftest import LABEL, SAMPLES, as_numpy, check_python, epoch_of

import stoker

pytestmark = pytest.mark.asan
IMAGE = "from(jpg) | image | resize((12, 10)) | normalize(imagenet) | to(f32)"
FIELDS = {"image": IMAGE, "label": "from(cls) | int | one_hot(10)"}


def batches(urls, ops=None, fields=FIELDS, **options):
    with stoker.Loader(urls, fields, **{"batch_size": 16, "seed": 5, "shuffle": True, "batch_ops": ops, **options}) as loader:
        return epoch_of(loader)


# ---- mixing --------------------------------------------------------------------------------------

def partners(x):
    return x[::-1]


def test_mixup_is_timms(urls):
    plain, mixed = batches(urls), batches(urls, ["mixup(image, label, alpha=0.4)"])
    lams = []
    for (ids, a), (ids2, b) in zip(plain, mixed, strict=True):
        assert (ids == ids2).all()
        y, z = a["label"], b["label"]
        row = next(i for i in range(len(y)) if y[i].argmax() != partners(y)[i].argmax())
        lam = np.float32(z[row][y[row].argmax()])
        lams.append(float(lam))
        other = np.float32(1) - lam
        assert np.allclose(z, y * lam + partners(y) * other, atol=1e-6)
        assert np.allclose(b["image"], a["image"] * lam + partners(a["image"]) * other, atol=1e-5)
    assert len(set(lams)) == len(lams) and all(0 <= v <= 1 for v in lams)


def test_cutmix_is_timms(urls):
    plain, mixed = batches(urls), batches(urls, ["cutmix(image, label, alpha=1)"])
    cut = 0
    for (_, a), (_, b) in zip(plain, mixed, strict=True):
        x, z = a["image"], b["image"]
        box = (z[0] != x[0]).any(0)
        if not box.any():
            continue
        ys, xs = np.where(box)
        area = np.zeros_like(box)
        area[ys.min():ys.max() + 1, xs.min():xs.max() + 1] = True
        assert (z == np.where(area, partners(x), x)).all()
        lam = 1 - area.sum() / area.size
        assert np.allclose(b["label"], a["label"] * lam + partners(a["label"]) * (1 - lam), atol=1e-6)
        cut += 1
    assert cut >= 4


def test_layouts_and_types_give_the_same_boxes(urls):
    want = [b["image"] for _, b in batches(urls, ["cutmix(image, label)"])]
    for end, back in (("to(f32, hwc)", (0, 3, 1, 2)), ("to(f32, channels_last)", None)):
        got = [b["image"] for _, b in batches(urls, ["cutmix(image, label)"], {**FIELDS, "image": IMAGE.replace("to(f32)", end)})]
        for x, z in zip(want, got, strict=True):
            assert (x == (z.transpose(back) if back else z)).all()
    u8 = {**FIELDS, "image": "from(jpg) | image | resize((12, 10))"}
    assert batches(urls, ["cutmix(image, label)"], u8)[0][1]["image"].dtype == np.uint8


@pytest.mark.parametrize("mode", ["pair", "elem"])
def test_modes(urls, mode):
    plain = batches(urls, batch_size=20)
    mixed = batches(urls, [f"mixup(image, label, mode={mode})"], batch_size=20)
    for (_, a), (_, b) in zip(plain, mixed, strict=True):
        lam = np.empty(len(a["label"]))
        for i, (y, other, z) in enumerate(zip(a["label"], partners(a["label"]), b["label"])):
            lam[i] = z[y.argmax()] if y.argmax() != other.argmax() else np.nan
        known = [(i, len(lam) - 1 - i) for i in range(len(lam) // 2) if not np.isnan(lam[i])]
        same = [math.isclose(lam[i], lam[j], abs_tol=1e-6) for i, j in known]
        assert all(same) if mode == "pair" else not any(same)
        assert len({round(lam[i], 5) for i, _ in known}) > 1
        for i, j in known:
            assert np.allclose(b["image"][i], a["image"][i] * lam[i] + a["image"][j] * (1 - lam[i]), atol=1e-5)


def test_draws_depend_on_nothing_but_their_address(urls):
    ops = ["mixup_cutmix(image, label, mixup=0.8, cutmix=1.0, switch=0.5)"]
    want = batches(urls, ops)
    for workers in (0, 1, 3):
        for (i, a), (k, b) in zip(want, batches(urls, ops, num_workers=workers), strict=True):
            assert (i == k).all() and all((a[n] == b[n]).all() for n in a)
    assert any((a["image"] != b["image"]).any() for (_, a), (_, b) in zip(want, batches(urls, ops, seed=6)))
    with stoker.Loader(urls, FIELDS, batch_size=16, seed=5, shuffle=True, batch_ops=ops) as loader:
        running = iter(loader)
        next(running)
        next(running)
        state = loader.state_dict()
        rest = [as_numpy(b["image"]).copy() for b in running]
        loader.load_state_dict(state)
        assert all((as_numpy(b["image"]) == x).all() for b, x in zip(loader, rest, strict=True))
        assert all((x == b["image"]).all() for x, (_, b) in zip(rest, want[2:], strict=True))
    with stoker.Loader(urls, FIELDS, batch_size=16, seed=5, shuffle=True) as other, pytest.raises(stoker.StokerError, match="batch_ops"):
        other.load_state_dict(state)


def test_ranks_draw_the_same_and_mix_their_own(urls):
    ops = ["mixup(image, label)"]
    lams = []
    for rank in range(2):
        plain, mixed = (batches(urls, o, rank=rank, world_size=2) for o in (None, ops))
        for (_, a), (_, b) in zip(plain, mixed, strict=True):
            y, z = a["label"], b["label"]
            found = [float(z[i][y[i].argmax()]) for i in range(len(y)) if y[i].argmax() != partners(y)[i].argmax()]
            lams.append(round(found[0], 5) if found else None)
    half = len(lams) // 2
    assert [a == b for a, b in zip(lams[:half], lams[half:]) if None not in (a, b)].count(False) == 0


def test_distribution_of_lam(tmp_path):
    """Against NumPy's beta by moments and the mean of |2 lam - 1|, for small and large alpha."""
    n = 3000
    data = {"x": np.array([[1, 0], [0, 1]] * n, np.float32), "y": np.array([[1, 0], [0, 1]] * n, np.float32)}
    for alpha in (0.1, 0.4, 0.8, 1.0, 3.0):
        with stoker.Loader(data, batch_size=2, batch_ops=[f"mixup(x, y, alpha={alpha})"]) as loader:
            lam = np.array([as_numpy(b["y"])[0, 0] for b in loader], np.float64)
        want = np.random.default_rng(1).beta(alpha, alpha, 200_000)
        assert abs(lam.mean() - 0.5) < 4 * want.std() / math.sqrt(n)
        assert abs(lam.var() - want.var()) < 4 * np.std((want - 0.5) ** 2) / math.sqrt(n)
        assert abs(np.abs(2 * lam - 1).mean() - np.abs(2 * want - 1).mean()) < 4 * np.abs(2 * want - 1).std() / math.sqrt(n)


def test_switch_p_and_smoothing(urls):
    plain = batches(urls)
    for (_, a), (_, b) in zip(plain, batches(urls, ["mixup(image, label, p=0)"]), strict=True):
        assert (a["image"] == b["image"]).all() and (a["label"] == b["label"]).all()
    smooth = batches(urls, "label_smoothing(label, 0.2)")
    assert np.allclose(smooth[0][1]["label"], plain[0][1]["label"] * 0.8 + 0.02, atol=1e-7)
    both = batches(urls, ["mixup(image, label)", "label_smoothing(label, 0.2)"])
    mixed = batches(urls, "mixup(image, label)")
    assert np.allclose(both[0][1]["label"], mixed[0][1]["label"] * 0.8 + 0.02, atol=1e-6)
    always = batches(urls, "mixup_cutmix(image, label, switch=1)")
    assert all((z["image"] == np.where(z["image"] == a["image"], a["image"], partners(a["image"]))).all()
               for (_, a), (_, z) in zip(plain, always))


@pytest.mark.parametrize("ops, fields, says", [
    ("mixup(image, label)", {"image": IMAGE, "label": "from(cls) | int"}, r"mixing needs soft labels: add one_hot\(classes\)"),
    ("mixup(image, label)", {"image": IMAGE, "label": "from(json) | json(n) | float"}, "one number per sample"),
    ("mixup(picture, label)", FIELDS, "there is no output picture: the outputs are image, label"),
    ("mixup(image, labels)", FIELDS, "there is no output labels"), ("mixup(image)", FIELDS, "`label` must be given"),
    ("mix_up(image, label)", FIELDS, "did you mean `mixup`"), ("mixup(image, label, alpha=0)", FIELDS, "mixup: alpha is 0: nothing is ever mixed"),
    ("mixup_cutmix(image, label, mixup=0, cutmix=0)", FIELDS, "mixup and cutmix are 0"), ("cutmix(image, label, alpha=-1)", FIELDS, r"cutmix: alpha=-1 is not in 0..1000"),
    ("mixup_cutmix(image, label, switch=2)", FIELDS, r"mixup_cutmix: switch=2 is not in 0..1"), ("mixup(image, label, mode=row)", FIELDS, "mode is batch, pair or elem, not row"),
    ("mixup(image, label)", {**FIELDS, "label": FIELDS["label"] + " | to(f64)"}, r"label has f64 numbers: add to\(f32\)"),
    ("mixup(image, label, alpha=nan)", FIELDS, "mixup"), ("mixup(image, label, mode=all)", FIELDS, "mode is batch, pair or elem"),
    ("mixup(image, label, p=2)", FIELDS, "mixup: p=2 is not in 0..1"), ("cutmix(label, label)", FIELDS, "cuts boxes out of pictures"),
    ("mixup(image, label)", {**FIELDS, "image": "from(jpg) | image | resize((8, 8))"}, r"add to\(f32\)"),
    ("label_smoothing(label, 1)", FIELDS, "not in 0..1"), ("mixup(image, label) |", FIELDS, "chain|mixup"), ("hflip", FIELDS, "no op on batches"),
    (7, FIELDS, "a list of texts and functions, not 7"), ([7], FIELDS, "one of them is 7"), ([""], FIELDS, "one of them is ''"),
    ([dict, "mixup(image, label)"], FIELDS, "comes after a function"),
])
def test_ops_that_make_no_sense(urls, ops, fields, says):
    with pytest.raises(stoker.StokerError, match=says) as e:
        stoker.Loader(urls, fields, batch_size=4, batch_ops=ops)
    assert "\n" not in str(e.value)


# ---- functions -----------------------------------------------------------------------------------

def add_twice(batch):
    return {**batch, "twice": batch["label"] * 2}


@pytest.mark.parametrize("workers", [0, 2])
def test_functions(urls, workers):
    fields = {**LABEL, "text": "from(txt) | text"}
    with stoker.Loader(urls, fields, batch_size=8, shuffle=True, num_workers=workers, batch_ops=[add_twice, lambda b: {**b, "n": len(b["text"])}]) as loader:
        assert len(loader) == 13
        seen = []
        for batch in loader:
            assert isinstance(batch, stoker.Batch) and list(batch) == ["label", "text", "twice", "n"]
            assert (as_numpy(batch["twice"]) == 2 * as_numpy(batch["label"])).all() and batch["n"] == len(batch.sample_keys)
            assert [int(i) for i in batch.sample_ids] == [int(k) for k in batch.sample_keys] and as_numpy(batch.valid).all()
            seen += [int(i) for i in batch.sample_ids]
        assert sorted(seen) == list(range(SAMPLES)) and loader.epoch == 1
        pairs = [(as_numpy(x).tolist(), as_numpy(y).tolist()) for x, y in loader.as_tuples("label", "twice")]
        assert all(y == [2 * v for v in x] for x, y in pairs) and len(pairs) == 13
        with pytest.raises(stoker.StokerError, match="no output 'thrice'"):
            next(iter(loader.as_tuples("thrice")))


def test_functions_run_ahead_and_the_state_does_not(urls):
    names, made = set(), []

    def note(batch):
        names.add(threading.current_thread().name)
        made.append(int(batch.sample_ids[0]))
        return batch

    with stoker.Loader(urls, LABEL, batch_size=4, prefetch=6, num_workers=2, batch_ops=[note]) as loader:
        running = iter(loader)
        next(running)
        for _ in range(1200):
            if len(made) >= 5:
                break
            time.sleep(0.05)
        assert len(made) >= 5 and names == {"stoker-batch-ops"}
        state = loader.state_dict()
        assert state["position"] == 4
        rest = [as_numpy(b.sample_ids).tolist() for b in running]
        loader.load_state_dict(state)
        assert [as_numpy(b.sample_ids).tolist() for b in loader] == rest
        made.clear()
        loader.set_epoch(7)
        assert len(list(loader)) == 25 and loader.epoch == 8


def test_a_function_that_raises_names_itself_and_the_step(urls):
    calls = []

    def third_fails(batch):
        calls.append(1)
        if int(batch.sample_ids[0]) == 20:
            raise KeyError("no such word")
        return batch

    for workers in (0, 2):
        with stoker.Loader(urls, LABEL, batch_size=10, num_workers=workers, batch_ops=[third_fails]) as loader:
            with pytest.raises(stoker.StokerError, match=r"the function .*third_fails, in epoch 0, step 2, raised KeyError: 'no such word'") as e:
                list(loader)
            cause = e.value.__cause__
            assert isinstance(cause if isinstance(cause, KeyError) else cause.__cause__, KeyError)
        with stoker.Loader(urls, LABEL, batch_size=10, num_workers=workers, batch_ops=[lambda b: None]) as loader, \
                pytest.raises(stoker.StokerError, match="<lambda>, in epoch 0, step 0, returned None: return the batch"):
            next(iter(loader))


def test_closing_and_forgetting(urls):
    def slow(batch):
        time.sleep(0.05)
        return batch

    loader = stoker.Loader(urls, LABEL, batch_size=2, num_workers=2, batch_ops=[slow])
    next(iter(loader))
    loader.close()
    loader = stoker.Loader(urls, LABEL, batch_size=2, num_workers=2, batch_ops=[slow])
    next(iter(loader))
    gone = weakref.ref(loader)
    del loader
    gc.collect()
    assert gone() is None
    for _ in range(1200):
        if not any(t.name == "stoker-batch-ops" for t in threading.enumerate()):
            break
        time.sleep(0.05)
    assert not any(t.name == "stoker-batch-ops" for t in threading.enumerate())


def test_a_process_ends_in_the_middle(urls):
    check_python("""
        import sys, stoker
        loader = stoker.Loader(sys.argv[1], {"label": "from(cls) | int"}, batch_size=2, batch_ops=[lambda b: b])
        next(iter(loader))
        print("over")
    """, urls)


def test_ledger_and_mixing_with_functions(urls, tmp_path):
    with stoker.Loader(urls, FIELDS, batch_size=10, batch_ops=["mixup(image, label)", lambda b: {**b, "sum": b["label"].sum()}]) as loader:
        loader.ledger(tmp_path / "ledger")
        assert all(math.isclose(float(b["sum"]), 10, abs_tol=1e-4) for b in loader)
        assert loader.preview(2) is not None and "hflip" not in str(loader.explain(0))
