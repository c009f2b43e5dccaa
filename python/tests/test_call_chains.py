# SPDX-License-Identifier: Apache-2.0
"""call beside to, normalize and views: the same bits however many workers, threads or processes."""

import io

import numpy as np
import pytest
from call_functions import add_noise, as_it_is, halves, invert, means, move, slow
from call_ways import all_of, check_ways, same
from conftest import SAMPLES, as_numpy, write_tar
from PIL import Image

import stoker

pytestmark = pytest.mark.usefixtures("forked")
from stoker import _diagnosis

def chain():
    return stoker.from_("jpg").image()


# ---- after to and normalize --------------------------------------------------------------------------

@pytest.mark.parametrize("last", [("f32",), ("f16", "hwc"), ("u8",)])
def test_numbers_as_a_batch_has_them(urls, last):
    plain = chain().random_resized_crop(12).to(*last)
    made = check_ways(urls, {"x": plain.call(halves)})
    for (_, a), (_, b) in zip(all_of(urls, {"x": plain}), made, strict=True):
        assert a["x"].dtype == b["x"].dtype and np.array_equal(halves(a["x"]), b["x"])


@pytest.mark.asan
def test_after_normalize_and_erasing(urls):
    plain = chain().resize((10, 8)).normalize("imagenet").random_erasing(p=1.0)
    given = all_of(urls, {"x": plain})
    for (_, a), (_, b) in zip(given, all_of(urls, {"x": plain.call(halves).call(halves).to("f64")}, num_workers=2), strict=True):
        assert b["x"].dtype == np.float64 and np.array_equal(halves(halves(a["x"])).astype("f8"), b["x"])
    check_ways(urls, {"x": plain.to("f32").call(add_noise)})


def test_numbers_of_one_channel_and_of_other_sizes(urls):
    gray = stoker.from_("jpg").image(mode="gray")
    with stoker.Loader(urls, {"x": gray.to("f32").call(halves)}, num_workers=1, collate="list") as loader, \
            stoker.Loader(urls, {"x": gray.to("f32")}, num_workers=0, collate="list") as plain:
        for a, b in zip(loader, plain, strict=True):
            assert np.array_equal(as_numpy(a["x"][0]), halves(as_numpy(b["x"][0])))


def png(seed):
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 9, (60, 80), np.uint8)).save(out, "PNG")
    return out.getvalue()


def test_indices_after_to(tmp_path):
    write_tar(tmp_path / "a.tar", [(f"{i}.png", png(i)) for i in range(4)])
    index = stoker.from_("png").image(mode="index").resize((6, 6), interpolation="nearest").to("i64")
    for (_, a), (_, b) in zip(all_of(str(tmp_path / "a.tar"), {"x": index}),
                              all_of(str(tmp_path / "a.tar"), {"x": index.call(halves)}), strict=True):
        assert b["x"].dtype == np.int64 and np.array_equal(halves(a["x"]), b["x"])


def test_numbers_after_to(urls):
    made = all_of(urls, {"x": stoker.from_("cls").int().to("f32").call(halves)}, shuffle=False, num_workers=1)
    assert made[0][1]["x"].dtype == np.float32 and made[0][1]["x"].tolist() == [(i % 10) / 2 for i in range(16)]


# ---- what takes the time -------------------------------------------------------------------------------

@pytest.mark.parametrize("workers", [0, 2])
def test_diagnose_names_the_function(urls, workers):
    fields = {"x": chain().resize((8, 8)).call(invert).call(slow).to("u8"), "t": stoker.from_("txt").text().call(as_it_is)}
    with stoker.Loader(urls, fields, batch_size=4, num_workers=workers) as loader:
        batches = iter(loader)
        next(batches)
        loader.diagnose()
        for _ in range(6):
            next(batches)
        sight = _diagnosis.sight(loader._core, loader._calls)
        found = loader.diagnose()
        text = loader.report()
    assert found.function == "call_functions.slow"
    slept = 0.9 * 28 * 0.02                             # clocks differ a little
    assert sight["busy_s"]["python"] >= slept and sight["functions"]["call_functions.slow"] >= slept
    if found.cause == "python":                         # on a busy machine it may be that others take the cores
        assert "% of their time in call(call_functions.slow)" in str(found) and "stoker.op" in found.remedy
    assert text


def test_what_diagnose_says_of_it():
    zero = {"at_s": 0.0, "steps": 0.0, "cores": 2.0, "workers": 2.0, "busy_s": {}, "functions": {"m.slow": 1.0, "m.quick": 5.0}}
    then = {"at_s": 10.0, "steps": 100.0, "samples": 800.0, "wait_s": 9.0, "start_s": 0.0, "cores": 2.0, "workers": 2.0,
            "busy_s": {"python": 18.0, "augmentation": 1.0}, "functions": {"m.slow": 18.0, "m.quick": 6.0}}
    found = _diagnosis.diagnose([zero], [then], "photos")
    assert found.cause == "python" and found.function == "m.slow"
    assert str(found).startswith("bound by Python: workers spend 95 % of their time in call(m.slow), the loop waits for 90 %")
    del zero["functions"], then["functions"]
    found = _diagnosis.diagnose([zero], [then], "photos")
    assert found.function is None and "bound by the data set's Python" in str(found)


# ---- views -------------------------------------------------------------------------------------------

@pytest.mark.asan
def test_a_function_on_each_view(urls):
    plain = chain().views(3).random_resized_crop(12).hflip()
    made = check_ways(urls, {"x": plain.call(invert).color_jitter(0.4).to("u8", "hwc")})
    assert made[0][1]["x"].shape == (16, 3, 12, 12, 3)
    given = all_of(urls, {"x": plain.to("u8", "hwc")})
    turned = all_of(urls, {"x": plain.call(invert).to("u8", "hwc")}, num_workers=2)
    for (_, a), (_, b) in zip(given, turned, strict=True):
        assert np.array_equal(255 - a["x"], b["x"])


def test_views_draw_by_themselves(urls):
    """Of one picture without other draws: what the function draws differs from view to view."""
    made = check_ways(urls, {"x": chain().resize((8, 30)).views(2).call(move).to("u8", "hwc")})
    differ = [not np.array_equal(row[0], row[1]) for _, b in made for row in b["x"]]
    assert sum(differ) > SAMPLES // 2


def test_steps_after_the_function_draw_for_each_view(urls):
    made = all_of(urls, {"x": chain().views(2).call(invert).random_resized_crop(12).to("u8")}, num_workers=1)
    same(made, all_of(urls, {"x": chain().call(invert).views(2).random_resized_crop(12).to("u8")}, num_workers=1))
    assert any(not np.array_equal(row[0], row[1]) for _, b in made for row in b["x"])


def test_before_views_it_is_called_once(urls):
    seen = []

    def count(image):
        seen.append(image.shape)
        return invert(image)

    views = chain().resize((20, 20)).call(count).views(4).random_crop(8)
    made = all_of(urls, {"x": views.to("u8", "hwc")})
    assert len(seen) == SAMPLES
    plain = all_of(urls, {"x": chain().resize((20, 20)).call(as_it_is).views(4).random_crop(8).to("u8", "hwc")})
    for (_, a), (_, b) in zip(plain, made, strict=True):
        assert np.array_equal(255 - a["x"], b["x"])
    check_ways(urls, {"x": chain().resize((20, 30)).call(move).views(2).random_crop(8).call(move).to("f32")})


def test_five_crops_and_numbers_of_views(urls):
    made = check_ways(urls, {"x": chain().resize((20, 20)).five_crop(8).call(invert).to("u8", "hwc"),
                             "m": chain().resize((20, 20)).five_crop(8).call(means, dtype="f32", shape=3).to("f64"),
                             "f": chain().resize((20, 20)).five_crop(8).normalize("half").call(halves)})
    for _, b in made:
        assert b["m"].shape == (len(b["x"]), 5, 3) and b["m"].dtype == np.float64 and b["f"].shape == b["x"].transpose(0, 1, 4, 2, 3).shape
        assert np.array_equal(b["m"], np.array([[means(255 - v) for v in row] for row in b["x"]]).astype("f4").astype("f8"))
