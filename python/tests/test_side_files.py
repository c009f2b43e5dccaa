# SPDX-License-Identifier: Apache-2.0
"""Files beside the data: cut off under a running loader, full disks, planted links, several processes at once."""

import contextlib
import logging
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import check_python, epoch_of, jpeg, picture, run_python, write_tar
from PIL import Image

import stoker

CLI = Path(os.environ.get("STOKER_CLI", Path(__file__).resolve().parents[2] / "build/cli/stoker"))
IMAGE = {"image": "from(jpg) | image | center_crop(16) | to(u8)"}


def photos(path, n=40, seed=0):
    """A few pictures again and again, large enough that seek points pay."""
    noise = np.random.default_rng(seed).integers(-20, 20, (240, 320, 3))
    made = [jpeg(Image.fromarray((np.asarray(picture(seed + i, 320, 240)) + noise).clip(0, 255).astype("u1")))
            for i in range(4)]
    return str(write_tar(path, [m for i in range(n) for m in ((f"{i:04d}.jpg", made[i % 4]),
                                                              (f"{i:04d}.cls", b"%d" % (i % 10)))]))


def command(*args, env=None, **options):
    if not CLI.exists():
        pytest.skip(f"{CLI} is not built")
    return subprocess.Popen([CLI, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, **(env or {})}, **options)


def left_over(folder):
    return sorted(str(p) for p in Path(folder).rglob("*") if ".tmp." in p.name or p.name.endswith(".lock"))


# ---- cut off under a running loader ---------------------------------------------------------------

# Goes on until an error; a signal is another exit status.
CUT = """
    import glob, os, sys, time, stoker
    data, fields, cut, length = sys.argv[1], eval(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    loader = stoker.Loader(data, fields, batch_size=4, num_workers=2, prefetch=2, shuffle=False)
    batches = iter(loader)
    next(batches)
    def filled():
        stats = loader.stats()
        return stats["ring"]["ready"] == stats["ring"]["ahead"] and all(d["stage"] == "idle" for d in stats["doing"])
    end = time.monotonic() + 60
    while not filled() and time.monotonic() < end:      # then the workers wait, and read nothing
        time.sleep(0.01)
    for path in glob.glob(cut):
        os.truncate(path, length)
    time.sleep(0.05)                # files that are mapped are looked at every 2 ms
    try:
        for _ in range(3):
            for _ in batches:
                pass
            batches = iter(loader)
        print("went on")
    except stoker.StokerError as e:
        print(e)
"""


def cut(data, fields, path, length=0, code=CUT):
    done = run_python(code, data, repr(fields), path, length)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stdout}\n{done.stderr}"
    return done.stdout


def test_an_index_that_is_cut_off(tmp_path):
    """Of more than one block: what was not touched yet is an error with its name."""
    shard = write_tar(tmp_path / "a.tar", [(f"{i:05d}.cls", b"1") for i in range(15000)])
    stoker.open(shard)
    said = cut(shard, {"x": "from(cls) | int"}, tmp_path / ".stoker/*.idx", 5000)
    assert ".idx had" in said and "has 5000 now" in said


def test_seek_points_that_are_cut_off(tmp_path):
    shard = photos(tmp_path / "a.tar", 400)
    stoker.open(shard, jpeg=True)
    assert "went on" in cut(shard, IMAGE, tmp_path / ".stoker/*.seek", 200)


def test_a_shard_that_is_cut_off(tmp_path):
    shard = photos(tmp_path / "a.tar", 400)
    assert "a.tar" in cut(shard, IMAGE, shard, 3000)


def test_an_array_that_is_cut_off(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((60000, 1024), "u1"))
    said = cut(tmp_path / "a.npy", {"x": "from(array)"}, tmp_path / "a.npy", 5000)
    assert "5000 bytes and had" in said and "a.npy" in said


def test_tokens_that_are_cut_off(tmp_path):
    np.zeros(40_000_000, "u2").tofile(tmp_path / "a.bin")
    said = cut(tmp_path / "a.bin", {"x": "tokens(block=1024)"}, tmp_path / "a.bin", 6000)
    assert "6000 bytes and had" in said and "a.bin" in said


def test_a_megatron_index_that_is_cut_off(tmp_path):
    """It is in memory: nothing is missing."""
    n, d = 5_600_000, 5_600                         # an .idx of more than 64 MiB
    with open(tmp_path / "a.idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + np.array([1], "<u8").tobytes() + b"\x08" + np.array([n, d + 1], "<u8").tobytes())
        np.full(n, 1, "<i4").tofile(f)
        (np.arange(n, dtype="<i8") * 2).tofile(f)
        (np.arange(d + 1, dtype="<i8") * 1000).tofile(f)
    np.zeros(n, "u2").tofile(tmp_path / "a.bin")
    said = cut(tmp_path / "a.bin", {"x": "tokens(block=1024, separator=7)"}, tmp_path / "a.idx", 100)
    assert "went on" in said


READ = """
    import os, sys, numpy, stoker
    ds = stoker.open(sys.argv[1])
    ds[0]
    os.truncate(sys.argv[1], 5000)
    try:
        for i in range(len(ds) - 1, len(ds) - 50, -1):
            ds[i]
    except stoker.StokerError as e:
        print(e)
"""


def test_single_rows_of_an_array_that_is_cut_off(tmp_path):
    """They are read, so there is no moment at all in which a signal could come."""
    np.save(tmp_path / "a.npy", np.zeros((4000, 1024), "u1"))
    said = check_python(READ, tmp_path / "a.npy")
    assert "5000 bytes and had" in said and "a.npy" in said


# ---- full disks -----------------------------------------------------------------------------------

@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder):
    fd = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(fd, bytes(4096)):
            pass
    os.close(fd)


def test_a_full_disk_has_its_index_in_the_cache(small_disk, tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))
    shard = write_tar(small_disk / "a.tar", [(f"{i:04d}.cls", b"1") for i in range(300)])
    (small_disk / ".stoker").mkdir()
    fill(small_disk)
    caplog.set_level(logging.INFO)
    with stoker.Loader(stoker.open(shard), {"x": "from(cls) | int"}, batch_size=10,
                       num_workers=0) as loader:
        assert len(epoch_of(loader)) == 30
    assert len(list((tmp_path / "cache/index").glob("*.idx"))) == 1
    assert left_over(small_disk) == left_over(tmp_path / "cache") == []
    said = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(said) == 1 and "can't be written (No space left on device)" in said[0]
    assert len(stoker.open(shard, columns=["cls"]).column("cls")) == 300


def test_where_the_cache_is_full_too_the_index_is_in_memory(small_disk, monkeypatch, caplog):
    monkeypatch.setenv("STOKER_CACHE", str(small_disk / "cache"))
    shard = write_tar(small_disk / "a.tar", [(f"{i:04d}.cls", b"1") for i in range(300)])
    fill(small_disk)
    assert len(stoker.open(shard)) == 300
    assert "the index stays in memory" in caplog.text
    assert left_over(small_disk) == []


# ---- links that others put there ------------------------------------------------------------------

def test_links_under_the_names_of_before_are_not_followed(tmp_path):
    """What used to be guessable: NAME.PID, .NAME.tmp.PID, NAME.new, NAME.lock."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    code = """
        import os, sys, stoker
        folder, victim = sys.argv[1:]
        pid = os.getpid()
        stoker.open(folder + "/a.tar")
        stem = next(n for n in os.listdir(folder + "/.stoker") if n.endswith(".idx"))[:-4]
        os.makedirs(folder + "/ledger")
        for name in (f"/.w-0.tar.tmp.{pid}", f"/.stoker/{stem}.seek", "/ledger/rank00000-gen0000.stkl.new",
                     "/ledger/rank00000-gen0000.stkl", "/.stoker/w-%00d.tar.pack"):
            os.symlink(victim, folder + name)
        with stoker.Writer(folder + "/w-%d.tar") as out:
            out.write({"__key__": "a", "txt": "x"})
        stoker.open(folder + "/a.tar", jpeg=True)
        with stoker.Loader(folder + "/a.tar", {"x": "from(cls) | int"}, batch_size=4) as loader:
            loader.ledger(folder + "/ledger")
            for b in loader:
                pass
        stoker.pack(folder + "/a.tar", folder + "/p")
    """
    photos(tmp_path / "a.tar", 8)
    check_python(code, tmp_path, victim)
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "ledger/rank00000-gen0000.stkl").is_symlink()


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))
    shard = photos(tmp_path / "a.tar", 8)
    stoker.open(shard)
    index = next((tmp_path / ".stoker").glob("*.idx"))
    index.unlink()
    for end in (".lock", ".seek.lock"):
        index.with_suffix(end).symlink_to(tmp_path / "made")
    stoker.open(shard, jpeg=True)
    assert not (tmp_path / "made").exists()


# ---- several processes at once --------------------------------------------------------------------

@pytest.mark.parametrize("options", [["--jpeg", "--force"], ["--force"], [], ["--columns", "cls"],
                                     ["--jpeg", "--columns", "cls", "--force"]])
def test_four_indexers_at_once(tmp_path, options):
    shards = [photos(tmp_path / f"{k}.tar", 60, k) for k in range(4)]
    for _ in range(2):
        jobs = [command("index", *options, *shards) for _ in range(4)]
        said = [j.communicate()[0] for j in jobs]
        assert [j.returncode for j in jobs] == [0] * 4, said
    assert left_over(tmp_path) == []
    with stoker.Loader(shards, IMAGE, batch_size=16, num_workers=0) as loader:
        epoch_of(loader)
        assert loader.stats()["jpeg_seek"] == (240 if "--jpeg" in options else 0)
    if "--columns" in options:
        assert len(stoker.open(shards).column("cls")) == 240


def test_one_is_killed_among_them(tmp_path):
    shards = [photos(tmp_path / f"{k}.tar", 60, k) for k in range(4)]
    for wait in (0.005, 0.02, 0.05):
        first, second = (command("index", "--jpeg", "--force", *shards) for _ in range(2))
        try:
            first.wait(wait)
        except subprocess.TimeoutExpired:
            first.kill()
        first.communicate()
        said = second.communicate()[0]
        assert second.returncode == 0, said
    last = command("index", "--jpeg", "--force", *shards)
    assert last.wait() == 0, last.communicate()
    assert left_over(tmp_path) == []


# ---- shards that are rewritten at the same size ---------------------------------------------------

N, BETWEEN = 100, (8, 9)            # of 100 samples the fingerprint looks at 0, 6, 13, ...: not at these two


def labels(path, change=None, times=0):
    """100 small samples; `change` is made to those of two."""
    members = [[f"{i:04d}.cls", b"%d" % (i % 10), f"{i:04d}.bin", bytes(100 + i)] for i in range(N)]
    if change:
        change(members[BETWEEN[0]], members[BETWEEN[1]])
    write_tar(path, [(m[k], m[k + 1]) for m in members for k in (0, 2)])
    os.utime(path, ns=(1_700_000_000_000_000_000 + times,) * 2)
    return str(path)


def swap_sizes(a, b):
    a[3], b[3] = b[3], a[3]


def swap_keys(a, b):
    a[0], a[2], b[0], b[2] = b[0], b[2], a[0], a[2]


def new_labels(a, b):
    a[1], b[1] = b"0", b"1"


def load_labels(shard, **options):
    with stoker.Loader(shard, {"x": "from(cls) | int"}, batch_size=N, num_workers=0, shuffle=False, **options) as loader:
        return epoch_of(loader)[0][1]["x"].tolist()


@pytest.mark.parametrize("change", [swap_sizes, swap_keys])
def test_other_members_are_an_error(tmp_path, change):
    shard = labels(tmp_path / "a.tar")
    stoker.open(shard)
    labels(tmp_path / "a.tar", change, 5)
    data = stoker.open(shard)
    with pytest.raises(stoker.StokerError, match=r"rewritten since it was indexed.*stoker index.*a\.tar") as caught:
        load_labels(data)
    assert caught.value.code == "ESTALE"
    with pytest.raises(stoker.StokerError, match="rewritten"):
        data[50]
    assert command("index", shard).wait() == 0
    assert len(load_labels(shard)) == N


def test_fewer_members_are_an_error(tmp_path):
    shard = labels(tmp_path / "a.tar")
    stoker.open(shard)

    def one_less(a, b):
        a[2] = a[0].replace("cls", "x")     # another field

    labels(tmp_path / "a.tar", one_less, 5)
    with pytest.raises(stoker.StokerError, match="rewritten"):
        load_labels(shard)


def test_a_touch_or_other_values_go_on(tmp_path):
    shard = labels(tmp_path / "a.tar")
    plain = load_labels(shard)
    labels(tmp_path / "a.tar", None, 5)
    assert load_labels(shard) == plain
    labels(tmp_path / "a.tar", new_labels, 6)
    now = load_labels(shard)
    assert (now[8], now[9]) == (0, 1) and now[:8] == plain[:8]


def test_columns_of_a_rewritten_shard_are_read_again(tmp_path):
    shards = [labels(tmp_path / "a.tar"), labels(tmp_path / "b.tar")]
    assert command("index", "--columns", "cls", *shards).wait() == 0
    labels(tmp_path / "a.tar", new_labels, 5)
    assert command("index", "--columns", "cls", *shards).wait() == 0
    assert stoker.open(shards).column("cls").tolist()[7:11] == [7, 0, 1, 0]
    labels(tmp_path / "a.tar", None, 6)
    assert command("index", *shards).wait() == 0            # also unasked: the index knows the column
    assert stoker.open(shards).column("cls").tolist()[7:11] == [7, 8, 9, 0]


def test_seek_points_of_a_rewritten_shard_are_made_again(tmp_path):
    noise = np.random.default_rng(1).integers(-20, 20, (240, 320, 3))
    made = [jpeg(Image.fromarray((np.asarray(picture(i, 320, 240)) + noise).clip(0, 255).astype("u1"))) for i in range(2)]
    size = max(map(len, made))
    made = [m + b"\0" * (size - len(m)) for m in made]

    def write(which, times):
        write_tar(tmp_path / "a.tar", [(f"{i:04d}.jpg", made[which if i in BETWEEN else 0]) for i in range(N)])
        os.utime(tmp_path / "a.tar", ns=(1_700_000_000_000_000_000 + times,) * 2)

    write(0, 0)
    assert command("index", "--jpeg", tmp_path / "a.tar").wait() == 0
    write(1, 5)
    assert command("index", "--jpeg", tmp_path / "a.tar").wait() == 0
    with stoker.Loader(tmp_path / "a.tar", IMAGE, batch_size=10, num_workers=0) as loader:
        epoch_of(loader)
        assert (loader.stats()["jpeg_seek"], loader.stats()["jpeg_misfit"]) == (N, 0)


def test_lengths_of_a_rewritten_shard_are_measured_again(tmp_path):
    def write(text, times):
        write_tar(tmp_path / "a.tar", [(f"{i:04d}.txt", text if i in BETWEEN else b"1 2 3 4 ") for i in range(N)])
        os.utime(tmp_path / "a.tar", ns=(1_700_000_000_000_000_000 + times,) * 2)

    def rows():
        with stoker.Loader(tmp_path / "a.tar", {"x": "from(txt) | ints"}, max_tokens=64, collate="list",
                           num_workers=0) as loader:
            return sorted(len(x) for b in loader for x in b["x"])

    write(b"12345678", 0)
    assert rows()[:3] == [1, 1, 4]
    write(b"1 2 3  4", 5)
    assert rows()[:3] == [4, 4, 4]
    first = next((tmp_path / ".stoker").glob("*.len")).read_bytes()
    assert first[32:] == np.full(N, 4, "<u4").tobytes()
