# SPDX-License-Identifier: Apache-2.0
"""Tensors of the extension: capsules old and new, buffer protocol, types, lifetime."""

import gc
import threading
import zlib

import numpy as np
import pytest
from conftest import torch

import stoker

pytestmark = pytest.mark.asan
DTYPES = {"u8": np.uint8, "f16": np.float16, "f32": np.float32, "bf16": np.uint16}


def tensors(urls, chain, **options):
    loader = stoker.Loader(urls, {"x": chain}, batch_size=4, num_workers=0, **options)
    outputs, *_ = loader._core.next(0)
    return outputs[0][2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["chw", "hwc", "channels_last"])
def test_buffer_protocol(urls, dtype, layout):
    tensor = tensors(urls, f"from(jpg) | image | resize((8, 6)) | to({dtype}, layout={layout})")
    array = np.asarray(tensor)
    assert array.dtype == DTYPES[dtype] and array.flags.writeable and tensor.dtype == dtype
    assert array.shape == tensor.shape == ((4, 8, 6, 3) if layout == "hwc" else (4, 3, 8, 6))
    assert array.flags.c_contiguous == (layout != "channels_last")
    if layout == "channels_last":
        assert array.strides[1] == array.itemsize
        with pytest.raises(BufferError, match="strides"):
            zlib.crc32(tensor)          # asks for plain bytes
    else:
        assert zlib.crc32(tensor) == zlib.crc32(array.tobytes())


def test_layouts_show_the_same_picture(urls):
    views = {k: np.asarray(tensors(urls, f"from(jpg) | image | resize((8, 6)) | to(f32, layout={k})"))
             for k in ("chw", "hwc", "channels_last")}
    assert (views["chw"] == views["channels_last"]).all()
    assert (views["chw"] == views["hwc"].transpose(0, 3, 1, 2)).all()


def test_capsules(urls):
    tensor = tensors(urls, "from(jpg) | image | resize((8, 6)) | to(f32)")
    assert tensor.__dlpack_device__() == (1, 0)
    old, new = tensor.__dlpack__(), tensor.__dlpack__(max_version=(1, 0))
    assert '"dltensor"' in repr(old) and '"dltensor_versioned"' in repr(new)
    assert '"dltensor"' in repr(tensor.__dlpack__(max_version=(0, 8)))
    assert '"dltensor_versioned"' in repr(tensor.__dlpack__(max_version=(1, 1), dl_device=(1, 0)))
    with pytest.raises(BufferError):
        tensor.__dlpack__(stream=1)
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError):
        tensor.__dlpack__(max_version=1)
    with pytest.raises(TypeError):
        type(tensor)()


def test_numpy_shares_memory(urls):
    tensor = tensors(urls, "from(jpg) | image | resize((8, 6)) | to(f32)")
    array, packed = np.asarray(tensor), np.from_dlpack(tensor)
    assert np.shares_memory(array, packed) and (array == packed).all()
    assert packed.flags.writeable
    copied = np.from_dlpack(tensor, copy=True)
    assert not np.shares_memory(array, copied) and (array == copied).all()


@pytest.mark.skipif(torch is None, reason="without torch")
@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_shares_memory(urls, dtype):
    for layout in ("chw", "channels_last"):
        tensor = tensors(urls, f"from(jpg) | image | resize((8, 6)) | to({dtype}, layout={layout})")
        value = torch.from_dlpack(tensor)
        want = {"u8": torch.uint8, "f16": torch.float16, "f32": torch.float32,
                "bf16": torch.bfloat16}[dtype]
        assert value.dtype == want and value.data_ptr() == np.asarray(tensor).ctypes.data
        fits = torch.channels_last if layout == "channels_last" else torch.contiguous_format
        assert value.is_contiguous(memory_format=fits)
        old = torch.utils.dlpack.from_dlpack(tensor.__dlpack__())
        copied = torch.utils.dlpack.from_dlpack(tensor.__dlpack__(max_version=(1, 0), copy=True))
        del tensor
        assert torch.equal(value, old) and torch.equal(value, copied)
        assert copied.data_ptr() != value.data_ptr()


def test_capsules_give_memory_back(urls):
    loader = stoker.Loader(urls, {"x": "from(jpg) | image | resize((128, 128)) | to(f32)"},
                           batch_size=10, prefetch=1, memory_limit="8MB")
    for epoch in range(3):      # 10 batches of 2 MB an epoch: each must come back
        for _ in range(len(loader)):
            tensor = loader._core.next(epoch)[0][0][2]
            capsules = [tensor.__dlpack__(), tensor.__dlpack__(max_version=(1, 0)),
                        tensor.__dlpack__(max_version=(1, 0), copy=True)]
            view = memoryview(tensor)
            del tensor, capsules, view
        assert loader._core.next(epoch) is None
    loader.close()


def test_last_holder_may_be_any_thread_after_close(urls):
    loader = stoker.Loader(urls, {"x": "from(jpg) | image | resize((128, 128)) | to(f32)"},
                           batch_size=10)
    held = [np.from_dlpack(loader._core.next(0)[0][0][2]) for _ in range(4)]
    sums = [float(h.sum()) for h in held]
    loader.close()
    del loader
    gc.collect()
    assert [float(h.sum()) for h in held] == sums
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert not held
