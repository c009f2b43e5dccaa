# SPDX-License-Identifier: Apache-2.0
"""LitData's chunks as its BinaryWriter lays them out, for tests: a writer of our own, in a page.

    write(folder, samples, per_chunk=4, pack=zstd_compress)
"""

import json
import pathlib
import struct

import numpy as np

NUMPY = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32, np.float64]


def leaf(value):
    """(format, bytes) of a leaf."""
    if isinstance(value, bool):
        return "bool", bytes([value])
    if isinstance(value, int):
        return "int", struct.pack("<q", value)
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    if isinstance(value, str):
        return "str", value.encode()
    if isinstance(value, np.ndarray):
        number = NUMPY.index(value.dtype.type)
        if value.ndim == 1:
            return f"no_header_numpy:{number}", value.tobytes()
        return "numpy", struct.pack(f"<{2 + value.ndim}I", number, value.ndim, *value.shape) + value.tobytes()
    return "bytes", value


def flat(sample):
    """(spec, leaves) as torch's pytree has them."""
    if isinstance(sample, (dict, list, tuple)):
        children = [flat(v) for v in (sample.values() if isinstance(sample, dict) else sample)]
        spec = {"type": f"builtins.{type(sample).__name__}", "context": json.dumps(list(sample)) if isinstance(sample, dict) else "null",
                "children_spec": [c[0] for c in children]}
        return spec, [v for c in children for v in c[1]]
    return {"type": None, "context": None, "children_spec": []}, [sample]


def chunk(samples):
    items = []
    for s in samples:
        data = [leaf(v)[1] for v in flat(s)[1]]
        items.append(struct.pack(f"<{len(data)}I", *map(len, data)) + b"".join(data))
    places = np.cumsum([4 + 4 * (len(items) + 1), *map(len, items)]).astype("<u4")
    return struct.pack("<I", len(items)) + places.tobytes() + b"".join(items)


def framed(raw, pack, rows):
    """The same chunk with its samples packed `rows` at a time, as compression="zstd" alone has it in version 0.2.76."""
    n = struct.unpack_from("<I", raw)[0]
    places = np.frombuffer(raw, "<u4", n + 1, 4).astype("i8")
    frames = [(k, min(rows, n - k), raw[places[k]:places[min(n, k + rows)]]) for k in range(0, n, rows)]
    at, table, body = 24 + 4 * (n + 1) + 24 * len(frames), b"", b""
    for first, count, data in frames:
        packed = pack(data)
        table += struct.pack("<IIQII", first, count, at + len(body), len(packed), len(data))
        body += packed
    return b"LDFZ01\0\0" + struct.pack("<HHIII", 1, 0, n, rows, len(frames)) + (places - places[0]).astype("<u4").tobytes() + table + body


def write(folder, samples, per_chunk=4, pack=None, old=False, frame_rows=0, **config):
    """pack: bytes -> bytes, zstd; old: sizes in the index leave out the table of places, as before version 0.2.60 or so;
    frame_rows: packed so many samples at a time."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    chunks = []
    for k in range(0, len(samples), per_chunk):
        raw = chunk(samples[k:k + per_chunk])
        n = len(samples[k:k + per_chunk])
        name = f"chunk-0-{k // per_chunk}.{'zstd.' if pack and not frame_rows else ''}bin"
        raw = framed(raw, pack, frame_rows) if frame_rows else raw
        (folder / name).write_bytes(pack(raw) if pack and not frame_rows else raw)
        chunks.append({"chunk_bytes": len(raw) - (4 * (n + 2) if old else 0), "chunk_size": n, "dim": None, "filename": name})
    spec, leaves = flat(samples[0])
    if frame_rows:
        config = {"compression_level": "batch", "compression_batch_size": frame_rows, **config}
    (folder / "index.json").write_text(json.dumps({"chunks": chunks, "config": {
        "chunk_bytes": None, "chunk_size": per_chunk, "compression": "zstd" if pack else None, "data_format": [leaf(v)[0] for v in leaves],
        "data_spec": json.dumps([1, spec]), "encryption": None, "item_loader": "PyTreeLoader", **config}, "updated_at": "0"}, sort_keys=True))
    return folder
