# SPDX-License-Identifier: Apache-2.0
"""PNGs of 16 bits: values are kept, or scaled where a chain says so, or the sample is bad and says what to write.  Pillow is the oracle."""

import io
import os
import subprocess

import numpy as np
import pytest
from conftest import as_numpy, write_tar
from PIL import Image, ImageOps

import stoker

pytestmark = [pytest.mark.asan, pytest.mark.skipif("libspng none" in stoker.build_info(), reason="needs libspng")]
RNG = np.random.default_rng(24)


def png(values, **options):
    out = io.BytesIO()
    Image.fromarray(values).save(out, "PNG", **options)
    return out.getvalue()


def depth(w, h):
    """A ramp with noise: all bytes of all values count."""
    ramp = np.linspace(0, 65535, w * h).reshape(h, w)
    return np.clip(ramp + RNG.normal(0, 900, (h, w)), 0, 65535).astype(np.uint16)


SIZES = [(40, 30), (64, 64), (17, 51), (90, 33)]


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    values = [depth(w, h) for w, h in SIZES]
    files = []
    for i, v in enumerate(values):
        rgb = np.stack([v >> 8, v & 255, v >> 4 & 255], -1).astype(np.uint8)
        files += [(f"{i}.depth.png", png(v)), (f"{i}.png", png(rgb)), (f"{i}.gray.png", png(rgb[..., 0]))]
    return write_tar(tmp_path_factory.mktemp("deep") / "a.tar", files), values


@pytest.fixture(scope="module")
def mild(tmp_path_factory):
    """Values far from both ends: no filter leaves 16 bits."""
    values = [depth(w, h) // 2 + 16000 for w, h in SIZES]
    return write_tar(tmp_path_factory.mktemp("mild") / "a.tar", [(f"{i}.png", png(v)) for i, v in enumerate(values)]), values


def rows(shard, chains, **options):
    chains = chains if isinstance(chains, dict) else {"x": chains}
    with stoker.Loader(shard, chains, batch_size=1, **options) as loader:
        out = [{name: as_numpy(batch[name][0]).copy() for name in chains} for batch in loader]
    return out if len(chains) > 1 else [row["x"] for row in out]


def test_values_are_kept(shard):
    tar, values = shard
    head = "from(depth.png) | image(mode=gray16)"
    for chain, dtype in (("", np.uint16), ("| to(u16)", np.uint16), ("| to(f32)", np.float32), ("| to(i32)", np.int32), ("| to(i64)", np.int64), ("| to(f64)", np.float64)):
        for got, want in zip(rows(tar, f"{head} {chain}"), values, strict=True):
            assert got.dtype == dtype and got.shape == (1, *want.shape)
            np.testing.assert_array_equal(got[0], want)
    for got, want in zip(rows(tar, f"{head} | to(f32, hwc, scale=true)"), values, strict=True):
        np.testing.assert_allclose(got[..., 0], want / np.float32(65535), rtol=1e-6)
    for got, want in zip(rows(tar, f"{head} | normalize(0.5, 0.25)"), values, strict=True):
        np.testing.assert_allclose(got[0], (want / 65535 - 0.5) / 0.25, atol=1e-5)


def test_bits_8_is_the_high_byte(shard):
    """As Pillow reads 16-bit color; in a set with pictures of 8 bits these stay what they are."""
    tar, values = shard
    for got, want in zip(rows(tar, "from(depth.png) | image(mode=gray, bits=8)"), values, strict=True):
        np.testing.assert_array_equal(got[0], want >> 8)
    for got, want in zip(rows(tar, "from(depth.png) | image(bits=8) | color_jitter(0, 0, 0)"), values, strict=True):
        np.testing.assert_array_equal(got, np.repeat((want >> 8)[None], 3, 0))
    for row in rows(tar, {"a": "from(gray.png) | image(mode=gray, bits=8)", "b": "from(gray.png) | image(mode=gray)"}):
        np.testing.assert_array_equal(row["a"], row["b"])


FILTERS = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}


@pytest.mark.parametrize("size", [(20, 24), (97, 130), (30, 11), (5, 200)])
@pytest.mark.parametrize("name", FILTERS)
def test_resize_is_pillows_of_its_mode(mild, name, size):
    """Pillow clamps the bytes of I;16 one by one, and its nearest of I;16 is another: its floats and its integers are the oracle."""
    tar, values = mild
    for got, v in zip(rows(tar, f"from(png) | image(mode=gray16) | resize({size}, interpolation={name})"), values, strict=True):
        want = np.asarray(Image.fromarray(v.astype(np.int32 if name == "nearest" else np.float32)).resize(size[::-1], FILTERS[name]))
        assert np.abs(got[0] - want).max() <= (0 if name == "nearest" else 1.5), f"{name} {size}"          # rounded between the two passes
        if name == "bilinear":
            assert np.abs(got[0].astype(int) - np.asarray(Image.fromarray(v).resize(size[::-1], FILTERS[name]))).max() <= 1


def test_resize_stays_in_16_bits(shard):
    for got in rows(shard[0], "from(depth.png) | image(mode=gray16) | resize((70, 71), interpolation=lanczos)"):
        assert (got == 0).any() and (got == 65535).any()        # clamped, never wrapped: the ramp's ends are noisy
        assert np.abs(np.diff(got[0].astype(int), axis=0)).max() < 20000


def test_geometry_is_that_of_the_bytes(shard):
    """What only moves pixels does with 16 bits what it does with their two bytes: crops, flips, padding, nearest of all kinds."""
    tar, _ = shard
    for chain in ("center_crop((20, 11)) | hflip(1)", "vflip(1) | pad((3, 4, 5, 6))", "random_crop(16, padding=4)", "pad(6, padding_mode=reflect) | hflip",
                  "pad(5, padding_mode=edge)", "resize((40, 30), interpolation=nearest) | random_crop(20) | hflip", "random_resized_crop(24, interpolation=nearest)",
                  "letterbox((64, 60), interpolation=nearest, fill=0)", "zoom_out((1, 3), p=1, fill=0)", "rotate(30)", "affine(20, translate=(0.2, 0.1), shear=(0, 9))",
                  "perspective(p=1, interpolation=nearest)", "resize((50, 50), interpolation=nearest) | rotate(9) | resize((20, 30), interpolation=nearest)",
                  "random_apply(rotate(40), p=0.5) | one_of(hflip(1), vflip(1))", "views(2) | random_crop(12)"):
        deep, rgb = (rows(tar, f"from({field}) | image{mode} | {chain}", seed=3) for field, mode in (("depth.png", "(mode=gray16)"), ("png", "")))
        for got, by in zip(deep, rgb, strict=True):
            by = by.astype(np.uint16)
            high, low = (by[..., 0, :, :], by[..., 1, :, :])
            np.testing.assert_array_equal(got[..., 0, :, :], high << 8 | low, err_msg=chain)


def test_warps_by_bilinear(shard):
    """Within the bytes' own rounding: of a high byte alone, 16 bits are its 256 times."""
    tar, _ = shard
    for chain in ("rotate(30, interpolation=bilinear)", "perspective(p=1)", "affine(15, scale=(0.6, 1.4), interpolation=bilinear)"):
        deep, rgb = (rows(tar, f"from({field}) | image{mode} | {chain}", seed=3) for field, mode in (("depth.png", "(mode=gray16)"), ("png", "")))
        for got, by in zip(deep, rgb, strict=True):
            assert np.abs(got[0] / 256 - by[0] - 0.5).max() <= 1.01, chain


def test_it_follows_and_leads(shard):
    tar, values = shard
    chains = {"image": "from(png) | image | random_resized_crop(24, interpolation=bicubic) | rotate(20, fill=200) | hflip | color_jitter(0.4, 0.4, 0.4)",
              "geometry": "from(png) | image | like(image, interpolation=nearest, fill=0)",
              "near": "from(depth.png) | image(mode=gray16) | like(image, interpolation=nearest) | to(i64)", "same": "from(depth.png) | image(mode=gray16) | like(image)"}
    for row in rows(tar, chains, seed=2):
        np.testing.assert_array_equal(row["near"][0], row["geometry"][0].astype(np.int64) * 256 + row["geometry"][1])
        assert not np.array_equal(row["near"][0], row["same"][0]) and (row["same"][0] == 0).any()      # outside is 0, not the color 200
    for row, v in zip(rows(tar, {"x": "from(depth.png) | image(mode=gray16) | hflip(1) | pad(2)", "y": "from(png) | image | like(x)"}), values, strict=True):
        np.testing.assert_array_equal(row["x"][0, 2:-2, 2:-2], v[:, ::-1])
        np.testing.assert_array_equal(row["y"][0], row["x"][0] >> 8)


def test_exif_turns(tmp_path):
    v, files = depth(20, 11), []
    for turn in range(1, 9):
        data = Image.Exif()
        data[0x0112] = turn
        files.append((f"{turn}.png", png(v, exif=data)))
    for turn, got in enumerate(rows(write_tar(tmp_path / "e.tar", files), "from(png) | image(mode=gray16, exif=true)"), 1):
        data = Image.open(io.BytesIO(files[turn - 1][1]))
        np.testing.assert_array_equal(got[0], np.asarray(ImageOps.exif_transpose(data)))


def test_functions_and_sizes(shard):
    tar, values = shard
    def half(x):
        return x // 2
    chain = stoker.from_("depth.png").image(mode="gray16").to("u16").call(half)
    with stoker.Loader(tar, {"x": chain}, batch_size=1) as loader:
        for batch, want in zip(loader, values, strict=True):
            np.testing.assert_array_equal(as_numpy(batch["x"][0])[0], want // 2)
    big = png(depth(700, 500))
    got = rows(write_tar(tar.parent / "big.tar", [("0.png", big)]), {"a": "from(png) | image(mode=gray16) | center_crop(300)", "b": "from(png) | image(bits=8)",
                                                                     "c": "from(png) | image(mode=gray16)"})[0]
    np.testing.assert_array_equal(got["c"][0], np.asarray(Image.open(io.BytesIO(big))))
    np.testing.assert_array_equal(got["a"][0], got["c"][0, 100:400, 200:500])
    np.testing.assert_array_equal(got["b"][0], got["c"][0] >> 8)


@pytest.mark.parametrize("chain,says", [
    ("image", "the PNG is gray of 16 bits, which 8 do not hold: image(mode=gray16) keeps its values, image(bits=8) their high byte"),
    ("image(mode=gray)", "image(mode=gray16) keeps its values"),
    ("image(mode=index)", "image(mode=index): the PNG is gray of 16 bits: image(mode=gray16) keeps its values")])
def test_a_bad_sample_says_what_to_write(shard, chain, says):
    tar, _ = shard
    with pytest.raises(stoker.StokerError) as said:
        rows(tar, f"from(depth.png) | {chain}")
    assert says in str(said.value)


@pytest.mark.parametrize("field,says", [("png", "the PNG is color of 8 bits: write image(mode=rgb)"), ("gray.png", "the PNG is gray of 8 bits: write image(mode=gray)"),
                                        ("pal.png", "the PNG is a palette of 8 bits: write image(mode=index)"), ("jpg", "a jpeg has 8 bits"), ("webp", "a webp has 8 bits")])
def test_what_has_8_bits_is_no_gray16(tmp_path, field, says):
    if field == "webp" and "libwebp none" in stoker.build_info():
        pytest.skip("needs libwebp")
    rgb, out = Image.fromarray(RNG.integers(0, 256, (12, 13, 3), dtype=np.uint8)), io.BytesIO()
    picture = {"gray.png": rgb.convert("L"), "pal.png": rgb.quantize(200)}.get(field, rgb)
    picture.save(out, {"jpg": "JPEG", "webp": "WEBP"}.get(field, "PNG"))
    tar = write_tar(tmp_path / "a.tar", [(f"0.{field}", out.getvalue())])
    with pytest.raises(stoker.StokerError) as said:
        rows(tar, f"from({field}) | image(mode=gray16)")
    assert says in str(said.value)


@pytest.mark.parametrize("chain,says", [
    ("image(bits=16)", "image: bits is 8, not 16"), ("image(mode=gray16, bits=8)", "leave one of them out"), ("image(mode=index, bits=8)", "leave one of them out"),
    ("image(mode=gray16) | to(u8)", "to: u8 does not hold 16 bits"), ("image(mode=gray16) | to(i16)", "to: i16 does not hold 16 bits"),
    ("image(mode=gray16) | to(f16)", "to: f16 ends at 65504"), ("image(mode=gray16) | to(scale=true)", "needs a float type"),
    ("image(mode=gray16) | to(i32, scale=true)", "scaled values come as f16, bf16 or f32"),
    *((f"image(mode=gray16) | {op}", f"{op.split('(')[0]} works on pixels of 8 bits") for op in (
        "color_jitter(0.4)", "gaussian_blur(3)", "autocontrast", "posterize(4)", "rand_augment", "jpeg_artifacts(50)", "grayscale(1)", "random_erasing")),
    ("image(mode=gray16) | random_apply(solarize(100), p=0.5)", "solarize works on pixels of 8 bits")])
def test_plans_that_make_no_sense(shard, chain, says):
    with pytest.raises(ValueError) as said:
        stoker.Loader(shard[0], {"x": f"from(depth.png) | {chain}"}, batch_size=1)
    assert says in str(said.value)


def test_a_function_takes_8_bits_or_numbers(shard):
    with pytest.raises(ValueError, match="write to\\(u16\\) or to\\(f32\\) before it"):
        stoker.Loader(shard[0], {"x": stoker.from_("depth.png").image(mode="gray16").call(abs)}, batch_size=1)


def test_pack_check_and_describe(shard, tmp_path):
    tar, values = shard
    assert subprocess.run([os.environ.get("STOKER_CLI", "stoker"), "check", tar], capture_output=True).returncode == 0          # sound files, whatever a chain makes of them
    said = subprocess.run([os.environ.get("STOKER_CLI", "stoker"), "describe", tar, "--json"], capture_output=True, text=True, check=True).stdout
    assert '"bad": 0' in said or '"bad":0' in said or "bad" not in said
    for field, chain in (("png", "from(depth.png) | image(mode=gray16) | center_crop((11, 17)) | encode(png)"), ("png", "from(depth.png) | image(mode=gray16) | to(u16, hwc) | encode(png)")):
        out = tmp_path / f"out{len(chain)}"
        stoker.pack(tar, str(out), fields={field: chain})
        for got, v in zip(rows(str(out), "from(png) | image(mode=gray16)"), values, strict=True):
            h, w = v.shape
            y, x = round((h - 11) / 2), round((w - 17) / 2)
            np.testing.assert_array_equal(got[0], v if "crop" not in chain else v[y:y + 11, x:x + 17])
    with pytest.raises(ValueError, match="to: u8 does not hold 16 bits"):
        stoker.pack(tar, str(tmp_path / "no"), fields={"jpg": "from(depth.png) | image(mode=gray16) | encode(jpeg)"})


def netpbm(kind, values, most):
    return b"P%d\n%d %d\n%d\n" % (kind, values.shape[1], values.shape[0], most) + values.astype(">u2" if most > 255 else np.uint8).tobytes()


@pytest.mark.parametrize("most", [1, 15, 100, 255, 256, 1000, 4095, 40000, 65534, 65535])
def test_ppm_and_pgm_of_any_largest_value(tmp_path, most):
    """As Pillow scales them: colors to 255, gray of more than 8 bits to 65535; values over the largest one count as it."""
    top = 255 if most < 256 else 65535
    values = RNG.integers(0, min(top, most + 3), (37, 53, 3), endpoint=True)
    values[0, :4] = most
    files = [("0.ppm", netpbm(6, values, most)), ("0.pgm", netpbm(5, values[..., 0], most))]
    tar = write_tar(tmp_path / "a.tar", files)
    rgb, gray = (Image.open(io.BytesIO(data)) for _, data in files)
    want = np.asarray(rgb.convert("RGB"))
    np.testing.assert_array_equal(rows(tar, "from(ppm) | image")[0].transpose(1, 2, 0), want)
    np.testing.assert_array_equal(rows(tar, "from(ppm) | image | center_crop((20, 11))")[0].transpose(1, 2, 0), want[8:28, 21:32])
    gray = np.asarray(gray)
    if most > 255:
        assert gray.dtype == np.int32
        np.testing.assert_array_equal(rows(tar, "from(pgm) | image(mode=gray16)")[0][0], gray)
        np.testing.assert_array_equal(rows(tar, "from(pgm) | image(mode=gray16) | center_crop((20, 11))")[0][0], gray[8:28, 21:32])
        np.testing.assert_array_equal(rows(tar, "from(pgm) | image(mode=gray, bits=8)")[0][0], gray >> 8)
        for mode, says in (("", "the PGM is gray of 16 bits, which 8 do not hold: image(mode=gray16)"), ("(mode=index)", "image(mode=gray16) keeps its values")):
            with pytest.raises(stoker.StokerError) as e:
                rows(tar, f"from(pgm) | image{mode}")
            assert says in str(e.value)
    else:
        np.testing.assert_array_equal(rows(tar, "from(pgm) | image")[0], np.repeat(gray[None], 3, 0))
        np.testing.assert_array_equal(rows(tar, "from(pgm) | image(mode=index)")[0], gray)
    for field, says in (("ppm", "a PPM, of colors, with values up to"), *([("pgm", "a PGM with values up to")] if most < 256 else [])):
        with pytest.raises(stoker.StokerError, match=says):
            rows(tar, f"from({field}) | image(mode=gray16)")
    cut = write_tar(tmp_path / "b.tar", [("0.pgm", files[1][1][:-1])])
    with pytest.raises(stoker.StokerError, match="PPM is truncated"):
        rows(cut, "from(pgm) | image(bits=8)")
