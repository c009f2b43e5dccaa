# SPDX-License-Identifier: Apache-2.0
"""pack(arrays=True): fields as .npy files, one row per sample."""

import io
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import SAMPLES, jpeg, picture, write_tar

import stoker

CLI = os.environ.get("STOKER_CLI", str(Path(stoker.__file__).parent / "stoker-cli"))
FIELDS = {"x": "from(jpg) | image | resize((24, 20)) | to(u8, chw)", "y": "from(cls) | int", "z": "from(jpg) | image | resize((2, 3)) | to(f32)"}


def files_of(folder):
    return {p.name: p.read_bytes() for p in sorted(Path(folder).glob("*.npy"))}


def joined(folder, name):
    return np.concatenate([np.load(p) for p in sorted(Path(folder).glob(name + "-*.npy"))])


def same_rows(folder, urls, ids):
    want = stoker.open(urls, FIELDS)
    for name in FIELDS:
        got = joined(folder, name)
        assert len(got) == len(ids)
        for row, i in zip(got, ids, strict=True):
            assert np.array_equal(row, np.asarray(want[i][name])), (name, i)


def test_rows_are_what_chains_make(urls, tmp_path):
    done = stoker.pack(urls, tmp_path / "one", fields=FIELDS, arrays=True, samples=30, num_proc=1)
    assert (done["shards"], done["samples"], done["failed"]) == (4, SAMPLES, 0)
    assert done["pattern"] == str(tmp_path / "one") + "/{x-*.npy,y-*.npy,z-*.npy}"
    assert done["bytes"] == sum(map(len, files_of(tmp_path / "one").values()))
    same_rows(tmp_path / "one", urls, range(SAMPLES))
    stoker.pack(urls, tmp_path / "eight", fields=FIELDS, arrays=True, samples=30, num_proc=8)
    assert files_of(tmp_path / "eight") == files_of(tmp_path / "one")
    assert stoker.pack(urls, tmp_path / "one", fields=FIELDS, arrays=True, samples=30)["kept_shards"] == 4
    loader = stoker.Loader({"x": str(tmp_path / "one/x-*.npy"), "y": str(tmp_path / "one/y-*.npy")}, batch_size=SAMPLES)
    batch = next(iter(loader))
    assert np.array_equal(np.asarray(batch["x"]), joined(tmp_path / "one", "x"))


def test_shuffled_selected_and_split(urls, tmp_path):
    ids = list(range(40, 3, -3))
    stoker.pack(urls, tmp_path / "some", fields=FIELDS, arrays=True, select=ids, samples=5)
    same_rows(tmp_path / "some", urls, ids)
    parts = stoker.pack(urls, tmp_path / "split", fields=FIELDS, arrays=True, split={"a": 0.7, "b": 0.3}, shuffle=2)
    names = set(files_of(tmp_path / "split"))
    assert names == {f"{part}-{field}-000000.npy" for part in "ab" for field in "xyz"}
    assert sum(len(joined(tmp_path / "split", f"{part}-x")) for part in "ab") == SAMPLES == sum(p["samples"] for p in parts.values())


def test_parts_and_what_is_missing(urls, tmp_path):
    stoker.pack(urls, tmp_path / "want", fields=FIELDS, arrays=True, samples=9, shuffle=4)
    plan = str(tmp_path / "plan.json")
    fields = [x for name, chain in FIELDS.items() for x in ("--field", f"{name}={chain}")]

    def cli(*args):
        return subprocess.run([CLI, "pack", *args], capture_output=True, text=True, timeout=180)

    assert cli(urls, str(tmp_path / "out"), "--arrays", *fields, "--samples", "9", "--shuffle", "4", "--write-plan", plan).returncode == 0
    assert cli("--from-plan", plan, "--part", "1/3").returncode == 0
    missing = cli("--from-plan", plan, "--merge")
    assert missing.returncode and "shards are not there yet" in missing.stderr
    for part in ("0/3", "2/3"):
        assert cli("--from-plan", plan, "--part", part).returncode == 0
    done = cli("--from-plan", plan, "--merge", "--json")
    assert json.loads(done.stdout)["samples"] == SAMPLES
    want = files_of(tmp_path / "want")
    assert files_of(tmp_path / "out") == want
    os.unlink(tmp_path / "out/x-000003.npy")        # a shard of which a file is missing is made again, the others stay
    untouched = (tmp_path / "out/y-000002.npy").stat().st_mtime_ns
    done = stoker.pack(urls, tmp_path / "out", fields=FIELDS, arrays=True, samples=9, shuffle=4)
    assert files_of(tmp_path / "out") == want and done["kept_shards"] == done["shards"] - 1
    assert (tmp_path / "out/y-000002.npy").stat().st_mtime_ns == untouched


def test_bad_samples_have_no_row(damaged, tmp_path):
    fields = {"x": "from(jpg) | image | resize((8, 8)) | to(u8, hwc)"}
    done = stoker.pack(damaged, tmp_path / "out", fields=fields, arrays=True, samples=10)
    assert done["failed"] >= 1 and len(joined(tmp_path / "out", "x")) == done["samples"] == 40 - done["failed"]
    listed = [json.loads(line) for f in (tmp_path / "out/.stoker").glob("*.failed") for line in f.read_text().splitlines()]
    assert len(listed) == done["failed"]


def test_ragged_rows_are_refused(urls, tmp_path):
    with pytest.raises(stoker.StokerError, match=r"field x: sample .* has a row of shape .* resize, crop or pad"):
        stoker.pack(urls, tmp_path / "out", fields={"x": "from(jpg) | image | to(u8, hwc)"}, arrays=True)
    assert not files_of(tmp_path / "out")
    sizes = [(40, 30)] * 8 + [(50, 30)] * 8         # each process sees one shape only
    src = write_tar(tmp_path / "two.tar", [(f"{i:04d}.jpg", jpeg(picture(i, *size))) for i, size in enumerate(sizes)])
    plan = str(tmp_path / "plan.json")
    field = ["--field", "x=from(jpg) | image | to(u8, hwc)"]
    for args in ([str(src), str(tmp_path / "parts"), "--arrays", *field, "--samples", "8", "--write-plan", plan],
                 ["--from-plan", plan, "--part", "0/2"], ["--from-plan", plan, "--part", "1/2"]):
        subprocess.run([CLI, "pack", *args], check=True, capture_output=True, timeout=180)
    done = subprocess.run([CLI, "pack", "--from-plan", plan, "--merge"], capture_output=True, text=True, timeout=180)
    assert done.returncode and "another shape or type" in done.stderr and "x-000001.npy" in done.stderr


def test_errors_name_the_remedy(urls, tmp_path):
    with pytest.raises(stoker.StokerError, match="fields that chains make"):
        stoker.pack(urls, tmp_path / "out", arrays=True)
    with pytest.raises(stoker.StokerError, match="leave encode"):
        stoker.pack(urls, tmp_path / "out", arrays=True, fields={"x": "from(jpg) | image | encode(png)"})
    with pytest.raises(stoker.StokerError, match="local folder"):
        stoker.pack(urls, tmp_path / "x-%06d.npy", arrays=True, fields=FIELDS)
    with pytest.raises(stoker.StokerError, match="not compressed"):
        stoker.pack(urls, tmp_path / "out", arrays=True, fields=FIELDS, compress="gz")
    with pytest.raises(stoker.StokerError, match="pack twice"):
        stoker.pack(urls, tmp_path / "out", arrays=True, filter=len)
    (tmp_path / "mine").mkdir()
    with io.BytesIO() as f:
        np.save(f, np.zeros(3))
        (tmp_path / "mine/y-000000.npy").write_bytes(f.getvalue())
    with pytest.raises(stoker.StokerError, match="not of this pack"):
        stoker.pack(urls, tmp_path / "mine", arrays=True, fields=FIELDS)
    stoker.pack(urls, tmp_path / "mine", arrays=True, fields=FIELDS, force=True)
    same_rows(tmp_path / "mine", urls, range(SAMPLES))
