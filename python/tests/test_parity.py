# SPDX-License-Identifier: Apache-2.0
"""The whole image path against Pillow: decode, crop, resize, flip, normalise."""

import io

import numpy as np
import pytest
from conftest import as_numpy, jpeg, picture, write_tar
from PIL import Image

import stoker

BILINEAR = Image.Resampling.BILINEAR
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


@pytest.fixture(scope="module")
def files():
    """JPEGs of many kinds: sizes, subsampling, gray, CMYK, progressive, quality."""
    out = []
    for i, size in enumerate([(80, 60), (61, 97), (256, 256), (301, 203), (33, 400), (17, 19)]):
        for options in ({"subsampling": 0}, {"subsampling": 2}, {"progressive": True}, {"quality": 60}):
            out.append(jpeg(picture(i, *size), **options))
    out.append(jpeg(picture(90, 120, 90).convert("L")))
    out.append(jpeg(picture(91, 120, 90).convert("CMYK")))
    return out


@pytest.fixture(scope="module")
def shard(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("parity") / "p.tar"
    return write_tar(path, [(f"{i:04d}.jpg", data) for i, data in enumerate(files)])


def loaded(shard, chain, **options):
    with stoker.Loader(shard, {"x": "from(jpg) | image" + chain}, **options) as loader:
        return [as_numpy(row).copy() for b in loader for row in b["x"]]


def opened(files):
    return [Image.open(io.BytesIO(f)).convert("RGB") for f in files]


def chw(image):
    return np.asarray(image).transpose(2, 0, 1)


def close(found, want, levels=1):
    """Within `levels` of 255, over every picture."""
    assert len(found) == len(want)
    for i, (a, b) in enumerate(zip(found, want, strict=True)):
        assert a.shape == b.shape, i
        worst = np.abs(a.astype(np.float64) - b.astype(np.float64)).max()
        assert worst <= levels, f"picture {i}: {worst}"


def test_decode_is_pillows(shard, files):
    close(loaded(shard, " | to(u8)"), [chw(i) for i in opened(files)], levels=0)


@pytest.mark.asan
@pytest.mark.parametrize("size", [(32, 32), (40, 25), (300, 300), (7, 5)])
def test_resize(shard, files, size):
    found = loaded(shard, f" | resize({size}) | to(u8)", batch_size=4)
    close(found, [chw(i.resize(size[::-1], BILINEAR)) for i in opened(files)])


def test_resize_shorter_side_then_center_crop(shard, files):
    def both(image):
        w, h = image.size
        short = 48
        w, h = (short, int(short * h / w)) if w <= h else (int(short * w / h), short)
        image = image.resize((w, h), BILINEAR)
        x, y = int(round((w - 40) / 2.0)), int(round((h - 40) / 2.0))
        return image.crop((x, y, x + 40, y + 40))

    close(loaded(shard, " | resize(48) | center_crop(40) | to(u8)", batch_size=4),
          [chw(both(i)) for i in opened(files)])


def test_center_crop_then_resize(shard, files):
    def both(image):
        w, h = image.size
        x, y = int(round((w - 16) / 2.0)), int(round((h - 16) / 2.0))
        return image.crop((x, y, x + 16, y + 16)).resize((24, 24), BILINEAR)

    close(loaded(shard, " | center_crop(16) | resize((24, 24)) | to(u8)", batch_size=4),
          [chw(both(i)) for i in opened(files)])


def test_hflip(shard, files):
    plain = loaded(shard, " | resize((20, 30)) | to(u8)", batch_size=4)
    close(loaded(shard, " | resize((20, 30)) | hflip(p=1) | to(u8)", batch_size=4),
          [p[:, :, ::-1] for p in plain], levels=0)
    close(loaded(shard, " | resize((20, 30)) | hflip(p=0) | to(u8)", batch_size=4), plain, levels=0)


def test_normalize_and_types(shard, files):
    want = [(chw(i.resize((32, 32), BILINEAR)) / 255 - MEAN[:, None, None]) / STD[:, None, None]
            for i in opened(files)]
    step = 1.01 / 255 / STD.min()
    close(loaded(shard, " | resize((32, 32)) | normalize(imagenet) | to(f32)", batch_size=4), want, step)
    close(loaded(shard, " | resize((32, 32)) | normalize(imagenet) | to(f16)", batch_size=4), want,
          step + 0.003)
    plain = [chw(i.resize((32, 32), BILINEAR)) / 255 for i in opened(files)]
    close(loaded(shard, " | resize((32, 32)) | to(f32)", batch_size=4), plain, 1.01 / 255)
    close(loaded(shard, " | resize((32, 32)) | to(f32, scale=false)", batch_size=4),
          [p * 255 for p in plain], 1.01)


def test_bfloat16_bits(shard):
    exact = np.stack(loaded(shard, " | resize((32, 32)) | to(f32)", batch_size=4))
    bits = np.stack(loaded(shard, " | resize((32, 32)) | to(bf16)", batch_size=4)).view(np.uint16)
    found = (bits.astype(np.uint32) << 16).view(np.float32)
    assert np.abs(found - exact).max() <= 2.0**-8


@pytest.mark.asan
def test_random_resized_crop_shows_a_part_of_the_picture(tmp_path):
    """A picture whose pixels say where they are: the crop that was drawn is read back from the
    output's corners and compared with Pillow's crop().resize() of that box."""
    ramp = np.zeros((200, 240, 3), np.uint8)
    ramp[..., 0] = np.arange(240)[None, :]
    ramp[..., 1] = np.arange(200)[:, None]
    ramp[..., 2] = 128
    image = jpeg(Image.fromarray(ramp), quality=100, subsampling=0)
    path = write_tar(tmp_path / "ramp.tar", [(f"{i:03d}.jpg", image) for i in range(60)])
    chain = " | random_resized_crop(64, scale=(0.2, 1)) | to(f32, scale=false)"
    crops = loaded(path, chain, batch_size=12)
    sizes = []
    for crop in crops:
        x, y = crop[0].mean(axis=0), crop[1].mean(axis=1)   # source column and row of each output
        kx, ky = (x[-5] - x[4]) / (63 - 8), (y[-5] - y[4]) / (63 - 8)
        left, right = x[4] - 4.5 * kx + 0.5, x[-5] + 4.5 * kx + 0.5
        top, bottom = y[4] - 4.5 * ky + 0.5, y[-5] + 4.5 * ky + 0.5
        box = tuple(int(round(float(v))) for v in (left, top, right, bottom))
        assert 0 <= box[0] < box[2] <= 240 and 0 <= box[1] < box[3] <= 200
        want = chw(Image.open(io.BytesIO(image)).convert("RGB").crop(box).resize((64, 64), BILINEAR))
        assert np.abs(crop - want).max() <= 2.5, box
        area = (box[2] - box[0]) * (box[3] - box[1]) / (240 * 200)
        ratio = (box[2] - box[0]) / (box[3] - box[1])
        assert 0.18 <= area <= 1 and 0.73 <= ratio <= 1.37
        sizes.append(area)
    assert max(sizes) - min(sizes) > 0.4 and len({round(s, 3) for s in sizes}) > 50


def test_hflip_is_a_fair_coin(shard, files):
    plain = loaded(shard, " | resize((16, 16)) | to(u8)", batch_size=4)
    flipped = total = 0
    with stoker.Loader(shard, {"x": "from(jpg) | image | resize((16, 16)) | hflip | to(u8)"},
                       batch_size=4, seed=11) as loader:
        for _ in range(20):
            rows = [as_numpy(r).copy() for b in loader for r in b["x"]]
            for row, want in zip(rows, plain, strict=True):
                turned = (row == want[:, :, ::-1]).all()
                assert turned or (row == want).all()
                flipped, total = flipped + turned, total + 1
    assert abs(flipped / total - 0.5) < 4 * 0.5 / total**0.5, f"{flipped} of {total}"


def smooth(seed, width, height):
    """A picture like a photograph's: few clamped colors, detail at all scales."""
    rng = np.random.default_rng(seed)
    out = np.zeros((height, width, 3))
    for scale in (4, 8, 16, 32, 64):
        small = rng.normal(0, scale / 3, (height // scale + 2, width // scale + 2, 3))
        big = [Image.fromarray(small[..., c].astype(np.float32)).resize((width, height), BILINEAR)
               for c in range(3)]
        out += np.stack([np.asarray(b) for b in big], -1)
    return Image.fromarray(np.clip(out + 128, 0, 255).astype(np.uint8))


def test_pictures_are_within_one_of_pillow(tmp_path):
    files = [jpeg(smooth(s, 300 + 7 * s, 220 + 5 * s), quality=90, subsampling=s % 3) for s in range(9)]
    shard = write_tar(tmp_path / "s.tar", [(f"{i:04d}.jpg", data) for i, data in enumerate(files)])
    close(loaded(shard, " | resize((96, 96)) | to(u8)"), [chw(i.resize((96, 96), BILINEAR)) for i in opened(files)])


def test_exact_is_the_only_way(tmp_path, caplog):
    """exact=false warns and gives the same pixels; a state with the old default's fingerprint is refused with that reason."""
    shard = write_tar(tmp_path / "s.tar", [(f"{i:04d}.jpg", jpeg(smooth(i, 90, 80))) for i in range(4)])
    made, states, old = {}, {}, {}
    for way in ("image", "image(exact=true)", "image(exact=false)"):
        caplog.clear()
        with stoker.Loader(shard, {"x": f"from(jpg) | {way} | resize((16, 16)) | to(u8)"}, batch_size=2) as loader:
            made[way] = [as_numpy(batch["x"]).tobytes() for batch in loader]
            states[way], old[way] = loader.state_dict(), loader._core.chain_old_print(0)
        told = [line for line in caplog.messages if "image(exact=false) has no effect" in line]
        assert len(told) == ("false" in way)
    assert len(set(map(tuple, made.values()))) == 1
    assert len({state["chains"]["x"] for state in states.values()}) == 1 and len(set(old.values())) == 1
    state = {**states["image"], "chains": {"x": f"{old['image']:016x}"}}
    assert state["chains"] != states["image"]["chains"]
    with stoker.Loader(shard, {"x": "from(jpg) | image | resize((16, 16)) | to(u8)"}, batch_size=2) as loader:
        with pytest.raises(stoker.StokerError, match="the pictures of output 'x' were made without exact=true"):
            loader.load_state_dict(state)
        loader.load_state_dict(states["image(exact=true)"])
