# SPDX-License-Identifier: Apache-2.0
"""The same samples in every format: size, rows/s in order and shuffled, bytes of the index, in one run.

    python bench/formats/formats.py [ROUNDS] [SCALE] [CHART.svg]

Rows are handed out as they are stored (no decoding), by 2 threads, from the page cache; the best of the rounds, which
alternate, counts.  SCALE 1: 1,500 pictures of 25 KB, 3,000 smooth fields of 16 KB, 20,000 rows of 512 tokens.
"""
import io
import pathlib
import sys
import tempfile
import time

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

import stoker

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import made_mds  # noqa: E402

SEED = 1
SECONDS = 0.7


def values(kind, scale):
    rng = np.random.default_rng(SEED)
    if kind == "jpeg":
        out = []
        for _ in range(int(1500 * scale)):
            small = Image.fromarray(rng.integers(0, 256, (40, 40, 3), np.uint8))
            file = io.BytesIO()
            small.resize((320, 320), Image.Resampling.BICUBIC).save(file, "JPEG", quality=92)
            out.append(file.getvalue())
        return out
    if kind == "raw":
        walk = rng.integers(-2, 3, (int(3000 * scale), 1024)).cumsum(1) & 0xFF
        return list(walk.astype(np.uint8).repeat(16, 1))
    return list(rng.zipf(1.3, (int(20000 * scale), 512)).clip(0, 50000).astype(np.int32))


def hdf5(folder, kind, rows):
    with h5py.File(folder / "hdf5-none.h5", "w") as f:
        if kind == "jpeg":
            f.create_dataset("x", (len(rows),), dtype=h5py.vlen_dtype("u1"))[:] = [np.frombuffer(v, "u1") for v in rows]
            return
        f["x"] = np.stack(rows)
    with h5py.File(folder / "hdf5-gzip.h5", "w") as f:
        f.create_dataset("x", data=np.stack(rows), chunks=(16, len(rows[0])), compression="gzip", shuffle=True)


def tables(folder, kind, rows):
    column = pa.array(rows, pa.binary()) if kind == "jpeg" else pa.FixedSizeListArray.from_arrays(
        pa.array(np.concatenate(rows)), len(rows[0]))
    t = pa.table({"x": column})
    for codec in ("none", "snappy", "zstd"):
        pq.write_table(t, folder / f"parquet-{codec}.parquet", compression=codec)
    hdf5(folder, kind, rows)
    with pa.ipc.new_stream(folder / "arrow-none.arrow", t.schema) as w:
        w.write_table(t, max_chunksize=1000)


def records(folder, kind, rows):
    with stoker.Writer(folder / "tar-none" / "s-%05d.tar") as w:
        for i, v in enumerate(rows):
            w.write({"__key__": f"{i:07d}", "x": v if isinstance(v, bytes) else v.tobytes()})
    encoding = "bytes" if kind == "jpeg" else f"ndarray:{rows[0].dtype}:{len(rows[0])}"
    for codec in (None, "zstd"):
        made_mds.write(folder / f"mds-{codec or 'none'}", {"x": encoding}, [{"x": v} for v in rows], 1000, codec,
                       codec and (lambda raw: pa.compress(raw, codec="zstd", asbytes=True)))
    if kind == "jpeg":
        (folder / "files-none").mkdir()
        for i, v in enumerate(rows):
            (folder / "files-none" / f"{i:07d}.jpg").write_bytes(v)
    else:
        np.save(folder / "memmap-none.npy", np.stack(rows))


def chain(name, kind):
    if kind == "jpeg":
        return {"x": "from(image) | bytes" if name.startswith("files") else "bytes"}
    dtype, n = {"raw": ("u8", 16384), "tokens": ("i32", 512)}[kind]
    if name.startswith("memmap"):
        return None
    return {"x": f"raw({dtype}, shape={n})" if name.startswith("tar") else f"from(x) | ints(shape={n}) | to({dtype})"
            if name.startswith("parquet") else "from(x)"}


def rate(path, outputs, shuffle):
    with stoker.Loader(str(path), outputs, batch_size=64, shuffle=shuffle, num_workers=2, seed=SEED) as loader:
        for _ in loader:                        # files and index are warm
            pass
        n, start = 0, time.perf_counter()
        while time.perf_counter() - start < SECONDS:        # batches that were made ahead count little
            n += sum(len(batch.sample_ids) for batch in loader)
        return n / (time.perf_counter() - start)


def size(path):
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file() and ".stoker" not in f.parts]
    return sum(f.stat().st_size for f in files)


def index_bytes(path):
    return sum(f.stat().st_size for f in (path if path.is_dir() else path.parent).glob(".stoker/*"))


def chart(lines, path):
    """Bars of shuffled MB/s, a group for each kind."""
    out, y, top = [], 30, max(line[6] for line in lines)
    for i, (kind, name, *_, mb) in enumerate(lines):
        y += 14 if i and lines[i - 1][0] != kind else 0
        out.append(f'<text x="150" y="{y + 11}" text-anchor="end">{kind} {name}</text>'
                   f'<rect x="158" y="{y}" width="{420 * mb / top:.1f}" height="13" fill="#4078c0"/>'
                   f'<text x="{164 + 420 * mb / top:.1f}" y="{y + 11}">{mb:,.0f}</text>')
        y += 18
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="660" height="{y + 10}" font-family="sans-serif" font-size="12">'
            '<rect width="100%" height="100%" fill="white"/><text x="158" y="18">MB/s of stored rows, shuffled, 2 threads</text>')
    pathlib.Path(path).write_text(head + "".join(out) + "</svg>\n")


def main():
    rounds, scale = int((sys.argv[1:] + ["3"])[0]), float((sys.argv[2:] + ["1"])[0])
    lines = []
    print(f"{'data':7} {'format':16} {'MB':>8} {'in order/s':>11} {'shuffled/s':>11} {'index KB':>9}")
    for kind in ("jpeg", "raw", "tokens"):
        rows = values(kind, scale)
        stored = sum(len(v) if isinstance(v, bytes) else v.nbytes for v in rows) / len(rows) / 1e6
        with tempfile.TemporaryDirectory() as tmp:
            folders = {}
            base = pathlib.Path(tmp)
            tables(base, kind, rows)
            records(base, kind, rows)
            for path in sorted(base.iterdir()):
                if path.name.startswith("."):
                    continue
                home = base / f".home-{path.name}"      # an index of its own for each
                home.mkdir()
                name = path.stem if path.is_file() else path.name
                folders[name] = path.rename(home / path.name)
            best = {name: [0.0, 0.0] for name in folders}
            for _ in range(rounds):
                for name, path in folders.items():
                    for k, shuffle in enumerate((False, True)):
                        best[name][k] = max(best[name][k], rate(path, chain(name, kind), shuffle))
            for name, path in folders.items():
                index = index_bytes(path)
                lines.append((kind, name, size(path) / 1e6, best[name][0], best[name][1], index / 1e3, best[name][1] * stored))
                print(f"{kind:7} {name:16} {size(path) / 1e6:8.1f} {best[name][0]:11,.0f} {best[name][1]:11,.0f} {index / 1e3:9.1f}", flush=True)
    print(f"seed {SEED}, best of {rounds} rounds")
    if len(sys.argv) > 3:
        chart(lines, sys.argv[3])


main()
