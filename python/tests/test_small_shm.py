# SPDX-License-Identifier: Apache-2.0
"""Worker processes where /dev/shm has 64 MB, as containers have it, and a process has 64 descriptors."""

import os
import shutil
import subprocess
import sys

import pytest

import stoker

SMALL = "mount -t tmpfs -o size=64m tmpfs /dev/shm"


def permitted():
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-m", "sh", "-c", SMALL], capture_output=True, timeout=60).returncode == 0


def test_batches_need_no_shm(urls):
    """200 MB of batches are held at a time, through a ring and through functions in chains."""
    if not permitted():
        pytest.skip("a mount of its own is not permitted here")
    package = os.path.dirname(os.path.dirname(stoker.__file__))
    done = subprocess.run(["unshare", "-m", "sh", "-c", SMALL + ' && exec "$@"', "sh", sys.executable, "-c", CODE, urls],
                          env={**os.environ, "PYTHONPATH": package}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 batches held, /dev/shm has 0 bytes" in done.stdout and "100 pictures" in done.stdout


CODE = """
import os, resource, sys
sys.modules["torch"] = None                    # its import takes seconds
import numpy as np
import stoker

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

class Large:
    def __len__(self):
        return 80
    def __getitem__(self, i):
        return np.full((2_500_000,), i % 251, np.uint8)

def same(image):
    return image

if __name__ == "__main__":
    assert os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize == 64 << 20
    with stoker.Loader(Large(), batch_size=4, num_workers=2) as loader:
        held = [batch for batch in loader]
        assert all((np.asarray(b)[k] == (4 * n + k) % 251).all() for n, b in enumerate(held) for k in range(4))
        used = os.statvfs("/dev/shm")
        print(len(held), "batches held, /dev/shm has", (used.f_blocks - used.f_bfree) * used.f_frsize, "bytes")
    fields = {"image": stoker.from_("jpg").image().resize((32, 32)).call(same).to("f32")}
    with stoker.Loader(sys.argv[1], fields, batch_size=10, num_workers=2) as loader:
        print(sum(len(b["image"]) for b in loader), "pictures")
"""
