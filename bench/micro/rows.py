# SPDX-License-Identifier: Apache-2.0
"""Instructions that a row costs, by kind, counted by callgrind: the engine's share shows where noise would hide it.

    python bench/micro/rows.py BUILD [--json FILE] [--against FILE] [KIND...]

A kind is run for 1 and for 3 epochs; the difference is divided by its rows.  A count repeats to about 0.1 %."""

import argparse
import hashlib
import io
import json
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
ROWS = 2048


def noise(seed, n):
    return hashlib.shake_128(str(seed).encode()).digest(n)


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def tar(path, rows, fields):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as out:
        for i in range(rows):
            for name, data in fields(i):
                info = tarfile.TarInfo(f"{i:06d}.{name}")
                info.size = len(data)
                out.addfile(info, io.BytesIO(data))


def make(f):
    jpeg = (ROOT / "tests/golden/color.jpg").read_bytes()
    tar(f / "kb.tar", ROWS, lambda i: [("bin", noise(i, 1024))])
    tar(f / "num.tar", ROWS, lambda i: [("cls", b"%d" % i), ("npy", npy(np.arange(1 + i * 7 % 50, dtype="<i4")))])
    tar(f / "pic.tar", 128, lambda i: [("jpg", jpeg), ("cls", b"%d" % i)])
    docs = [np.frombuffer(noise(("d", i), 2 * (20 + i * 37 % 400)), "<u2") for i in range(400)]
    lengths = np.array([len(d) for d in docs], "<i4")
    at = np.concatenate([[0], np.cumsum(lengths[:-1].astype("<i8") * 2)]).astype("<i8")
    (f / "d.bin").write_bytes(np.concatenate(docs).tobytes())
    (f / "d.idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(docs), len(docs) + 1) + lengths.tobytes()
                              + at.tobytes() + np.arange(len(docs) + 1, dtype="<i8").tobytes())
    np.save(f / "rows.npy", np.frombuffer(noise("rows", ROWS * 256), "u1").reshape(ROWS, 256))


PACK = "from(npy) | npy | pack(block=128"
DOCS = "tokens(block=128, pack=best"
KINDS = {  # name: file, batch, options, chains
    "bytes mem": ("kb.tar", 256, "ms", ["x=from(bin) | bytes"]),
    "bytes tar": ("kb.tar", 256, "s", ["x=from(bin) | bytes"]),
    "value": ("num.tar", 256, "s", ["n=from(cls) | int"]),
    "value mem": ("num.tar", 256, "ms", ["n=from(cls) | int"]),
    "two fields": ("num.tar", 256, "sl", ["n=from(cls) | int", "x=from(npy) | npy"]),
    "padded": ("num.tar", 256, "sp", ["x=from(npy) | npy"]),
    "max_tokens": ("num.tar", 0, "spt", ["x=from(npy) | npy"]),
    "packed": ("num.tar", 32, "s", [f"x={PACK})", f"p={PACK}, give=positions)"]),
    "picture": ("pic.tar", 32, "s", ["i=from(jpg) | image | random_resized_crop(48) | hflip | to(f32)", "n=from(cls) | int"]),
    "array": ("rows.npy", 64, "s", ["x=from(array)"]),
    "array wide": ("rows.npy", 64, "s", ["x=from(array) | to(i64)"]),
    "window": ("d.bin", 64, "s", ["x=tokens(block=64)", "y=tokens(block=64, shift=1)"]),
    "window shared": ("d.bin", 64, "s", ["x=tokens(block=64, share=true)", "y=tokens(block=64, shift=1, share=true)"]),
    "megatron": ("d.bin", 64, "g", ["x=tokens(block=64)", "y=tokens(block=64, shift=1)"]),
    "documents": ("d.bin", 32, "s", [f"x={DOCS})", f"p={DOCS}, give=positions)"]),
    "repacked": ("d.bin", 32, "s", [f"x={DOCS}, repack=true)", f"p={DOCS}, repack=true, give=positions)"]),
}


def counted(build, folder, kind, epochs):
    file, batch, options, chains = KINDS[kind]
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"{build}/bench/bench_rows", str(epochs),
                           str(batch), options, str(folder / file), *chains], capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        sys.exit(f"{kind}: {done.stderr[-600:]}")
    return int(found.group(1)), int(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("kinds", nargs="*", default=[])
    parser.add_argument("--json")
    parser.add_argument("--against")
    args = parser.parse_args()
    before = json.loads(Path(args.against).read_text()) if args.against else {}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        for kind in args.kinds or KINDS:
            counted(args.build, Path(folder), kind, 0)      # makes the index
            (one, rows), (three, more) = counted(args.build, Path(folder), kind, 1), counted(args.build, Path(folder), kind, 3)
            found[kind] = round((three - one) / (more - rows), 1)
            change = f"  {100 * (found[kind] / before[kind] - 1):+6.2f} %" if kind in before else ""
            print(f"{kind:14s} {found[kind]:10.1f} instructions a row{change}", flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
