# SPDX-License-Identifier: Apache-2.0
"""Transform: the loader's pixels, of pictures in memory."""

import io
import pickle

import numpy as np
import pytest
from conftest import picture, write_tar

import stoker

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")
OPS = "random_resized_crop(24) | hflip | normalize(imagenet) | to({})"
SIZES = [(80, 60), (61, 47), (24, 24), (33, 90), (200, 31), (40, 40), (77, 78), (25, 120)]


def png(image):
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="module")
def pictures():
    return [np.asarray(picture(i, *size)) for i, size in enumerate(SIZES)]


@pytest.fixture(scope="module")
def tar(tmp_path_factory):
    path = tmp_path_factory.mktemp("transform") / "a.tar"
    members = [(f"{i:03d}.png", png(picture(i, *size))) for i, size in enumerate(SIZES)]
    return str(write_tar(path, members))


def same(a, b):
    if torch is not None:                       # NumPy has no bfloat16
        a, b = a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)
    return np.array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.asan
@pytest.mark.parametrize("kind", ["u8", "f16", "bf16", "f32", "f32, hwc", "f16, channels_last"])
def test_pixels_are_the_loaders(tar, pictures, kind):
    ops = OPS.format(kind) if kind != "u8" else "random_resized_crop(24) | hflip | to(u8)"
    whole = f"from(png) | image | {ops}"
    loader = stoker.Loader(tar, {"name": "from(png) | bytes", "image": whole}, batch_size=8, seed=11)
    transform = stoker.Transform(whole, seed=11, output=1)
    for epoch, batch in zip(range(3), (next(iter(loader)) for _ in range(3)), strict=False):
        transform.set_epoch(epoch)
        made = transform(pictures)
        assert made.shape == batch["image"].shape and made.dtype == batch["image"].dtype
        assert same(made, batch["image"])
        if torch is not None and "channels_last" in kind:
            assert made.is_contiguous(memory_format=torch.channels_last)


def test_without_image_ops_are_numbered_as_behind_it(tar, pictures):
    loader = stoker.Loader(tar, {"png": f"image | {OPS.format('f32')}"}, batch_size=8, seed=2)
    assert same(stoker.Transform(OPS.format("f32"), seed=2)(pictures), next(iter(loader))["png"])
    built = stoker.image().random_resized_crop(24).hflip().normalize("imagenet").to("f32")
    assert same(stoker.Transform(built, seed=2)(pictures), next(iter(stoker.Loader(
        tar, {"png": built}, batch_size=8, seed=2)))["png"])


def test_shuffled_positions_can_be_given(tar, pictures):
    loader = stoker.Loader(tar, {"png": f"image | {OPS.format('f32')}"}, batch_size=3, seed=4, shuffle=True)
    transform = stoker.Transform(OPS.format("f32"), seed=4)
    for step, batch in enumerate(loader):
        rows = [pictures[i] for i in batch.sample_ids.tolist()]
        made = transform(rows, positions=[3 * step + i for i in range(len(rows))], epoch=0)
        assert same(made, batch["png"])
    assert transform.position == 0              # given ones do not count


def test_positions_count_up_over_calls(pictures):
    together = stoker.Transform(OPS.format("f32"), seed=1)(pictures)
    transform = stoker.Transform(OPS.format("f32"), seed=1)
    first = transform(pictures[:3])
    state = transform.state_dict()
    again = pickle.loads(pickle.dumps(transform))
    rest = transform(pictures[3:])
    assert same(first, together[:3]) and same(rest, together[3:])
    assert same(again(pictures[3:]), together[3:])
    other = stoker.Transform(OPS.format("f32"), seed=1)
    other.load_state_dict(state)
    assert same(other(pictures[3:]), together[3:])
    transform.set_epoch(0)
    assert same(transform(pictures), together)


@pytest.mark.asan
def test_layouts_are_one(pictures):
    same_size = np.stack([np.asarray(picture(i, 50, 40)) for i in range(20)])
    want = stoker.Transform(OPS.format("f32"), num_workers=1)(list(same_size))
    nchw = np.ascontiguousarray(same_size.transpose(0, 3, 1, 2))
    padded = np.zeros((20, 40, 64, 3), np.uint8)
    padded[:, :, :50] = same_size
    given = [same_size, nchw, padded[:, :, :50], nchw.transpose(0, 2, 3, 1)]
    if torch is not None:
        given += [torch.from_numpy(nchw), torch.from_numpy(same_size),
                  torch.from_numpy(nchw).contiguous(memory_format=torch.channels_last)]
        given += [list(torch.from_numpy(nchw))]
    for batch in given:
        for workers in (1, 3):
            assert same(stoker.Transform(OPS.format("f32"), num_workers=workers)(batch), want)


def test_what_could_be_either_layout():
    batch = np.random.default_rng(0).integers(0, 256, (2, 3, 5, 3), np.uint8)
    assert stoker.Transform("hflip(p=0) | to(u8)")(batch).shape == (2, 3, 3, 5)
    assert stoker.Transform("hflip(p=0) | to(u8)", layout="chw")(batch).shape == (2, 3, 5, 3)
    if torch is not None:
        assert stoker.Transform("hflip(p=0) | to(u8)")(torch.from_numpy(batch)).shape == (2, 3, 5, 3)


def test_sizes_that_the_chain_does_not_fix(pictures):
    transform = stoker.Transform("resize(20) | hflip(p=1) | to(u8, hwc)")
    made = transform(pictures)
    assert isinstance(made, list) and [min(m.shape[:2]) for m in made] == [20] * len(pictures)
    batch = np.stack([np.asarray(picture(i, 50, 40)) for i in range(3)])
    assert transform(batch).shape == (3, 20, 25, 3)
    identity = stoker.Transform("hflip(p=1) | to(u8, hwc)")(batch)
    assert np.array_equal(np.asarray(identity), batch[:, :, ::-1])


def test_gray_and_pillow_and_empty(pictures):
    gray = pictures[0][:, :, 1]
    [three] = stoker.Transform("to(u8)")([gray])
    assert all(np.array_equal(np.asarray(three[c]), gray) for c in range(3))
    [from_pillow] = stoker.Transform("to(u8, hwc)")([picture(0, *SIZES[0])])
    assert np.array_equal(np.asarray(from_pillow), pictures[0])
    assert stoker.Transform(OPS.format("f32"))([]).shape == (0, 3, 24, 24)
    assert stoker.Transform(OPS.format("f32"))(np.empty((0, 9, 9, 3), np.uint8)).shape == (0, 3, 24, 24)
    assert stoker.Transform("hflip")([]) == []


def test_the_given_batch_is_not_changed(pictures):
    before = pictures[0].copy()
    stoker.Transform("hflip(p=1) | to(u8)")([pictures[0]])
    assert np.array_equal(before, pictures[0])


@pytest.mark.parametrize("given, said", [
    (np.zeros((2, 8, 8, 3), np.float32), "the batch is float32: a transform takes pixels as they were decoded"),
    (np.zeros((8, 8, 3), np.uint8), "a batch has four dimensions"),
    (np.zeros((2, 8, 8, 4), np.uint8), r"the batch has the shape \(2, 8, 8, 4\): pictures have 3 channels"),
    ([np.zeros((8, 8, 3), np.uint8), np.zeros((8, 8, 3), np.int32)], "picture 1 is int32"),
    ([np.zeros((8, 8, 5), np.uint8)], "picture 0 has the shape"),
    ([np.zeros(8, np.uint8)], r"picture 0 has the shape \(8,\)"),
    ([np.zeros((0, 8, 3), np.uint8)], "picture 0: it is 8x0"),
    ("text", "the batch is str"),
    (None, "the batch is NoneType"),
])
def test_bad_pictures(given, said):
    with pytest.raises(ValueError, match=said):
        stoker.Transform(OPS.format("f32"))(given)


def test_bad_arguments(pictures):
    for chain, said in (("resise(8)", "did you mean `resize`"), ("from(jpg) | int", "decoded pictures"),
                        (5, "a chain is text"), ("", "chain")):
        with pytest.raises(ValueError, match=said):
            stoker.Transform(chain)
    with pytest.raises(ValueError, match="layout must be"):
        stoker.Transform("hflip", layout="nchw")
    with pytest.raises(ValueError, match="seed"):
        stoker.Transform("hflip", seed=-1)
    transform = stoker.Transform("hflip")
    for positions in ([1], [1.5] * 8, [-1] * 8, "x"):
        with pytest.raises(ValueError, match="positions must be 8 whole numbers"):
            transform(pictures, positions=positions)
    with pytest.raises(ValueError, match="epoch"):
        transform(pictures, epoch=2**32)


def test_gpu_arrays_of_others_say_what_to_do(pictures):
    class Cupy:
        __cuda_array_interface__ = {}

    with pytest.raises(NotImplementedError, match=r"the batch is Cupy on a GPU: give torch\.from_dlpack\(\) of it"):
        stoker.Transform("hflip")(Cupy())
    with pytest.raises(NotImplementedError, match="picture 1 is Cupy on a GPU"):
        stoker.Transform("hflip")([pictures[0], Cupy()])


def test_a_core_that_was_never_opened():
    core = stoker._stoker.Transform.__new__(stoker._stoker.Transform)
    for call in (core.info, lambda: core.sizes(0, [], b""), lambda: core.run(0, [], b"", bytearray(), bytes(8)),
                 lambda: core.run_gpu(0, b"", b"", (0, 0), bytes(8), (0, 0))):
        with pytest.raises(RuntimeError, match="never opened"):
            call()


@pytest.mark.parametrize("mode", ["gray", "index"])
def test_one_channel_is_the_loaders(mode):
    """It was left out of account: pixels came in color."""
    with pytest.raises(stoker.StokerError, match="image.mode=.* works in a loader; grayscale"):
        stoker.Transform(f"from(png) | image(mode={mode}) | hflip")


@pytest.mark.parametrize("ops", ["views(3) | random_resized_crop(24) | hflip | color_jitter(0.4) | to(f16, channels_last)",
                                 "color_jitter(0.4) | views(2) | random_resized_crop((9, 17)) | to(u8, hwc)", "resize((30, 30)) | five_crop(8) | to(u8)"])
def test_views_are_the_loaders(tar, pictures, ops):
    whole = f"from(png) | image | {ops}"
    loader = stoker.Loader(tar, {"name": "from(png) | bytes", "image": whole}, batch_size=8, seed=5)
    transform = stoker.Transform(whole, seed=5, output=1)
    for epoch, batch in zip(range(2), (next(iter(loader)) for _ in range(2)), strict=False):
        transform.set_epoch(epoch)
        made = transform(pictures)
        assert made.shape == batch["image"].shape and same(made, batch["image"])
        assert transform.position == len(pictures)
    assert transform([]).shape == (0, *made.shape[1:])
