# SPDX-License-Identifier: Apache-2.0
"""FFCV's .beton files: what tests/made_beton.py writes is read back; binary PPM pictures, as which raw ones are handed out."""
import io
import json
import random
import struct
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import stoker

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
import made_beton  # noqa: E402

Image = pytest.importorskip("PIL.Image")
SEED = 18
FIELDS = {"image": "rgb", "label": "int", "raw": "bytes", "score": "float", "meta": "json", "grid": ("array", "<f4", (2, 3)),
          "tokens": ("tensor", "<i8", (4,)), "odd": ("array", "<c8", (2,)), "a_name_of_more_than_16": "int"}


def picture(rng, i):
    a = rng.integers(0, 255, (20 + i % 5, 30 + i % 7, 3), dtype="u1")
    if i % 3:
        return a, a
    out = io.BytesIO()
    Image.fromarray(a).save(out, "jpeg", quality=90)
    return a, (out.getvalue(), a.shape[:2])


def samples(n=40):
    rng = np.random.default_rng(SEED)
    return [{"image": picture(rng, i)[1], "label": i - 3, "raw": b"x" * i, "score": i / 3, "meta": {"k": i, "t": "é" * i},
             "grid": rng.random((2, 3)).astype("f4"), "tokens": np.arange(4) * i, "odd": np.zeros(2, "<c8"), "a_name_of_more_than_16": i}
            for i in range(n)]


@pytest.mark.asan
def test_samples(tmp_path):
    want = samples()
    for k in range(2):
        made_beton.write(tmp_path / f"{k}.beton", FIELDS, want[20 * k:20 * k + 20])
    ds = stoker.open(str(tmp_path / "*.beton"))
    assert len(ds) == 40 and ds.fields[:3] == ["image", "label", "raw"] and "a_name_of_more_t" in ds.fields
    for i in random.Random(SEED).sample(range(40), 40):
        got, s = ds[i], want[i]
        assert (got["label"], got["raw"], got["score"], json.loads(got["meta"])) == (i - 3, s["raw"], i / 3, s["meta"])
        np.testing.assert_array_equal(got["grid"], s["grid"])
        np.testing.assert_array_equal(got["tokens"], s["tokens"])
        if isinstance(s["image"], np.ndarray):
            np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(got["image"]))), s["image"])
        else:
            assert got["image"] == s["image"][0]
    with pytest.raises(stoker.StokerError, match="column odd: not supported because it is an array of a type"):
        next(iter(stoker.Loader(ds, {"x": "from(odd) | bytes"}, batch_size=1)))
    chains = {"image": "image | resize((16, 24)) | to(u8)", "x": "columns(label, score)", "g": "from(grid) | to(f16)", "t": "from(meta) | json(k) | int"}
    with stoker.Loader(ds, chains, batch_size=8, shuffle=True, seed=SEED, num_workers=2) as loader:
        for batch in loader:
            ids = batch.sample_ids.tolist()
            assert batch.valid.all() and tuple(batch["image"].shape[1:]) == (3, 16, 24) and np.asarray(batch["t"]).tolist() == ids
            np.testing.assert_array_equal(np.asarray(batch["x"]), [[i - 3, i / 3] for i in ids])
            np.testing.assert_array_equal(np.asarray(batch["g"]), np.stack([want[i]["grid"] for i in ids]).astype("f2"))
    stoker.pack(str(tmp_path / "*.beton"), str(tmp_path / "out"))
    packed = stoker.open(str(tmp_path / "out"))
    assert len(packed) == 40 and int(packed[5]["label"]) == 2


@pytest.mark.asan
def test_refused_and_damaged(tmp_path):
    path = tmp_path / "a.beton"

    def fails(match):
        with pytest.raises(stoker.StokerError, match=match):
            stoker.open(str(path))

    made_beton.write(path, {"x": "int"}, [{"x": 1}], number=255)
    fails("a type of the writer's own")
    made_beton.write(path, {"a_name_of_more_than_16": "int", "a_name_of_more_than_17": "int"}, [{"a_name_of_more_than_16": 1, "a_name_of_more_than_17": 1}])
    fails("two fields are called a_name_of_more_t")
    good = Path(made_beton.write(path, {k: v for k, v in FIELDS.items() if k != "odd"}, samples(6))).read_bytes()
    for bad, match in ((b"\x01" + good[1:], "version 2"), (good[:16] + bytes(8) + good[24:], "not finished"), (good[:1000], "too short"),
                       (good[:8] + struct.pack("<Q", 1 << 60) + good[16:], "no room"), (b"", "too short")):
        path.write_bytes(bad)
        fails(match)
    rng = random.Random(SEED)
    for k in range(200):
        bad = bytearray(good[:rng.randrange(len(good))] if k % 3 == 0 else good)
        for _ in range(8):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        path.write_bytes(bad)
        try:
            ds = stoker.open(str(path))
            with stoker.Loader(ds, {"image": "image | resize((8, 8))"}, batch_size=2, on_error="skip") as loader:
                for _ in loader:
                    pass
            list(ds)
        except (stoker.StokerError, IndexError):
            pass


@pytest.mark.asan
def test_ppm_pictures(tmp_path):
    rng = np.random.default_rng(SEED)
    a = rng.integers(0, 255, (31, 17, 3), dtype="u1")
    body = {"plain": b"P6\n17 31\n255\n" + a.tobytes(), "comment": b"P6 # by hand\n17\t#w\n 31\r\n255 " + a.tobytes() + b"more",
            "cut": b"P6\n17 31\n255\n" + a.tobytes()[:-1], "deep": b"P6\n17 31\n65536\n" + a.tobytes() * 2, "empty": b"P6\n0 5\n255\n", "none": b"P6\n"}
    with tarfile.open(tmp_path / "a.tar", "w") as t:
        for name, data in body.items():
            info = tarfile.TarInfo(f"{name}.ppm")
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    with stoker.Loader(str(tmp_path / "a.tar"), {"x": "from(ppm) | image | to(u8, layout=hwc)", "c": "from(ppm) | image | center_crop((5, 7)) | to(u8, layout=hwc)"},
                       batch_size=1, on_error="skip", collate={"x": "list"}) as loader:
        rows = [(bool(b.valid[0]), np.asarray(b["x"][0]), np.asarray(b["c"][0])) for b in loader]
    assert [ok for ok, _, _ in rows] == [True, True, False, False, False, False]
    for _, x, c in rows[:2]:
        np.testing.assert_array_equal(x, a)
        np.testing.assert_array_equal(c, a[13:18, 5:12])
