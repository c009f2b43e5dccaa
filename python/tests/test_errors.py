# SPDX-License-Identifier: Apache-2.0
"""Bad input: one clear line through StokerError, also the built-in exception that fits."""

import io
import logging
import os
import pickle
import re
import shutil
import struct
import sys
import tarfile

import pytest
from conftest import LABEL, SAMPLES, epoch_of, ids_of, jpeg, picture, write_tar

import stoker

pytestmark = pytest.mark.asan
IMAGE = {"image": "from(jpg) | image | resize((16, 16)) | to(f32)"}


def error_of(*args, epochs=1, **kwargs):
    """The StokerError of opening a loader or of running it."""
    with pytest.raises(stoker.StokerError) as caught, stoker.Loader(*args, **kwargs) as loader:
        for _ in range(epochs):
            ids_of(loader)
    error = caught.value
    assert "\n" not in str(error) and len(str(error)) > 10
    return error


# ---- arguments -----------------------------------------------------------------------------------

@pytest.mark.parametrize("option, value, says", [
    ("batch_size", 0, "at least 1"), ("batch_size", -3, "at least 1"), ("batch_size", True, "whole"),
    ("batch_size", 2.0, "whole"), ("batch_size", "8", "whole"), ("batch_size", 10**9, "at most"),
    ("batch_size", None, "whole"), ("num_workers", -1, "at least 0"), ("num_workers", 1.5, "whole"),
    ("num_workers", 5000, "num_workers"), ("prefetch", 0, "at least 1"), ("prefetch", 10**6, "prefetch"),
    ("seed", -1, "at least 0"), ("seed", 2**64, "at most"), ("streams", 4, "block"), ("window", 4, "block"),
    ("shuffle", "blok", "shuffle"), ("shuffle", 3, "shuffle"), ("drop_last", 1, "True or False"),
    ("on_error", "ignore", '"skip"'), ("on_error", {"skip": 0}, "at least 1"),
    ("on_error", {"skp": 1}, '"skip"'), ("collate", "padded", '"list"'),
    ("device", "cuda:x", '"cuda:N"'), ("device", "tpu", '"cpu"'), ("decode", "gpu", "device"),
    ("decode", "tpu", "decode"), ("in_flight", 3, "device"), ("sm_limit", 1, "device"), ("pin_memory", 1, "True or False"),
    ("cache", "device", "device"), ("cache", "disk", "cache"), ("device_cache_limit", "1GB", "cache"),
    ("memory_limit", "2 bananas", "2GB"), ("memory_limit", 0, "at least 1"),
    ("memory_limit", "1KB", "memory_limit"), ("max_pixels", 0, "at least 1"),
    ("io_threads", 0, "at least 1"), ("io_threads", 1025, "io_threads must be at most 1024, not 1025"), ("global_batch_size", 0, "at least 1"),
])
def test_bad_option(urls, option, value, says):
    error = error_of(urls, IMAGE, **{"batch_size": 4} if option == "memory_limit" else {},
                     **{option: value})
    assert says in str(error) and isinstance(error, ValueError), str(error)


def test_memory_limit_is_read(urls):
    for text, count in (("2GB", 2 * 10**9), ("1.5 GiB", 3 * 2**29), ("300MB", 3 * 10**8),
                        (10**8, 10**8), ("100000kb", 10**8)):
        with stoker.Loader(urls, LABEL, memory_limit=text) as loader:
            assert loader.stats()["memory_limit"] == count


def test_the_memory_limit_that_an_error_names_is_enough(urls):
    """Its MB are those that memory_limit= reads: typed in, the number opens the loader."""
    fields = {"image": "from(jpg) | image | resize((1000, 1000)) | to(f32)"}
    error = error_of(urls, fields, batch_size=10, memory_limit="50MB")
    megabytes = re.search(r"a memory_limit of (\d+) MB, not 50 MB", str(error))[1]
    stoker.Loader(urls, fields, batch_size=10, memory_limit=f"{megabytes}MB").close()
    assert "memory_limit" in str(error_of(urls, fields, batch_size=10, memory_limit=f"{int(megabytes) - 2}MB"))


@pytest.mark.parametrize("name, near", [("batchsize", "batch_size"), ("workers", "num_workers"),
                                        ("prefetch_factor", "prefetch"), ("xyzzy", None)])
def test_unknown_argument(urls, name, near):
    error = error_of(urls, LABEL, **{name: 3})
    assert name in str(error) and (near is None or f"did you mean `{near}`?" in str(error))


@pytest.mark.parametrize("fields, says", [
    (None, 'the data has jpg, cls, json, txt; for example fields={"image": "from(jpg) | image'),
    ({}, "dict"), ("image", "dict"), ({"image": 7}, "chain"), ({7: "image"}, "name"),
    ({"": "image"}, "name"), ({"a\0": "from(cls) | int"}, "null"),
    ({"image": "from(jpg) | imge"}, "did you mean `image`"),
    ({"image": "from(jpg) | image | hflop"}, "did you mean `hflip`"),
    ({"image": "from(jpg) | image | resize(sice=3)"}, "did you mean `size`"),
    ({"image": "from(jpg) | image | resize((16, 16)) | hflip(p=2)"}, "hflip"),
    ({"image": "from(jpg) | image | resize(16"}, "resize"), ({"image": ""}, ""),
    ({"image": "from(jpgg) | image | resize((8, 8))"}, "jpg"),
    ({"picture": "image | resize((8, 8))"}, "picture"),
])
def test_bad_fields(urls, fields, says):
    error = error_of(urls, fields)
    assert says in str(error), str(error)
    assert isinstance(error, (ValueError, OSError))


def test_ragged_needs_collate(urls):
    error = error_of(urls, {"image": "from(jpg) | image"}, batch_size=4)
    assert isinstance(error, ValueError) and "collate" in str(error)
    with stoker.Loader(urls, {"image": "from(jpg) | image"}, batch_size=1) as loader:
        assert next(iter(loader))["image"].shape == (1, 3, 50, 60)


@pytest.mark.parametrize("data", [None, 7, [], [None], {}])
def test_bad_data(data):
    assert "path" in str(error_of(data, LABEL))


# ---- files ---------------------------------------------------------------------------------------

def test_no_such_file(tmp_path):
    error = error_of(tmp_path / "nothing.tar", LABEL)
    assert isinstance(error, FileNotFoundError) and error.code == "ENOTFOUND"
    assert "nothing.tar" in str(error) and error.shard.endswith("nothing.tar")
    for pattern in ("nothing-*.tar", "no-{0..2}.tar"):
        assert isinstance(error_of(str(tmp_path / pattern), LABEL), OSError)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("a.cls", b"1")])
    path.chmod(0)
    assert isinstance(error_of(path, LABEL), OSError)


def broken_tar(path, how):
    write_tar(path, [(f"{i:03d}.cls", b"%02d" % i * 300) for i in range(20)])   # 1536 bytes each
    raw = bytearray(path.read_bytes())
    if how == "truncated":
        del raw[5 * 1536 + 700:]
    elif how == "checksum":
        raw[5 * 1536 + 3] ^= 0x40
    elif how == "past the end":
        raw = raw[:6 * 1536]
        raw[5 * 1536 + 124:5 * 1536 + 136] = b"00077777777\0"
        fix_checksum(raw, 5 * 1536)
    elif how == "absurd size":
        raw[5 * 1536 + 124:5 * 1536 + 136] = b"\x80" + b"\xff" * 11
        fix_checksum(raw, 5 * 1536)
    path.write_bytes(raw)


def fix_checksum(raw, at):
    raw[at + 148:at + 156] = b" " * 8
    raw[at + 148:at + 156] = b"%06o\0 " % sum(raw[at:at + 512])


@pytest.mark.parametrize("how", ["truncated", "checksum", "past the end", "absurd size"])
def test_broken_tar(tmp_path, how):
    broken_tar(tmp_path / "broken.tar", how)
    error = error_of(tmp_path / "broken.tar", {"cls": "bytes"})
    assert error.code == "ECORRUPT" and isinstance(error, ValueError)
    assert error.shard.endswith("broken.tar") and 5 * 1536 <= error.offset <= 5 * 1536 + 1024
    with pytest.raises(stoker.StokerError):
        stoker.open(tmp_path / "broken.tar")


def test_empty_shards(tmp_path):
    write_tar(tmp_path / "empty.tar", [])
    error = error_of(tmp_path / "empty.tar", LABEL)
    assert isinstance(error, (ValueError, OSError))
    write_tar(tmp_path / "full.tar", [(f"{i}.cls", b"1") for i in range(5)])
    with stoker.Loader([tmp_path / "empty.tar", tmp_path / "full.tar"], LABEL) as loader:
        assert len(ids_of(loader)) == 5


def test_shards_cut_between_members(tmp_path, caplog):
    members = [(f"{i}.{f}", b"1") for i in range(4) for f in ("cls", "txt")]
    whole = write_tar(tmp_path / "a.tar", members).read_bytes()
    (tmp_path / "a.tar").write_bytes(whole[:6 * 1024])
    with caplog.at_level(logging.WARNING):
        assert len(stoker.open(tmp_path / "a.tar")) == 3
    assert ["no end mark" in m and "a.tar" in m for m in caplog.messages] == [True]
    (tmp_path / "b.tar").write_bytes(whole[:7 * 1024])
    with pytest.raises(stoker.StokerError, match='ends inside sample "3".*cut short') as e:
        stoker.open(tmp_path / "b.tar")
    assert e.value.code == "ECORRUPT" and e.value.offset == 7 * 1024 and e.value.shard.endswith("b.tar")
    (tmp_path / "c.tar").write_bytes(b"")
    with pytest.raises(stoker.StokerError, match="0 bytes") as e:
        stoker.open([tmp_path / "a.tar", tmp_path / "c.tar"])
    assert e.value.shard.endswith("c.tar")


def test_json_that_python_cannot_hold(tmp_path):
    """Integers over Python's bound are bad samples: an address, and skip applies. Long strings and reals are not."""
    long = b"1" * 5000
    rows = [b'{"a": [1, %b]}', b'{"a": -%b}', b'{"a": "%b"}', b'{"a": 0.%b}', b'{"a": %be0}', b'{"a": [%b']
    rows = [r % long + (b"]}" if r.endswith(b"[%b") else b"") for r in rows]
    write_tar(tmp_path / "a.tar", [(f"{i}.json", r) for i, r in enumerate(rows)])
    fields = {"meta": "from(json) | json"}
    error = error_of(tmp_path / "a.tar", fields)
    assert error.code == "ECORRUPT" and (error.key, error.offset) == ("0", 512)
    assert "an integer of 5000 digits" in str(error) and error.shard.endswith("a.tar")
    with stoker.Loader(tmp_path / "a.tar", fields, batch_size=6, on_error="skip") as loader:
        batch = next(iter(loader))
        assert [bool(v) for v in batch.valid] == [False, False, True, True, True, False]
        assert batch["meta"][2] == {"a": "1" * 5000} and batch["meta"][3]["a"] > 0.11
    with pytest.raises(stoker.StokerError, match="5000 digits"):
        stoker.open(tmp_path / "a.tar", fields=fields)[1]
    write_tar(tmp_path / "b.tar", [("x.json", b"1"), ("y.json", b"1" * 2000)])
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(1000)
    try:
        error = error_of(tmp_path / "b.tar", fields)
    finally:
        sys.set_int_max_str_digits(before)
    assert (error.code, error.key, error.sample) == ("ECORRUPT", "y", 1) and error.shard.endswith("b.tar")


def test_duplicate_fields(tmp_path):
    write_tar(tmp_path / "twice.tar", [("a.cls", b"1"), ("a.cls", b"2")])
    error = error_of(tmp_path / "twice.tar", LABEL)
    assert error.code == "ECORRUPT" and error.shard.endswith("twice.tar")


@pytest.fixture
def own(data, tmp_path):
    """A copy of the data that a test may damage."""
    for path in data.glob("*.tar"):
        shutil.copy2(path, tmp_path / path.name)
    return tmp_path


def test_shard_truncated_in_the_middle_of_an_epoch(own):
    with stoker.Loader(str(own / "*.tar"), IMAGE, batch_size=4, num_workers=2, prefetch=1) as loader:
        with pytest.raises(stoker.StokerError) as caught:
            for step, _ in enumerate(loader):
                if step == 1:
                    os.truncate(own / "train-002.tar", 2000)
        error = caught.value
    assert isinstance(error, (OSError, ValueError)) and error.shard.endswith("train-002.tar")


def test_shard_replaced_under_its_index(own):
    stoker.open(str(own / "*.tar"))
    write_tar(own / "train-001.tar", [(f"{i:06d}.jpg", jpeg(picture(i))) for i in range(500, 510)])
    error = error_of(str(own / "*.tar"), LABEL)
    assert error.code == "ESTALE" and isinstance(error, OSError)
    assert error.shard.endswith("train-001.tar") and "stoker index" in str(error)


def test_shard_replaced_while_open(own):
    with stoker.Loader(str(own / "*.tar"), IMAGE, batch_size=4, num_workers=0, prefetch=1) as loader:
        running = iter(loader)
        next(running)
        write_tar(own / "new.tmp", [("x.jpg", b"1" * 100)] * 1)
        os.replace(own / "new.tmp", own / "train-002.tar")
        try:
            n = 4 + sum(len(b["image"]) for b in running)     # its file was open already
        except stoker.StokerError as error:
            assert isinstance(error, OSError) and error.shard.endswith("train-002.tar")
        else:
            assert n == SAMPLES


# ---- samples -------------------------------------------------------------------------------------

def test_raise_says_where(damaged):
    error = error_of(damaged, IMAGE, batch_size=5)
    assert error.code == "ECORRUPT" and error.key == "0007" and error.sample == 7
    assert error.shard == damaged and error.offset > 0
    assert "0007" in str(error) and "bad.tar" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and again.key == "0007"
    error = error_of(damaged, LABEL, batch_size=5)
    assert error.key == "0030" and isinstance(error, ValueError)


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_skip(damaged, workers):
    good = {"image": IMAGE["image"], "label": "from(cls) | int"}
    with stoker.Loader(damaged, good, batch_size=10, on_error="skip", num_workers=workers) as loader:
        batches = epoch_of(loader)
        loader.set_epoch(0)
        valid = [bool(v) for b in loader for v in b.valid]
        stats = loader.stats()
    ids = [int(i) for batch_ids, _ in batches for i in batch_ids]
    bad = [i for i, ok in enumerate(valid) if not ok]
    assert bad == [7, 21, 30]
    assert all(ids[i] == i for i in range(40) if i not in bad)      # no other position moves
    assert all(ids[i] not in bad for i in bad)
    labels = [int(v) for _, values in batches for v in values["label"]]
    assert labels == ids                     # a stand-in is whole: picture, label and id agree
    assert stats["skipped"] >= 6             # twice epoch 0
    rows = {row["key"]: row for row in stats["bad_samples"]}
    assert set(rows) == {f"{i:04d}" for i in bad}
    assert rows["0007"]["shard"] == damaged and rows["0007"]["offset"] > 0
    assert len(rows["0030"]["reason"]) > 5


def test_skip_is_the_same_for_any_number_of_workers(damaged):
    found = []
    for workers in (0, 3):
        with stoker.Loader(damaged, IMAGE, batch_size=8, shuffle=True, on_error="skip",
                           num_workers=workers) as loader:
            found.append([(ids.tolist(), v["image"].tobytes()) for ids, v in epoch_of(loader)])
    assert found[0] == found[1]


def test_skip_budget(damaged):
    fields = {**IMAGE, **LABEL}
    error = error_of(damaged, fields, batch_size=10, on_error={"skip": 1})
    assert error.code in ("ELIMIT", "ECORRUPT") and isinstance(error, ValueError)
    with stoker.Loader(damaged, fields, batch_size=10, on_error={"skip": 6}) as loader:
        for _ in range(4):      # the budget is per epoch; a stand-in that is bad counts too
            assert len(ids_of(loader)) == 40


def test_a_whole_shard_of_bad_samples_ends(tmp_path):
    write_tar(tmp_path / "all.tar", [(f"{i}.cls", b"none") for i in range(10)])
    error = error_of(tmp_path / "all.tar", LABEL, on_error="skip")
    assert isinstance(error, ValueError)


def huge_jpeg():
    raw = bytearray(jpeg(picture(0)))
    at = raw.index(b"\xff\xc0")
    raw[at + 5:at + 9] = struct.pack(">HH", 65535, 65535)
    return bytes(raw)


def test_pixel_limit(tmp_path):
    path = write_tar(tmp_path / "huge.tar", [("a.jpg", huge_jpeg())])
    error = error_of(path, IMAGE)
    assert error.key == "a" and "max_pixels" in str(error) and isinstance(error, ValueError)
    write_tar(tmp_path / "one.tar", [("a.jpg", jpeg(picture(0, 100, 100)))])
    assert "max_pixels" in str(error_of(tmp_path / "one.tar", IMAGE, max_pixels=9_999))
    with stoker.Loader(tmp_path / "one.tar", IMAGE, max_pixels=10_000) as loader:
        assert len(ids_of(loader)) == 1


def test_keys_that_are_no_utf8(tmp_path):
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    with tarfile.open(tmp_path / "odd.tar", "w", format=tarfile.USTAR_FORMAT, encoding="utf-8",
                      errors="surrogateescape") as tar:
        info = tarfile.TarInfo(name + ".cls")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"5"))
    with stoker.Loader(tmp_path / "odd.tar", LABEL) as loader:
        assert next(iter(loader)).sample_keys == [name]
    assert stoker.open(tmp_path / "odd.tar")[0]["__key__"] == name


def test_errors_after_an_error(damaged):
    """A loop that failed begins again where it failed, so that no sample is left out; the loader is not broken by it."""
    with stoker.Loader(damaged, IMAGE, batch_size=5) as loader:
        for _ in range(3):
            with pytest.raises(stoker.StokerError) as caught:
                ids_of(loader)
            assert caught.value.key == "0007" and loader.epoch == 0 and loader.state_dict()["position"] == 5
        assert loader.stats()["held"] == 0
        loader.set_epoch(1)                     # or another epoch, when that is said
        with pytest.raises(stoker.StokerError) as caught:
            ids_of(loader)
        assert caught.value.key == "0007" and loader.epoch == 1


def test_a_store_that_is_none_of_ours():
    from stoker import _stoker
    for call in (lambda: _stoker.object_read(b"s3://bucket/x", 5), lambda: _stoker.object_list(b"s3://bucket/", "store"),
                 lambda: _stoker.object_write(b"s3://bucket/x", b"data", object()), lambda: _stoker.Put(b"s3://bucket/x", 1)):
        with pytest.raises(ValueError, match="PyCapsule"):
            call()
