# SPDX-License-Identifier: Apache-2.0
"""stoker pack: what it writes and says; others read its shards."""

import json
import resource
import signal
import subprocess
import tarfile
from pathlib import Path

import pytest
from conftest import CLI, jpeg, write_tar
from test_cli import fails


def members(path):
    with tarfile.open(path) as tar:
        return [(m.name, tar.extractfile(m).read()) for m in tar]


def test_pack(stoker, photos, tmp_path):
    done = stoker("pack", photos, "out", "--name", "train", "--samples", "5")
    assert (done.code, done.err) == (0, "")
    assert done.out == "12 samples in 3 shards, 60.9 KB: out/train-{000000..000002}.tar (N s)\n" \
        .replace("60.9 KB", done.out.split(", ")[1].split(":")[0])
    shards = sorted((tmp_path / "out").glob("*.tar"))
    assert [s.name for s in shards] == [f"train-{i:06d}.tar" for i in range(3)]
    assert sum((members(s) for s in shards), []) == sum(
        (members(s) for s in sorted(photos.glob("*.tar"))), [])
    again = stoker("pack", photos, "out", "--name", "train", "--samples", "5")
    assert again.out == "already there: " + done.out
    assert stoker("index", "out").out.startswith("already there: 3 shards, 12 samples, 2 fields;")


def test_json(stoker, photos):
    found = json.loads(stoker("pack", photos, "out/x-%d.tar", "--bytes", "20KB", "--json").raw)
    size = found.pop("bytes")
    assert found.pop("seconds") >= 0
    shards = found.pop("shards")
    seek = {k: found.pop(k) for k in ("jpegs", "jpegs_without_seek_points", "jpeg_bytes", "seek_bytes", "seek_percent")}
    assert not any(seek.values())
    assert set(found.pop("dropped").values()) == {0}
    assert found == {"written": True, "kept_shards": 0, "samples": 12, "changed_keys": 0, "failed": 0, "left_out": 0,
                     "pattern": f"out/x-{{0..{shards - 1}}}.tar"}
    assert shards > 1 and size / shards < 21000


def test_seek_points(stoker, photos):
    write_tar(photos / "train-000002.tar", [(f"2{i}.jpg", jpeg(i, 192, 144)) for i in range(4)])
    done = stoker("pack", photos, "out", "--jpeg")
    assert done.code == 0 and "; seek points of 4 fields: " in done.out
    assert done.out.rstrip().endswith("% of their bytes (12 without: progressive, damaged or small) (N s)")
    again = json.loads(stoker("pack", photos, "out", "--jpeg", "--json").raw)
    assert (again["written"], again["jpegs"], again["jpegs_without_seek_points"]) == (False, 4, 12)
    assert 0 < again["seek_bytes"] and again["jpeg_bytes"] > 4 * 10000
    fails(stoker("pack", photos, "out2", "--jpeg", "--no-index"), 2,
          "seek points of JPEGs are kept beside the index: pack with one, or without them")


def test_same_input_same_bytes(stoker, photos, tmp_path):
    for workers in (1, 4):
        stoker("pack", photos, f"out{workers}", "--samples", "3", "--shuffle", "9", "--workers", workers)
    one, four = ([p.read_bytes() for p in sorted((tmp_path / f"out{w}").glob("*.tar"))] for w in (1, 4))
    assert one == four and len(one) == 4


def test_gnu_tar_and_webdataset_read_it(stoker, photos, tmp_path):
    webdataset = pytest.importorskip("webdataset")
    long = "a" * 60 + "/" + "b" * 120
    write_tar(photos / "train-000002.tar", [(f"{i}/ü.{f}", b"x%d" % i) for i in range(3) for f in ("txt", "cls")])
    with tarfile.open(photos / "train-000003.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo(long + ".txt"))
    assert stoker("pack", photos, "out").code == 0
    shard = tmp_path / "out/shard-000000.tar"
    names = subprocess.run(["tar", "tf", shard, "--quoting-style=literal"], capture_output=True, check=True).stdout
    assert names.decode().split()[-3:] == ["2/ü.txt", "2/ü.cls", long + ".txt"]
    mine = [(s["__key__"], s.get("txt")) for s in webdataset.WebDataset(str(shard), shardshuffle=False)]
    assert len(mine) == 16 and mine[-1] == (long, b"") and mine[-2] == ("2/ü", b"x2")


def test_refusals(stoker, photos, tmp_path):
    assert stoker("pack", photos, "out", "--samples", "5").code == 0
    fails(stoker("pack", photos, "out", "--samples", "6"), 2,
          "there is a shard of that name that is not of this pack: take another place or name, or replace it "
          "(--force, force=True) [shard out/shard-000000.tar]".replace(
              "out/shard-000000.tar", first_foreign(stoker, photos)))
    done = stoker("pack", photos, "out", "--samples", "6", "--force")
    assert done.code == 0 and len(list((tmp_path / "out").glob("*.tar"))) == 2
    fails(stoker("pack", photos, photos / "train-%06d.tar", "--force"), 2,
          "this shard is read and would be written over: pack to another place or name [shard DIR/photos/"
          + stoker("pack", photos, photos / "train-%06d.tar", "--force").err.rpartition("/")[2].rstrip())
    assert len(list(photos.glob("*.tar"))) == 2


def first_foreign(stoker, photos):
    """Which of several shards is met first is the folder's affair."""
    return stoker("pack", photos, "out", "--samples", "6").err.rpartition("[shard ")[2].rstrip("]\n")


@pytest.mark.parametrize("args, line", [
    (["x.tar"], "pack needs data and a target: stoker pack photos/ shards/; try 'stoker pack --help'"),
    (["x.tar", "out-%d-%d.tar"], None),
    (["x.tar", "out", "--bytes", "much"], '--bytes is a size like 500MB or 1GiB, not "much"'),
    (["x.tar", "out", "--name", "a/b"], '--name is the beginning of a file\'s name, not "a/b"'),
    (["x.tar", "out", "--samples", "0"], '--samples is a number from 1 to 1e+15, not "0"'),
])
def test_wrong_usage(stoker, photos, args, line):
    (photos.parent / "x.tar").write_bytes((photos / "train-000000.tar").read_bytes())
    line = line or "the shards' name out-%d-%d.tar needs one number, as in train-%06d.tar"
    fails(stoker("pack", *args), 2, line)


def test_full_disk_leaves_nothing(photos, tmp_path):
    """A limit on file sizes stands for a disk that is full."""
    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))

    done = subprocess.run([CLI, "pack", photos, "out"], cwd=tmp_path, capture_output=True, text=True,
                          preexec_fn=limited, restore_signals=False, timeout=60)
    assert done.returncode == 3
    assert "no room" in done.stderr and done.stderr.count("\n") == 1
    assert [p.name for p in Path(tmp_path / "out").iterdir()] == [".stoker"]


def test_keys_that_tar_cannot_hold(stoker, tmp_path):
    write_tar(tmp_path / "a.tar", [("k.txt", b"1")])
    write_tar(tmp_path / "b.tar", [("k.txt", b"2"), ("l.jpg", jpeg(1))])
    done = stoker("pack", "a.tar", "b.tar", "out")
    assert "; 1 key changed to what tar shards can hold" in done.out
    assert [n for n, _ in members(tmp_path / "out/shard-000000.tar")] == ["k.txt", "k_2.txt", "l.jpg"]


def test_folder_with_classes(stoker, tmp_path):
    for name, seed in (("dog/b.jpg", 1), ("cat/a.1.jpg", 2), ("cat/c.jpg", 3)):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(jpeg(seed))
    assert stoker("pack", "photos", "out").code == 0
    assert (tmp_path / "out/classes.txt").read_text() == "cat\ndog\n"
    assert [(n, d) for n, d in members(tmp_path / "out/shard-000000.tar") if n.endswith(".cls")] == [
        ("cat/a_1.cls", b"0"), ("cat/c.cls", b"0"), ("dog/b.cls", b"1")]
    (tmp_path / "out/classes.txt").write_text("dog\ncat\n")
    fails(stoker("pack", "photos", "out"), 2, "out/classes.txt is another list of classes: take another place, or "
          "replace it (--force, force=True)")
    assert stoker("pack", "photos", "out", "--force").code == 0
    assert (tmp_path / "out/classes.txt").read_text() == "cat\ndog\n"
