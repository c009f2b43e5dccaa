# SPDX-License-Identifier: Apache-2.0
"""FFCV's .beton files as its DatasetWriter (1.0.2) lays them out, for tests: a writer of our own, in a page.

    write(path, {"image": "rgb", "label": "int", "x": ("array", "<f4", (2, 3))}, samples)

A picture is an array (stored as it is) or the bytes of a JPEG with its width and height.
"""

import json
import pathlib

import numpy as np

HEADER = np.dtype([("version", "<u2"), ("fields", "<u2"), ("page", "<u4"), ("samples", "<u8"), ("table", "<u8")], align=True)
FIELD = np.dtype([("type", "<u1"), ("name", "<u1", 16), ("arguments", "<u1", 1024)], align=True)
FAR = np.dtype([("ptr", "<u8"), ("size", "<u8")])
TYPES = {"float": (0, np.dtype("<f8")), "int": (1, np.dtype("<i8")),
         "rgb": (2, np.dtype([("mode", "<u1"), ("width", "<u2"), ("height", "<u2"), ("ptr", "<u8")])),
         "bytes": (3, FAR), "array": (4, np.dtype("<u8")), "json": (5, FAR), "tensor": (6, np.dtype("<u8"))}


def arguments(kind):
    out = np.zeros(1024, "u1")
    if isinstance(kind, tuple):
        head = np.zeros(33, "<u8")
        text = json.dumps([["", kind[1]]]).encode()
        head[:len(kind[2])], head[32] = kind[2], len(text)
        out[:264 + len(text)] = np.frombuffer(head.tobytes() + text, "u1")
    return out


def write(path, fields, samples, number=None):
    """number: of a field's type, instead of the right one."""
    names = {k: v if isinstance(v, str) else v[0] for k, v in fields.items()}
    row = np.dtype([("", TYPES[t][1]) for t in names.values()], align=True)
    rows, data, table = np.zeros(len(samples), row), b"", []
    described = np.zeros(len(fields), FIELD)
    for i, (name, kind) in enumerate(fields.items()):
        short = name.encode()[:16]
        described[i]["type"] = TYPES[names[name]][0] if number is None else number
        described[i]["name"][:len(short)] = np.frombuffer(short, "u1")
        described[i]["arguments"] = arguments(kind)
    start = HEADER.itemsize + described.nbytes + rows.nbytes

    def put(sample, payload):
        nonlocal data
        table.append((sample, start + len(data), len(payload)))
        data += payload
        return table[-1][1]

    for i, sample in enumerate(samples):
        for at, (name, kind) in zip(row.names, names.items(), strict=True):
            value = sample[name]
            if kind in ("int", "float"):
                rows[at][i] = value
            elif kind == "rgb":
                mode, (h, w), payload = (1, value.shape[:2], value.tobytes()) if isinstance(value, np.ndarray) else (0, value[1], value[0])
                rows[at][i] = (mode, w, h, put(i, payload))
            elif kind in ("array", "tensor"):
                rows[at][i] = put(i, value.tobytes())
            else:
                payload = value if kind == "bytes" else json.dumps(value).encode() + b"\0"
                rows[at][i] = (put(i, payload), len(payload))
    header = np.array([(2, len(fields), 1 << 21, len(samples), start + len(data))], HEADER)
    end = np.array(table, np.dtype([("sample", "<u8"), ("ptr", "<u8"), ("size", "<u8")]))
    pathlib.Path(path).write_bytes(header.tobytes() + described.tobytes() + rows.tobytes() + data + end[::-1].tobytes())
    return str(path)
