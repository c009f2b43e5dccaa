# SPDX-License-Identifier: Apache-2.0
"""Functions in chains and on batches with device="cuda", where there is no GPU: it is tests/gpu/host/hostgpu.c, whose memory is
this process's, without torch.  tests/gpu/real has the same on a real one."""

import os
from pathlib import Path

import pytest
from conftest import check_python

ROOT = Path(__file__).resolve().parents[2]
HOSTGPU = Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve() / "tests/gpu/host/libstoker_hostgpu.so"

CODE = """
import ctypes, json, sys
import numpy as np
sys.path.insert(0, sys.argv[2])
import stoker
from call_functions import shift

class Packed(ctypes.Structure):                 # DLTensor
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

def here(value, gpu):
    if isinstance(value, (str, list)):
        return value
    if not gpu or value.__dlpack_device__()[0] != 2:
        assert not gpu
        return np.asarray(value)
    capsule = value.__dlpack__(stream=1)
    t = Packed.from_address(pointer(capsule, b"dltensor"))
    shape = [t.shape[i] for i in range(t.ndim)]
    kind = {0: "i", 1: "u", 2: "f"}[t.code] + str(t.bits // 8)
    return np.frombuffer(ctypes.string_at(t.data + t.offset, int(np.prod(shape)) * t.bits // 8), kind).reshape(shape)

def seen(batches, gpu):
    return [([int(i) for i in np.asarray(b.sample_ids)], {k: here(v, gpu) for k, v in b.items()}) for b in batches]

def same(a, b):
    assert len(a) == len(b) > 0
    for (ids, x), (ids2, y) in zip(a, b):
        assert ids == ids2 and x.keys() == y.keys()
        for k in x:
            assert np.array_equal(x[k], y[k]), k

chain = stoker.from_("jpg").image()
fields = {"image": chain.resize((40, 44)).call(shift).random_crop(32).to("f16"),
          "numbers": chain.random_resized_crop(24).to("f32").call(np.negative),
          "plain": chain.random_resized_crop(24).hflip().to("f16"),
          "text": stoker.from_("txt").text().call(str.upper), "label": "from(cls) | int"}
how = {"batch_size": 16, "shuffle": True, "seed": 5, "batch_ops": [lambda b: {**b, "kind": type(b).__name__}]}
with stoker.Loader(sys.argv[1], fields, num_workers=0, **how) as cpu:
    want = seen(cpu, False)
for workers in (0, 2):
    with stoker.Loader(sys.argv[1], fields, num_workers=workers, device="cuda", **how) as gpu:
        batches = iter(gpu)
        head = [next(batches) for _ in range(2)]
        assert head[0].sample_keys and head[0]["kind"] == "Batch"
        state = json.loads(json.dumps(gpu.state_dict()))
        same(seen(head, True) + seen(batches, True), want)
        gpu.load_state_dict(state)
        same(seen(gpu, True), want[2:])
print("same")
"""


def test_functions_on_the_way_to_a_gpu(urls, monkeypatch):
    if not HOSTGPU.exists():
        pytest.skip("the GPU of threads is not built")
    monkeypatch.setenv("STK_CUDA_LIB", str(HOSTGPU))
    assert check_python(CODE, urls, Path(__file__).parent) == "same\n"
