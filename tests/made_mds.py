# SPDX-License-Identifier: Apache-2.0
"""MDS shards as MosaicML's writer lays them out (format version 2), for tests: a writer of our own, in a page.

    write(folder, {"image": "jpeg", "label": "int"}, samples, per_shard=100, compression="zstd")
"""

import hashlib
import json
import pathlib
import struct

import numpy as np

_SIZES = {"int": 8, **{f"{k}{b}": b // 8 for k in ("int", "uint") for b in (8, 16, 32, 64)}, "float16": 2, "float32": 4, "float64": 8}
_NUMPY = {"int": "int64"}


def _size(encoding):
    if encoding.startswith("ndarray:") and encoding.count(":") == 2:
        _, dtype, shape = encoding.split(":")
        return int(np.prod([int(n) for n in shape.split(",")])) * np.dtype(dtype).itemsize
    return _SIZES.get(encoding)


def _encode(encoding, value):
    if encoding in _SIZES:
        return np.array(value, _NUMPY.get(encoding, encoding)).tobytes()
    if encoding.startswith("ndarray:"):
        array = np.ascontiguousarray(value, encoding.split(":")[1])
        if encoding.count(":") == 2:
            return array.tobytes()
        wide = max(0, next(s for s in range(4) if max(array.shape, default=0) < 1 << (8 << s)))
        return bytes([array.ndim << 2 | wide]) + np.array(array.shape, f"uint{8 << wide}").tobytes() + array.tobytes()
    if encoding == "json":
        return json.dumps(value).encode()
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else str(value).encode()


def _sums(data, hashes):
    return {h: (__import__("xxhash").xxh64(data) if h == "xxh64" else hashlib.new(h, data)).hexdigest() for h in hashes}


def shard(columns, samples):
    names = sorted(columns)
    config = json.dumps({"column_encodings": [columns[n] for n in names], "column_names": names,
                         "column_sizes": [_size(columns[n]) for n in names], "compression": None, "format": "mds", "hashes": [],
                         "size_limit": 1 << 26, "version": 2}, sort_keys=True).encode()
    made = []
    for s in samples:
        values = [_encode(columns[n], s[n]) for n in names]
        sizes = [len(v) for n, v in zip(names, values, strict=True) if _size(columns[n]) is None]
        made.append(struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(values))
    at = 4 + 4 * (len(made) + 1) + len(config)
    places = np.cumsum([at, *map(len, made)]).astype("<u4")
    return struct.pack("<I", len(made)) + places.tobytes() + config + b"".join(made)


def write(folder, columns, samples, per_shard=100, compression=None, pack=None, keep=False, hashes=()):
    """pack: bytes -> bytes; keep: the plain file stays beside the packed one; hashes: names of hashlib's, or xxh64."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names, shards = sorted(columns), []
    for k in range(0, len(samples), per_shard):
        raw = shard(columns, samples[k:k + per_shard])
        name = f"shard.{k // per_shard:05d}.mds"
        zipped = pack(raw) if pack else None
        if zipped is None or keep:
            (folder / name).write_bytes(raw)
        info = {"basename": f"{name}.{(compression or '').partition(':')[0]}", "bytes": len(zipped or b""), "hashes": _sums(zipped or b"", hashes)}
        if zipped is not None:
            (folder / info["basename"]).write_bytes(zipped)
        shards.append({"column_encodings": [columns[n] for n in names], "column_names": names,
                       "column_sizes": [_size(columns[n]) for n in names], "compression": compression, "format": "mds", "hashes": list(hashes),
                       "raw_data": {"basename": name, "bytes": len(raw), "hashes": _sums(raw, hashes)}, "samples": len(samples[k:k + per_shard]),
                       "size_limit": 1 << 26, "version": 2, "zip_data": info if zipped is not None else None})
    (folder / "index.json").write_text(json.dumps({"shards": shards, "version": 2}, sort_keys=True))
    return folder
