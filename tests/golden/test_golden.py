# SPDX-License-Identifier: Apache-2.0
"""What comes out of a loader must not change unless somebody means it to: every row kind, order and way of batching, as
hashes of batches (names, types, shapes, bytes, ids, keys, valid) and of states, for 0, 2 and 8 workers and after a resume.

After a change that is meant: `python tests/golden/test_golden.py --write`, and say why in the commit."""

import gzip
import hashlib
import io
import itertools
import json
import os
import struct
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest

if os.environ.get("STOKER_BUILD"):
    sys.path.insert(0, os.path.join(os.environ["STOKER_BUILD"], "python"))

import stoker

HERE = Path(__file__).parent
GOLDENS = HERE / "goldens.json"
JPEGS = [(HERE / name).read_bytes() for name in ("color.jpg", "full.jpg", "restart.jpg", "gray.jpg")]
SAMPLES, SHARDS, EPOCHS = 61, 3, 2
VIEW = "random_resized_crop(24) | hflip"


# ---- data: bytes that depend on nothing but this file ----

def noise(seed, n):
    return hashlib.shake_128(str(seed).encode()).digest(n)


def png(seed, width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + noise((seed, y), width * 3) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def length_of(i):
    return 1 + noise(("length", i), 1)[0] % 40


def members(i, damaged):
    ids = np.frombuffer(noise(("ids", i), 2 * length_of(i)), "<u2").astype("<i4")
    picture = ("jpg", JPEGS[i % 4]) if i % 5 else ("png", png(i, 20 + i % 7, 30 - i % 9))
    if damaged and i % 10 == 7:
        picture = ("jpg", b"\xff\xd8 this is no picture")
    yield from [picture, ("cls", b"%d" % (i * i % 97)), ("txt", f"número {i}".encode() * (i % 4)),
                ("json", json.dumps({"n": i, "box": [i, i + 1, 2, 3], "ids": ids.tolist()}).encode()), ("npy", npy(ids)),
                ("bin", noise(("bin", i), i * 37 % 700)), ("vec.npy", npy(ids[:1].astype("<f4") * np.ones(5, "<f4"))),
                ("txt2.gz", gzip.compress(b"packed %d" % i, mtime=0))]
    if i % 3:
        yield "odd", b"%d" % i


def tar(path, first, end, damaged=False):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as out:
        for i in range(first, end):
            for name, data in members(i, damaged):
                info = tarfile.TarInfo(f"{i:06d}.{name}")
                info.size = len(data)
                out.addfile(info, io.BytesIO(data))


def documents(prefix, n):
    docs = [np.frombuffer(noise((prefix.name, d), 2 * (1 + (d * 29 + 11) % 70)), "<u2") for d in range(n)]
    lengths = np.array([len(d) for d in docs], "<i4")
    at = np.concatenate([[0], np.cumsum(lengths[:-1].astype("<i8") * 2)]).astype("<i8")
    Path(f"{prefix}.bin").write_bytes(np.concatenate(docs).tobytes())
    Path(f"{prefix}.idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, n, n + 1) + lengths.tobytes() + at.tobytes()
                                      + np.arange(n + 1, dtype="<i8").tobytes())


def make(folder):
    for s in range(SHARDS):
        tar(folder / f"a-{s}.tar", SAMPLES * s // SHARDS, SAMPLES * (s + 1) // SHARDS)
    tar(folder / "b-0.tar", 100, 123)
    tar(folder / "bad-0.tar", 0, SAMPLES, damaged=True)
    documents(folder / "one", 40)
    documents(folder / "two", 23)
    (folder / "plain.bin").write_bytes(noise("plain", 4000))
    np.save(folder / "rows.npy", np.frombuffer(noise("rows", 53 * 6 * 4), "<i4").reshape(53, 2, 3))
    np.savez(folder / "pair.npz", x=np.frombuffer(noise("x", 47 * 8), "u1").reshape(47, 8), y=np.arange(47, dtype="<i2"))
    for i, data in enumerate(JPEGS):
        (folder / f"p{i}.jpg").write_bytes(data)
    (folder / "list.csv").write_text("path,label\n" + "".join(f"p{i % 4}.jpg,{i}\n" for i in range(19)))


# ---- cases: a folder -> (data, options) ----

IMAGE = {"image": f"from(jpg, png) | image | {VIEW} | normalize(imagenet) | to(f32)", "label": "from(cls) | int"}
RAGGED = {"x": "from(npy) | npy", "t": "from(txt) | text", "b": "from(bin) | bytes", "j": "from(json) | json"}
NUMBERS = {"x": "from(npy) | npy", "label": "from(cls) | int"}
PACK = "from(npy) | npy | truncate(30) | pack(block=32, fit={}, window=16"
WINDOW = "tokens(block=16{})"
DOCS = "tokens(block=24, pack=best{})"


def a(f):
    return str(f / "a-{0..2}.tar")


def packed(fit):
    row = PACK.format(fit)
    return {"x": f"{row})", "y": f"{row}, shift=1)", "p": f"{row}, give=positions) | to(i32)",
            "d": f"{row}, give=documents)", "m": f"{row}, give=mask, shift=1) | to(f32)"}


def docs(more):
    return {"x": DOCS.format(more), "y": DOCS.format(f"{more}, shift=1"), "p": DOCS.format(f"{more}, give=positions") + " | to(i32)",
            "d": DOCS.format(f"{more}, give=documents"), "m": DOCS.format(f"{more}, give=mask, shift=1") + " | to(u8)"}


def windows(*more):
    return {f"w{k}": WINDOW.format(m) for k, m in enumerate(more)}


def mixed(f, **options):
    sets = {"one": (stoker.open(a(f)), 2), "two": (stoker.open(str(f / "b-0.tar")), 1)}
    return stoker.mix(sets, **options)


CASES = {
    "pictures": lambda f: (a(f), {"fields": IMAGE, "batch_size": 7, "shuffle": True}),
    "pictures u8": lambda f: (a(f), {"fields": {"i": "from(jpg, png) | image | resize(20) | center_crop(16) | to(u8)"}, "batch_size": 9}),
    "two views": lambda f: (a(f), {"fields": {"v": f"from(jpg, png) | image | {VIEW}", "w": f"from(jpg, png) | image | {VIEW}"},
                                   "batch_size": 7, "shuffle": True, "seed": 4}),
    "pictures of any size": lambda f: (a(f), {"fields": {"i": "from(jpg, png) | image | hflip"}, "collate": "list", "batch_size": 6}),
    "pictures padded": lambda f: (a(f), {"fields": {"i": "from(jpg, png) | image"}, "collate": "pad", "batch_size": 6, "shuffle": True}),
    "seek points": lambda f: (a(f), {"fields": IMAGE, "batch_size": 7, "shuffle": True, "learn_jpeg": True}),
    "manifest": lambda f: (str(f / "list.csv"), {"fields": {"i": f"from(path) | open | image | {VIEW}", "n": "from(label) | int"},
                                                 "batch_size": 5, "shuffle": True}),
    "values": lambda f: (a(f), {"fields": {"n": "from(cls) | int", "v": "from(vec.npy) | npy(shape=5, dtype=f32)",
                                           "k": "from(json) | json(n) | int"}, "batch_size": 8, "shuffle": True}),
    "bytes": lambda f: (a(f), {"fields": {"b": "from(bin) | bytes"}, "batch_size": 16, "shuffle": True}),
    "ragged": lambda f: (a(f), {"fields": RAGGED, "collate": "list", "batch_size": 8, "shuffle": True}),
    "padded": lambda f: (a(f), {"fields": {"x": "from(npy) | npy", "y": "from(npy) | npy | truncate(9, keep=last)", "b": "from(bin) | bytes"},
                                "collate": ("pad", 3, 4), "batch_size": 8, "shuffle": True}),
    "compressed": lambda f: (a(f), {"fields": {"t": "from(txt2) | text", "o": "from(odd, default=-5) | int"}, "batch_size": 8}),
    "one by one": lambda f: (a(f), {"fields": {"x": "from(npy) | npy", "i": "from(jpg, png) | image"}, "batch_size": 1, "limit": 15}),
    "skipped": lambda f: (str(f / "bad-0.tar"), {"fields": IMAGE, "batch_size": 7, "shuffle": True, "on_error": "skip"}),
    "last dropped": lambda f: (a(f), {"fields": NUMBERS, "collate": "list", "batch_size": 9, "drop_last": True}),
    "third of four": lambda f: (a(f), {"fields": {"n": "from(cls) | int"}, "batch_size": 4, "rank": 2, "world_size": 4, "shuffle": True}),
    "global batch": lambda f: (a(f), {"fields": {"n": "from(cls) | int"}, "global_batch_size": 10, "rank": 1, "world_size": 3}),
    "selected": lambda f: (a(f), {"fields": {"n": "from(cls) | int"}, "select": list(range(60, 3, -4)), "repeat": 3, "batch_size": 4,
                                  "shuffle": True}),
    "blocks": lambda f: (a(f), {"fields": {"n": "from(cls) | int"}, "shuffle": "block", "streams": 4, "window": 16, "batch_size": 5}),
    "blocks of two nodes": lambda f: (a(f), {"fields": {"n": "from(cls) | int"}, "shuffle": "block", "streams": 4, "window": 16,
                                             "batch_size": 3, "rank": 1, "world_size": 4, "ranks_per_node": 2}),
    "mix": lambda f: (mixed(f, epoch_size=70), {"fields": {"n": "from(cls) | int"}, "batch_size": 6, "shuffle": True}),
    "weights": lambda f: (a(f), {"fields": {"n": "from(cls) | int"}, "weights": np.arange(SAMPLES) % 5, "batch_size": 6, "epoch_size": 50}),
    "weights, each once": lambda f: (a(f), {"fields": {"n": "from(cls) | int"}, "weights": 1 + np.arange(SAMPLES) % 5, "replacement": False,
                                            "batch_size": 6, "epoch_size": 40}),
    "stratified": lambda f: (a(f), {"fields": {"n": "from(cls) | int"}, "stratify": np.arange(SAMPLES) % 3, "batch_size": 6, "shuffle": True}),
    "epochs of another size": lambda f: (a(f), {"fields": {"n": "from(cls) | int"}, "epoch_size": 45, "batch_size": 6, "shuffle": True}),
    "max_tokens": lambda f: (a(f), {"fields": NUMBERS, "collate": {"x": "pad"}, "max_tokens": 96, "shuffle": True}),
    "max_tokens, skipped": lambda f: (str(f / "bad-0.tar"), {"fields": {**NUMBERS, "i": IMAGE["image"]}, "collate": {"x": "pad"},
                                                             "max_tokens": 96, "shuffle": True, "on_error": "skip"}),
    "max_tokens, ranks": lambda f: (a(f), {"fields": NUMBERS, "collate": {"x": ("pad", 0, 8)}, "max_tokens": 80, "rank": 1, "world_size": 3}),
    "bucket": lambda f: (a(f), {"fields": NUMBERS, "collate": {"x": "pad"}, "bucket": 24, "batch_size": 5, "shuffle": True}),
    "packed rows": lambda f: (a(f), {"fields": packed("best"), "batch_size": 3, "shuffle": True}),
    "packed rows, first fit": lambda f: (a(f), {"fields": packed("first"), "batch_size": 2, "rank": 1, "world_size": 2}),
    "arrays": lambda f: (str(f / "rows.npy"), {"fields": {"rows": "from(array)", "wide": "from(array) | to(i64)"}, "batch_size": 6, "shuffle": True}),
    "two arrays": lambda f: (str(f / "pair.npz"), {"fields": {"x": "from(x)", "y": "from(y) | to(i32)"}, "batch_size": 6, "shuffle": True}),
    "windows": lambda f: (str(f / "plain.bin"), {"fields": windows("", ", shift=1"), "batch_size": 6, "shuffle": True, "dtype": "u2"}),
    "windows, drawn": lambda f: (str(f / "plain.bin"), {"fields": windows(", random=true", ", random=true, shift=1"), "batch_size": 6,
                                                        "shuffle": True, "dtype": "u2"}),
    "windows, shared": lambda f: (str(f / "plain.bin"), {"fields": windows(", share=true", ", share=true, shift=1"), "batch_size": 6,
                                                         "dtype": "u2"}),
    "windows, separated": lambda f: ([str(f / "one.bin"), str(f / "two.bin")],
                                     {"fields": windows(", separator=65000", ", separator=65000, shift=1"), "batch_size": 6, "shuffle": True}),
    "megatron": lambda f: (str(f / "one.bin"), {"fields": windows("", ", shift=1"), "batch_size": 6, "shuffle": "megatron", "epoch_size": 130}),
    "packed documents": lambda f: (str(f / "one.bin"), {"fields": docs(""), "batch_size": 5, "shuffle": True}),
    "repacked documents": lambda f: ([str(f / "one.bin"), str(f / "two.bin")], {"fields": docs(", repack=true"), "batch_size": 5, "shuffle": True}),
    "repacked documents, ranks": lambda f: (str(f / "two.bin"), {"fields": docs(", repack=true"), "batch_size": 2, "rank": 1, "world_size": 2}),
}


# ---- hashes ----

def bytes_of(value):
    if isinstance(value, (str, dict, list, int, float)) and not (isinstance(value, list) and value and hasattr(value[0], "shape")):
        return json.dumps(value, sort_keys=True, default=repr).encode()
    if isinstance(value, list):
        return b"".join(bytes_of(v) for v in value)
    if isinstance(value, bytes):
        return value
    array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    return f"{array.dtype.str}{array.shape}{array.strides}".encode() + array.tobytes()


def hash_of(batch):
    h = hashlib.sha256()
    for name, value in batch.items():
        h.update(name.encode() + bytes_of(value))
    h.update(bytes_of(batch.sample_ids) + bytes_of(batch.valid) + json.dumps(batch.sample_keys).encode())
    return h.hexdigest()[:16]


def state_of(loader):
    state = json.loads(json.dumps(loader.state_dict()))
    del state["local"]      # how many bad samples were met so far: workers are ahead
    return state


def short(parts):
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def run(name, folder, workers):
    """Hashes of each epoch's batches and of all states, and the same batches by resuming in the middle of the second."""
    data, options = CASES[name](folder)
    with stoker.Loader(data, num_workers=workers, **options) as loader:
        states, epochs = [state_of(loader)], []
        for _ in range(EPOCHS):
            epochs.append([])
            for batch in loader:
                epochs[-1].append(hash_of(batch))
                states.append(state_of(loader))
        steps = [len(e) for e in epochs]
    at = steps[0] + max(1, steps[1] // 2)
    with stoker.Loader(CASES[name](folder)[0], num_workers=workers, **options) as loader:
        loader.load_state_dict(states[at])
        rest = [hash_of(b) for b in loader]
    assert rest == list(itertools.chain.from_iterable(epochs))[at:], f"{name}: what follows a resume differs"
    return {"steps": steps, "batches": [short(e) for e in epochs], "states": short([json.dumps(s, sort_keys=True) for s in states])}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("golden")
    make(made)
    return made


@pytest.mark.parametrize("name", CASES)
def test_golden(folder, name):
    want = json.loads(GOLDENS.read_text())[name]
    for workers in (0, 2, 8):
        assert run(name, folder, workers) == want, f"with {workers} workers"


def test_every_golden_has_a_case():
    assert sorted(json.loads(GOLDENS.read_text())) == sorted(CASES)


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    with tempfile.TemporaryDirectory() as made:
        make(Path(made))
        found = {name: run(name, Path(made), 0) for name in CASES}
    GOLDENS.write_text("{\n" + ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in found.items()) + "\n}\n")
