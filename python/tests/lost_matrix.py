# SPDX-License-Identifier: Apache-2.0
"""Kinds of loaders and kinds of errors, for test_lost.py: next() raises in the middle of an epoch, and nothing is lost.

A fault is there until `passed()`; it then gives the batches that a loader without it gives, bit for bit.
"""

import ctypes
import http.server
import json
import os
import threading

import numpy as np
from conftest import jpeg, picture, write_tar

import stoker

SHARDS, EACH, BATCH = 3, 24, 6
SAMPLES = SHARDS * EACH
BAD = 31                                        # in the second shard
FIELDS = {"image": "from(jpg) | image | random_resized_crop(16) | hflip | to(f32)", "n": "from(cls) | int",
          "ragged": "from(bin) | bytes"}


def make_shards(folder, bad=False):
    for s in range(SHARDS):
        members = []
        for i in range(s * EACH, (s + 1) * EACH):
            image = b"\xff\xd8garbage" * 20 if bad and i == BAD else jpeg(picture(i, 40, 30))
            members += [(f"{i:04d}.jpg", image), (f"{i:04d}.cls", str(i).encode()), (f"{i:04d}.bin", bytes(range(1 + i % 7)))]
        write_tar(folder / f"t-{s}.tar", members)
    return [str(folder / f"t-{s}.tar") for s in range(SHARDS)]


# ---- faults --------------------------------------------------------------------------------------

class Passing(Exception):
    pass


class Fault:
    """None: for the loader that says what is right."""
    on = False
    where = None                                # in place of the shards
    fields: dict = {}
    options: dict = {}
    raises: type = stoker.StokerError

    def passed(self):
        self.on = False

    def close(self):
        self.on = False


class Refused(Fault):
    """An object store that refuses the second shard, for good as far as a client knows."""
    raises = stoker.StokerError

    def __init__(self, folder, hold=None):
        fault = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                data = (folder / os.path.basename(self.path)).read_bytes()
                refused = fault.on and self.path.endswith("t-1.tar")
                if refused and hold:            # it says what there is to say
                    hold(self)
                    return
                first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
                part = b"no" if refused else data[int(first):int(last) + 1 if last else len(data)]
                self.send_response(403 if refused else 206)
                self.send_header("Content-Length", str(len(part)))
                self.send_header("ETag", f'"{len(data)}"')
                if not refused:
                    self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
                self.end_headers()
                self.wfile.write(part)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *args: None   # a client that goes away is none
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.where = [f"http://127.0.0.1:{self.server.server_port}/t-{s}.tar" for s in range(SHARDS)]
        stoker.open(self.where)                 # its index is there before
        self.on = True

    def close(self):
        self.on = False
        self.server.shutdown()
        self.server.server_close()


class InBatch(Fault):
    """A function of batch_ops= that has changed the batch in place when it raises."""

    def __init__(self, error=Passing):
        self.error, self.on = error, True
        self.raises = stoker.StokerError if issubclass(error, Exception) else error
        self.options = {"batch_ops": [self.run]}

    def run(self, batch):
        numbers = np.asarray(batch["n"])        # the batch's own memory
        numbers += 1000
        if self.on and int(numbers.min()) - 1000 >= 0 and (numbers - 1000 == BAD).any():
            raise self.error("a function of the user's")
        return batch


class InChain(Fault):
    """A function of call() in a chain."""

    def __init__(self, error=Passing, kind="thread"):
        self.error, self.on = error, True
        self.raises = stoker.StokerError if issubclass(error, Exception) else error
        self.fields = {"n": stoker.from_("cls").int().call(self.run)}
        self.options = {"worker_type": kind}

    def run(self, value):
        if self.on and int(value) == BAD:
            raise self.error("a function of the user's")
        return value


def with_functions(fault):
    """The loader that says what is right has the same functions."""
    clean = Fault()
    clean.fields, clean.options = fault.fields, fault.options
    clean.where = None if fault.where is None else fault.where
    return clean


# ---- loaders -------------------------------------------------------------------------------------

def loader(urls, fault, how, **more):
    fields = {**FIELDS, **fault.fields}
    given = {"batch_size": BATCH, "seed": 3, "prefetch": 2, "collate": {"ragged": "list"}, **fault.options, **how, **more}
    urls = fault.where or urls
    if given.pop("stream", False):
        return stoker.Loader(stoker.stream(urls), fields, epoch_size=SAMPLES, **given)
    return stoker.Loader(urls, fields, **given)


KINDS = {
    "in order": {},
    "shuffled": {"shuffle": True},
    "blocks": {"shuffle": "block", "window": 16, "streams": 2},
    "rank": {"shuffle": True, "rank": 0, "world_size": 2},
    "bucket": {"bucket": 24, "collate": {"ragged": ("pad", 0)}},
    "max_tokens": {"max_tokens": 40, "batch_size": 12, "collate": {"ragged": ("pad", 0)}},
    "stream": {"stream": True},
    "mixed stream": {"stream": True, "shuffle": True, "window": 12, "streams": 3},
}


class Packed(ctypes.Structure):                 # DLTensor
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


def content(value):
    if isinstance(value, (list, tuple)):
        return [content(v) for v in value]
    if isinstance(value, str) or getattr(value, "__dlpack_device__", lambda: (1,))()[0] != 2:
        return value if isinstance(value, (str, bytes)) else np.asarray(value).tobytes()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer     # of the GPU whose memory is this process's
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = value.__dlpack__(stream=1)
    t = Packed.from_address(pointer(capsule, b"dltensor"))
    size = int(np.prod([t.shape[i] for i in range(t.ndim)])) * t.bits // 8
    return ctypes.string_at(t.data + t.offset, size)


def digest(batch):
    """All that was handed out, as one value."""
    if isinstance(batch, tuple):
        return [content(v) for v in batch]
    return [np.asarray(batch.sample_ids).tobytes(), np.asarray(batch.valid).tobytes(),
            {name: content(batch[name]) for name in batch}]


def survives(make, fault, again=2, ahead=0):
    """Take an epoch from make(fault), over its errors; at each of them a state is resumed in a loader without the fault.

    ahead: shards that are opened ahead: one of these may have met the fault before it passed, and says so once when it is reached."""
    clean = with_functions(fault)
    on, fault.on = fault.on, False
    reference = make(clean)
    want = [digest(b) for b in reference]
    reference.close()
    fault.on = on
    data, got, raised = make(fault), [], 0
    it = iter(data)
    while True:
        try:
            got.append(digest(next(it)))
        except StopIteration:
            break
        except fault.raises as e:
            if not fault.on and ahead:
                ahead -= 1
                continue
            raised += 1
            assert fault.on, e
            state = json.loads(json.dumps(data.state_dict()))
            if raised == again:                 # the same error comes again until it passes
                fault.passed()
                fresh = make(clean)
                fresh.load_state_dict(state)
                rest = [digest(b) for b in fresh]
                fresh.close()
                assert got + rest == want, (len(got), len(rest), len(want))
    data.close()
    assert raised == again, raised
    assert got == want, [a == b for a, b in zip(got, want)]
