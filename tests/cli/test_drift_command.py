# SPDX-License-Identifier: Apache-2.0
"""stoker describe and stoker drift: figures as NumPy and Pillow have them, alarms, and bad input."""

import io
import json

import numpy as np
import pytest
from conftest import jpeg, write_tar
from PIL import Image


def png(seed, width, height, light=0):
    pixels = np.random.default_rng(seed).integers(0, 200, (height, width, 3), np.uint8) + np.uint8(light)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue(), pixels


def shard(path, n, *, seed=0, light=0, wide=40, classes=4):
    rng = np.random.default_rng(seed)
    members, pictures = [], []
    for i in range(n):
        data, pixels = png(seed * 10_000 + i, int(rng.integers(20, wide)), int(rng.integers(20, 40)), light)
        pictures.append(pixels)
        members += [(f"{i:05d}.png", data), (f"{i:05d}.cls", f"{rng.integers(classes)}\n".encode())]
    write_tar(path, members)
    return pictures


def described(stoker, *args):
    done = stoker("describe", *args)
    assert done.code == 0 and done.err == "", done.err
    return json.loads(done.raw)


def test_figures_are_right(stoker, tmp_path):
    pictures = shard(tmp_path / "a.tar", 60)
    got = described(stoker, "a.tar", "--workers", "3")
    assert (got["stoker_description"], got["samples"], got["bad"], got["duplicates"], got["near_duplicates"]) == (1, 60, 0, 0, 0)
    features = got["features"]
    widths = sorted(p.shape[1] for p in pictures)
    assert features["png.width"]["count"] == 60
    assert features["png.width"]["mean"] == pytest.approx(np.mean(widths))
    assert features["png.width"]["std"] == pytest.approx(np.std(widths))
    assert (features["png.width"]["quantiles"][0], features["png.width"]["quantiles"][-1]) == (widths[0], widths[-1])
    assert features["png.red"]["mean"] == pytest.approx(np.mean([p[..., 0].mean() for p in pictures]), abs=1e-3)
    assert sum(features["cls"]["values"].values()) == 60 and set(features["cls"]["values"]) == {"0", "1", "2", "3"}
    assert described(stoker, "a.tar", "--workers", "1") == got


def test_duplicates_and_bad_samples(stoker, tmp_path):
    base = Image.fromarray(np.random.default_rng(5).integers(0, 256, (6, 8, 3), np.uint8)).resize((320, 240), Image.Resampling.BICUBIC)
    members = [(f"{i}.jpg", jpeg(i)) for i in range(6)]
    members += [("7.jpg", jpeg(2)), ("8.jpg", b"\xff\xd8\xff\xe0 no picture")]
    for name, size, quality in (("a", (320, 240), 95), ("b", (160, 120), 80)):
        out = io.BytesIO()
        base.resize(size).save(out, "JPEG", quality=quality)
        members.append((f"{name}.jpg", out.getvalue()))
    write_tar(tmp_path / "d.tar", members)
    got = described(stoker, "d.tar")
    assert (got["samples"], got["duplicates"], got["near_duplicates"], got["bad"]) == (10, 1, 2, 1)


def test_the_same_data_is_quiet_and_a_shift_is_not(stoker, tmp_path):
    shard(tmp_path / "a.tar", 150, seed=1)
    shard(tmp_path / "b.tar", 150, seed=2)
    shard(tmp_path / "light.tar", 150, seed=3, light=50)
    (tmp_path / "a.json").write_text(stoker("describe", "a.tar").raw)
    same = stoker("drift", "a.json", "a.tar")
    assert same.code == 0 and same.out.splitlines()[-1] == "0 of 9 features drifted"
    assert stoker("drift", "a.json", "b.tar").code == 0
    moved = json.loads(stoker("drift", "a.json", "light.tar", "--json").raw)
    assert {f["feature"] for f in moved["features"] if f["drifted"]} >= {"png.brightness", "png.red", "png.green", "png.blue"}
    assert stoker("drift", "a.tar", "light.tar").code == 1


def test_a_folder_and_the_shards_packed_of_it_are_the_same(stoker, tmp_path):
    for i in range(30):
        (tmp_path / f"folder/{i % 2}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"folder/{i % 2}/{i}.JPEG").write_bytes(jpeg(i))
    assert stoker("pack", "folder", "shards").code == 0
    done = stoker("drift", "folder", "shards/*.tar")
    assert done.code == 0 and done.out.splitlines()[-1].startswith("0 of "), done.out
    assert stoker("drift", "shards/*.tar", "folder").code == 0


def test_what_a_name_calls_a_picture_is_bad_if_it_is_none(stoker, tmp_path):
    write_tar(tmp_path / "d.tar", [("0.jpg", jpeg(0)), ("1.jpg", b""), ("2.png", b"text"), ("3.JPEG", b"\xff\xd8\xff\xe0"), ("4.txt", b"text")])
    assert described(stoker, "d.tar")["bad"] == 3
    assert json.loads(stoker("check", "d.tar", "--json").raw)["bad_samples"] == 3


def test_another_schema(stoker, tmp_path):
    shard(tmp_path / "a.tar", 30)
    write_tar(tmp_path / "t.tar", [(f"{i}.txt", b"some words of text, longer than a label would be, here") for i in range(30)])
    done = stoker("drift", "a.tar", "t.tar")
    assert done.code == 1 and "missing" in done.out and "txt.bytes" in done.out
    for text, why in (("{}", "no member stoker_description"), ("[1]", "not a description"), ("nonsense", ""), ("", ""),
                      ('{"stoker_description": 7, "features": {}}', "version 7"), ('{"stoker_description": 1}', "no features"),
                      ('{"stoker_description": 1, "features": {"x": {"count": 3, "quantiles": [1, 2]}}}', "quantiles"),
                      ('{"stoker_description": 1, "features": {"x": {"count": 3, "values": {"a": "b"}}}}', None),
                      ('{"stoker_description": 1, "samples": -5, "features": {"x": {"count": -3, "values": {"a": 1e99}}}}', None),
                      ('{"stoker_description": 1e999, "features": {}}', "version inf")):
        (tmp_path / "bad.json").write_text(text)
        done = stoker("drift", "bad.json", "a.tar")
        if why is None:
            assert done.code in (1, 3)
        else:
            assert done.code == 3 and done.out == "" and done.err.count("\n") == 1 and why in done.err, (text, done.err)


def test_bad_input(stoker, tmp_path):
    assert stoker("drift", "one").code == 2
    assert stoker("describe", "missing.tar").code == 3
    (tmp_path / "empty.tar").write_bytes(bytes(1024))
    done = stoker("describe", "empty.tar")
    assert done.code == 3 and "no samples" in done.err


def test_page(stoker, tmp_path):
    from test_doctor_plan import page
    shard(tmp_path / "a.tar", 20)
    got = described(stoker, "a.tar", "--html", "a.html")
    text = page(tmp_path / "a.html")
    assert "png.width: mean" in text and f"{got['bytes']:,}" in text


def test_rules(stoker, tmp_path):
    from test_doctor_plan import page
    shard(tmp_path / "a.tar", 40)

    def check(rules, *args):
        (tmp_path / "r.json").write_text(rules if isinstance(rules, str) else json.dumps(rules))
        return stoker("check", "a.tar", "--rules", "r.json", *args)

    good = {"required": ["png", "cls"], "png.width": {"min": 20, "max": 40}, "cls": {"in": ["0", 1, "2", "3"]}, "samples": {"min": 40}}
    done = check(good, "--html", "r.html")
    assert done.code == 0 and done.out == "all rules hold\n" and "all rules hold" in page(tmp_path / "r.html")
    bad = {"required": ["png", "txt"], "png.width": {"max": 10}, "cls": {"in": ["0", "1", "2"]}, "duplicates": {"max": 0},
           "png.depth": {"min": 1}}
    done = check(bad, "--html", "r.html")
    assert done.code == 1 and len(done.out.splitlines()) == 4
    assert done.out.startswith("txt: 40 of 40 samples do not have it\npng.width: 3")
    assert '"3" is not allowed' in done.out and "no such figure" in done.out and "txt: 40 of 40" in page(tmp_path / "r.html")
    assert len(json.loads(check(bad, "--json").raw)["broken"]) == 4
    for wrong in ("[]", "nonsense", '{"required": 3}', '{"cls": 3}', '{"cls": {"min": 3}}'):
        done = check(wrong)
        assert done.code == 2 and done.err.startswith("stoker: r.json: "), (wrong, done.err)
    assert stoker("check", "a.tar", "--rules", "missing.json").code == 3
    write_tar(tmp_path / "b.tar", [("1.jpg", b"\xff\xd8\xff\xe0 none"), ("2.jpg", jpeg(1))])
    (tmp_path / "r.json").write_text("{}")
    done = stoker("check", "b.tar", "--rules", "r.json")
    assert done.code == 1 and "1 samples are bad" in done.out


# ---- token files and arrays -----------------------------------------------------------------------

def zipf(path, seed, a=1.3, n=60_000):
    tokens = np.minimum(np.random.default_rng(seed).zipf(a, n), 50_000).astype("<u2")
    tokens.tofile(path)
    return tokens


def test_tokens_are_counted(stoker, tmp_path):
    tokens = zipf(tmp_path / "a.bin", 1)
    got = described(stoker, "a.bin", "--html", "a.html")
    counts = np.bincount(tokens)
    feature = got["features"]["tokens"]
    assert got["samples"] == got["described"] == feature["count"] == len(tokens) and got["bytes"] == 2 * len(tokens)
    assert len(feature["values"]) == 1000
    for token, n in feature["values"].items():
        assert counts[int(token)] == n
    assert feature["rest"] == len(tokens) - sum(feature["values"].values())
    assert min(feature["values"].values()) >= np.sort(counts)[::-1][1000]
    from test_doctor_plan import page
    assert "tokens: 1000 values" in page(tmp_path / "a.html")


def test_drift_of_tokens(stoker, tmp_path):
    """Two draws of one vocabulary differ in where their lists end, which is not drift."""
    zipf(tmp_path / "a.bin", 1)
    for seed in range(2, 7):
        zipf(tmp_path / "b.bin", seed)
        assert stoker("drift", "a.bin", "b.bin").code == 0, seed
    zipf(tmp_path / "c.bin", 9, a=1.6)
    done = stoker("drift", "a.bin", "c.bin")
    assert done.code == 1 and "!! tokens" in done.out


def test_documents(stoker, tmp_path):
    sizes = np.array([3, 5, 1, 7, 4], "<i4")
    np.arange(sizes.sum()).astype("<u2").tofile(tmp_path / "d.bin")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]) * 2
    (tmp_path / "d.idx").write_bytes(b"MMIDIDX\0\0" + np.array([1], "<u8").tobytes() + bytes([8]) +
                                     np.array([5, 6], "<u8").tobytes() + sizes.tobytes() + starts.astype("<i8").tobytes() +
                                     np.arange(6, dtype="<i8").tobytes())
    lengths = described(stoker, "d.bin")["features"]["tokens.document_length"]
    assert lengths["count"] == 5 and lengths["mean"] == 4 and (lengths["quantiles"][0], lengths["quantiles"][-1]) == (1, 7)


@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "i8", "f2", "f4", "f8"])
def test_arrays(stoker, tmp_path, dtype):
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 200, (400, 5)).astype(dtype) if dtype[0] != "f" else rng.normal(size=(400, 5)).astype(dtype), rng.integers(0, 3, 400)
    np.savez(tmp_path / "a.npz", x=x, y=y)
    got = described(stoker, "a.npz")["features"]
    assert got["x.mean"]["mean"] == pytest.approx(x.astype("f8").mean(), rel=1e-6)
    assert got["x.least"]["quantiles"][0] == pytest.approx(float(x.min())) and got["x.most"]["quantiles"][-1] == pytest.approx(float(x.max()))
    assert got["y"]["values"] == {str(k): int(n) for k, n in enumerate(np.bincount(y))}
