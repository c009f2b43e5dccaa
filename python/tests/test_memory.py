# SPDX-License-Identifier: Apache-2.0
"""memory_limit is what the process takes: bombs, photos, ragged rows, unpacked fields, any number of workers.

tests/soak/limits.py runs one loader in a process of its own; SOAK_LIMITS=1 is the long version, of make soak."""

import json
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "..", "tests", "soak", "limits.py")
SLACK = 12_000_000  # stacks, contexts of decoders, the heap's own: little, and no matter how large the data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("memory"))


def run(folder, what, limit, workers, batches):
    done = subprocess.run([sys.executable, PROGRAM, folder, what, str(limit), str(workers), str(batches)],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


LONG = os.environ.get("SOAK_LIMITS")
KINDS = ["bombs", "large", "photos", "ragged", "unpacked"]
CASES = [(what, workers) for what in KINDS for workers in (1, 4, 16)] if LONG else [
    ("bombs", 4), ("large", 16), ("photos", 16), ("ragged", 4), ("unpacked", 16), ("large", 1)]


@pytest.mark.parametrize("what, workers", CASES)
def test_within_the_limit(folder, what, workers):
    limit, batches = (300, 200) if LONG and what != "large" else (60, 6)
    got = run(folder, what, limit, workers, batches)
    assert got["rows"] == 4 * batches
    assert got["peak"] <= got["limit"]
    assert got["rss"] <= 1.1 * got["limit"] + SLACK, got
    assert got["looks"] and got["beyond"] <= 0.1 * got["limit"] + SLACK, got  # the figures are the process's
    assert (got["skipped"] > 0) == (what == "bombs")


def test_a_picture_that_never_fits(folder, tmp_path):
    sys.path.insert(0, os.path.dirname(PROGRAM))
    import limits

    import stoker
    path = limits.shard(folder, "bombs", 60_000_000)
    with stoker.Loader(path, {"x": "from(png) | image | resize((32, 32))"}, batch_size=2, num_workers=2,
                       memory_limit="100MB") as loader, pytest.raises(stoker.StokerError) as caught:
        for _ in loader:
            pass
    assert "takes 678 MB" in str(caught.value) and "which is 100 MB" in str(caught.value)
    assert "key 0001" in str(caught.value) and caught.value.code == "ELIMIT"


PROBE = """
import sys
sys.modules["torch"] = None
import stoker
kept = []
with stoker.Loader(sys.argv[1], {"x": "from(jpg) | image | resize((512, 512)) | to(f32)"}, batch_size=8, num_workers=2,
                   memory_limit="64GB") as loader:
    import resource
    with open("/proc/self/status") as f:
        size = int(next(line for line in f if line.startswith("VmSize")).split()[1]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (size + 300_000_000, -1))
    try:
        for i in range(100):
            for batch in loader:
                kept.append(batch)
    except stoker.StokerError as e:
        print(e.code, e)
"""


def test_out_of_address_space(folder):
    sys.path.insert(0, os.path.dirname(PROGRAM))
    import limits
    path = limits.shard(folder, "photos", 60_000_000)
    done = subprocess.run([sys.executable, "-c", PROBE, path], capture_output=True, text=True, timeout=300)
    assert "ENOMEM" in done.stdout and "you hold" not in done.stdout, done.stdout + done.stderr
