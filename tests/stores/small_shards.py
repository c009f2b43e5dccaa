# SPDX-License-Identifier: Apache-2.0
"""Shards of random bytes for tests of remote data."""
import io
import random
import tarfile

SHARDS, EACH = 3, 40


def make_shards(folder, seed, most=40000, least=1):
    rng, k = random.Random(seed), 0
    folder.mkdir(exist_ok=True)
    for s in range(SHARDS):
        with tarfile.open(folder / f"t-{s:03}.tar", "w") as tar:
            for _ in range(EACH):
                for ext, data in (("bin", rng.randbytes(rng.randint(least, most))), ("cls", str(k % 10).encode())):
                    info = tarfile.TarInfo(f"{k:06}.{ext}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
                k += 1
