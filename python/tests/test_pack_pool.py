# SPDX-License-Identifier: Apache-2.0
"""Processes that run functions at pack time: what happens when they die, hang, or can not be started fresh."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pack_functions as f
import pytest
from conftest import SAMPLES

import stoker
from stoker import _pack_pool


def shards_of(folder):
    return {p.name: p.read_bytes() for p in sorted(Path(folder).glob("*.tar"))}


def failed_in(folder):
    return [json.loads(line) for line in (folder / ".stoker/shard-%06d.tar.failed").read_text().splitlines()]


def test_a_crash_costs_one_sample(urls, tmp_path):
    with pytest.raises(stoker.StokerError, match="sample 000042: the process that worked at it ended with status 9, twice") as e:
        stoker.pack(urls, tmp_path / "raised", map=f.crashes, samples=20, num_proc=2)
    assert e.value.sample == 42
    done = stoker.pack(urls, tmp_path / "out", map=f.crashes, samples=20, num_proc=2, on_error="skip")
    assert (done["failed"], done["samples"]) == (1, SAMPLES - 1)
    assert [(x["sample"], x["key"]) for x in failed_in(tmp_path / "out")] == [(42, "000042")]
    again = stoker.pack(urls, tmp_path / "out", map=f.crashes, samples=20, num_proc=2, on_error="skip")
    assert again["kept_shards"] == done["shards"]


def test_killed_processes_cost_nothing(urls, tmp_path):
    (tmp_path / "marks").mkdir()
    stoker.pack(urls, tmp_path / "want", map=f.keep, samples=20, num_proc=2)
    done = stoker.pack(urls, tmp_path / "out", map=f.KilledOnce(str(tmp_path / "marks")), samples=20, num_proc=2)
    assert len(os.listdir(tmp_path / "marks")) == 10 and done["failed"] == 0
    assert shards_of(tmp_path / "out") == shards_of(tmp_path / "want")


def test_a_library_that_hangs(urls, tmp_path, monkeypatch):
    """Where Python looks at no signal, the process is killed."""
    monkeypatch.setattr(_pack_pool, "_GRACE", 0.0)
    done = stoker.pack(urls, tmp_path / "out", map=f.hangs_in_c, samples=2, select=[40, 41, 42, 43], num_proc=1, on_error="skip", timeout=1)
    assert done["failed"] + done["samples"] == 4
    assert "it took more than 1 s" in [x["reason"] for x in failed_in(tmp_path / "out") if x["sample"] == 42]


SCRIPT = """
import sys, threading, time
import stoker
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
def named(sample):
    return sample
word = "x"
print("runs")
for i, fn in enumerate((named, lambda s: {**s, "w": word})):
    print(stoker.pack(sys.argv[1], f"{sys.argv[2]}/{i}", map=fn, num_proc=2, samples=40)["samples"])
"""


@pytest.mark.parametrize("how", ["script", "typed"])
def test_functions_of_a_script_that_has_threads(urls, tmp_path, how):
    """Fresh processes would not find them, or would run the script once more."""
    (tmp_path / "job.py").write_text(SCRIPT)
    args = [str(tmp_path / "job.py")] if how == "script" else ["-c", SCRIPT]
    done = subprocess.run([sys.executable, *args, str(urls), str(tmp_path)], capture_output=True, text=True, timeout=180,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["runs", str(SAMPLES), str(SAMPLES)]


def test_workers_end_with_their_driver(urls, tmp_path):
    code = (f"import os, time, stoker\n"
            f"def fn(s):\n"
            f"    open({str(tmp_path)!r} + '/' + str(os.getpid()), 'w').close()\n"
            f"    time.sleep(600)\n"
            f"stoker.pack({str(urls)!r}, {str(tmp_path / 'out')!r}, map=fn, num_proc=2, samples=10)\n")
    driver = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    until = time.monotonic() + 120
    while len(pids := [int(p.name) for p in tmp_path.iterdir() if p.name.isdecimal()]) < 2:
        assert time.monotonic() < until and driver.poll() is None
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < until + 60
        time.sleep(0.05)


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
