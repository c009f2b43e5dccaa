# SPDX-License-Identifier: Apache-2.0
"""One loader under memory_limit in a process of its own: what the process took beside what it said.

    limits.py FOLDER WHAT LIMIT_MB WORKERS BATCHES

Prints one line of JSON.  WHAT: bombs (small files of huge pictures, which are skipped), large (pictures
that each take a third of the limit), photos (JPEGs, baseline and progressive), ragged, unpacked (gzip)."""

import gzip
import io
import json
import os
import resource
import struct
import sys
import tarfile
import threading
import time
import zlib

import numpy as np
from PIL import Image

MB = 1_000_000


def png(side):
    """One color; a megapixel takes a kilobyte of file."""
    pack = zlib.compressobj(9)
    row = b"\0" + b"\x40\x80\xc0" * side
    body = b"".join(pack.compress(row) for _ in range(side)) + pack.flush()

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def photo(seed, width, height, **how):
    small = np.random.default_rng(seed).integers(0, 256, (height // 16, width // 16, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(small).resize((width, height), Image.BICUBIC).save(out, "JPEG", **how)
    return out.getvalue()


def made(what, limit):
    """(name, bytes) of every sample."""
    rng = np.random.default_rng(7)
    if what == "bombs":
        bomb, good = png(13000), png(40)
        return [("png", good if i % 8 == 0 else bomb) for i in range(32)]
    if what == "large":
        side = int((limit / 3 / 4) ** 0.5)
        return [("png", png(side))] * 12
    if what == "photos":
        few = [photo(i, 1600, 1200, progressive=i % 3 == 0, quality=85) for i in range(6)]
        return [("jpg", few[i % 6]) for i in range(48)]
    if what == "ragged":
        return [("bin", rng.bytes(int(rng.integers(1, 2 * MB if i % 10 else limit // 16)))) for i in range(60)]
    return [("txt.gz", gzip.compress(bytes(int(rng.integers(1, limit // 16))), 6)) for i in range(24)]


CHAINS = {"bombs": "from(png) | image | resize((32, 32))", "large": "from(png) | image | resize((32, 32))",
          "photos": "from(jpg) | image | random_resized_crop(64)", "ragged": "from(bin) | bytes",
          "unpacked": "from(txt) | bytes"}


def shard(folder, what, limit):
    path = os.path.join(folder, f"{what}-{limit}.tar")
    if not os.path.exists(path):
        with tarfile.open(path + ".part", "w", format=tarfile.USTAR_FORMAT) as tar:
            for i, (name, data) in enumerate(made(what, limit)):
                info = tarfile.TarInfo(f"{i:04}.{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        os.rename(path + ".part", path)
    return path


def anonymous():
    """Bytes of memory that is no file's."""
    with open("/proc/self/status", encoding="ascii") as f:
        return int(next(line for line in f if line.startswith("RssAnon")).split()[1]) * 1024


def switches():
    """How often this thread gave up its core, wanting to or not."""
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_nvcsw + used.ru_nivcsw


class Watch(threading.Thread):
    """The most that the process had, every few milliseconds, beside what the loader said then."""

    def __init__(self, loader):
        super().__init__(daemon=True)
        self.loader, self.base, self.most, self.beyond, self.looks, self.over = loader, anonymous(), 0, 0, 0, False

    def look(self):
        start, before = switches(), self.loader.stats()["memory"]
        now = anonymous() - self.base
        said = max(before, self.loader.stats()["memory"])
        self.most = max(self.most, now)
        if switches() == start:         # else a picture may have come and gone meanwhile
            self.beyond, self.looks = max(self.beyond, now - said), self.looks + 1

    def run(self):
        while not self.over:
            self.look()
            time.sleep(0.003)


def main(folder, what, limit, workers, batches):
    import stoker
    limit, workers, batches = int(limit) * MB, int(workers), int(batches)
    path = shard(folder, what, limit)
    options = {"batch_size": 4, "prefetch": 2, "on_error": "skip" if what == "bombs" else "raise"}
    with stoker.Loader(shard(folder, "photos", limit), {"x": CHAINS["photos"]}, num_workers=1) as loader:
        next(iter(loader))  # what is imported and opened once
    with stoker.Loader(path, {"x": CHAINS[what]}, num_workers=workers, memory_limit=limit, shuffle=True,
                       seed=3, **options) as loader:
        watch, rows, got = Watch(loader), 0, 0
        watch.start()
        while got < batches:
            for batch in loader:
                rows += len(batch["x"])
                got += 1
                if got == batches:
                    break
        watch.over = True
        watch.join()
        stats = loader.stats()
    print(json.dumps({"rows": rows, "rss": watch.most, "beyond": watch.beyond, "peak": stats["memory_peak"],
                      "limit": limit, "looks": watch.looks, "skipped": stats["skipped"], "of": stats["memory_of"],
                      "after": anonymous() - watch.base}))


if __name__ == "__main__":
    sys.modules["torch"] = None         # its import takes longer than the rest
    main(*sys.argv[1:])
