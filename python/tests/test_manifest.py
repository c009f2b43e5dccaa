# SPDX-License-Identifier: Apache-2.0
"""Manifests: CSV or JSON lines that name files, ranges of files and whatever else a sample has."""

import csv
import io
import json
import random
import tarfile

import numpy as np
import pytest
import stoker
from conftest import as_numpy, jpeg, picture, write_tar
from PIL import Image

IMAGE = "from(path) | open | image(exact=true) | resize((24, 32)) | to(u8)"


def csv_text(rows, **options):
    out = io.StringIO()
    csv.writer(out, **options).writerows(rows)
    return out.getvalue()


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows_of(path):
    ds = stoker.open(path)
    return [{k: v.decode() for k, v in ds[i].items() if not k.startswith("__")}
            for i in range(len(ds))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("manifest")
    for i in range(12):
        write(root / "pictures" / f"{i}.jpg", jpeg(picture(i, 50 + i, 40)))
    write(root / "files.csv", csv_text([["path", "label", "text"]] + [
        [f"pictures/{i}.jpg", i % 4, f'say "{i}",\nplease'] for i in range(12)]))
    write(root / "files.jsonl", "".join(json.dumps(
        {"path": f"pictures/{i}.jpg", "label": i % 4, "text": f'say "{i}",\nplease',
         "box": [i, 2], "none": None}) + "\n" for i in range(12)))
    return root


@pytest.mark.parametrize("name", ["files.csv", "files.jsonl"])
@pytest.mark.parametrize("workers", [0, 2])
def test_loads_files(folder, name, workers):
    fields = {"image": IMAGE, "label": "int", "text": "text"}
    loader = stoker.Loader(folder / name, fields=fields, batch_size=5, num_workers=workers)
    seen = 0
    for batch in loader:
        for k, key in enumerate(batch.sample_keys):
            assert key == f"pictures/{seen}.jpg" and int(batch["label"][k]) == seen % 4
            assert batch["text"][k] == f'say "{seen}",\nplease'
            want = Image.open(folder / key).convert("RGB").resize((32, 24), Image.Resampling.BILINEAR)
            want = np.asarray(want).transpose(2, 0, 1).astype(int)
            assert abs(as_numpy(batch["image"])[k].astype(int) - want).max() <= 2
            seen += 1
    assert seen == 12


def test_fields_as_they_are(folder):
    ds = stoker.open(folder / "files.jsonl")
    assert ds.fields == ["path", "label", "text", "box"] and len(ds) == 12
    row = ds[3]
    assert row["__key__"] == "pictures/3.jpg" and row["path"] == b"pictures/3.jpg"
    assert row["label"] == b"3" and row["box"] == b"[3, 2]"
    decoded = stoker.open(folder / "files.jsonl", fields={"box": 'json("0") | int', "path": "text"})
    assert int(decoded[7]["box"]) == 7 and decoded[7]["path"] == "pictures/7.jpg"
    chain = stoker.from_("path").open(root=str(folder)).image()
    assert stoker.open(folder / "files.csv", fields={"image": chain})[2]["image"].shape[0] == 3


def test_ranges_into_a_tar(tmp_path):
    pictures = [jpeg(picture(i)) for i in range(6)]
    (tmp_path / "deep").mkdir()
    tar = write_tar(tmp_path / "deep" / "a.tar", [(f"{i}.jpg", p) for i, p in enumerate(pictures)])
    with tarfile.open(tar) as t:
        members = [(m.offset_data, m.size) for m in t.getmembers()]
    text = csv_text([["offset", "path", "length", "n"]] + [
        [at, "a.tar", size, i] for i, (at, size) in enumerate(members)])
    write(tmp_path / "lists" / "ranges.csv", text)
    chain = f'from(path) | open(root="{tmp_path}/deep") | bytes'
    loader = stoker.Loader(tmp_path / "lists" / "ranges.csv", fields={"data": chain, "n": "int"},
                           batch_size=3, shuffle=True, seed=3)
    got = {int(n): bytes(d) for b in loader for n, d in zip(b["n"], b["data"], strict=True)}
    assert got == dict(enumerate(pictures))
    assert stoker.open(tmp_path / "lists" / "ranges.csv").fields == ["offset", "path", "length", "n"]


def test_offset_without_length_and_columns_that_name_files(tmp_path):
    write(tmp_path / "a.bin", b"0123456789")
    write(tmp_path / "mask.bin", b"mask")
    write(tmp_path / "m.jsonl", '{"path": "a.bin", "offset": 4, "mask": "mask.bin"}\n\n'
          '{"path": "a.bin", "length": 2, "mask": "mask.bin"}\n')
    ds = stoker.open(tmp_path / "m.jsonl", fields={
        "a": "from(path) | open | bytes", "b": "from(mask) | open | bytes", "name": "from(mask) | text"})
    assert [(bytes(s["a"]), bytes(s["b"]), s["name"]) for s in ds] == [
        (b"456789", b"mask", "mask.bin"), (b"01", b"mask", "mask.bin")]


@pytest.mark.parametrize("seed", range(8))
def test_csv_is_read_as_python_reads_it(tmp_path, seed):
    rng = random.Random(seed)
    alphabet = 'ab ,"\n\r\tžé日'
    table = [["path", "x", "y y"]]
    for i in range(rng.randint(0, 300)):
        table.append([f"p{i}"] + ["".join(rng.choice(alphabet) for _ in range(rng.randint(0, 9)))
                                  for _ in range(2)])
    text = csv_text(table, lineterminator=rng.choice(["\n", "\r\n"]),
                    quoting=rng.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
    if rng.random() < 0.5:
        text = text.rstrip("\r\n")
    path = write(tmp_path / "t.csv", ("\ufeff" if seed % 2 else "") + text)
    want = list(csv.DictReader(io.StringIO(text, newline="")))
    assert rows_of(path) == want, f"seed {seed}"


def test_a_manifest_larger_than_the_window(tmp_path):
    table = [["path", "x"]] + [[f"p{i}", "y" * (i % 97) + ("\n" if i % 5 else '"')] for i in range(40000)]
    table.append(["last", "z" * 3_000_000])
    path = write(tmp_path / "big.csv", csv_text(table))
    ds = stoker.open(path)
    assert len(ds) == 40001
    for i in (0, 1, 777, 39999, 40000):
        assert [ds[i]["path"].decode(), ds[i]["x"].decode()] == table[i + 1]


BAD = [
    ("a.csv", "", "header line"),
    ("a.csv", "path,a\nx,1\ny\n", "line 3: 1 cells, the header line has 2"),
    ("a.csv", 'path,a\n"x\ny",1\nz,b"c\n', "line 4: a quote inside cell 2"),
    ("a.csv", 'path,a\nx,"1"2\n', "line 2: text after the closing quote of cell 2"),
    ("a.csv", 'path,a\nx,"1\n\n\n', "line 2: a quoted cell has no closing quote"),
    ("a.jsonl", '{"path": "x"}\n[1]\n', "line 2: not a JSON object"),
    ("a.jsonl", '{"path": "x"}\n{"path": "y"} 1\n', "line 2: not JSON: something follows"),
    ("a.jsonl", '{"path": "x"}\n{"path": }\n', "line 2: not JSON"),
    ("a.jsonl", '{"path": "a", "b": 1, "b": 2}\n', 'line 1: .*"b" is there twice'),
    ("a.jsonl", b'{"path": "\xff"}\n', "line 1: not JSON: byte 10 is not UTF-8"),
    ("a.jsonl", '{"path": "\\ud800"}\n', "line 1: JSON string has half a surrogate pair"),
]


@pytest.mark.parametrize(("name", "text", "message"), BAD)
def test_bad_manifests(tmp_path, name, text, message):
    with pytest.raises(stoker.StokerError, match=message) as e:
        stoker.open(write(tmp_path / name, text))
    assert e.value.code == "ECORRUPT" and name in str(e.value)


@pytest.mark.parametrize(("path", "message"), [
    ("../secret.bin", r'"../secret.bin" leads out of its root'), ("a/../../secret.bin", "leads out"),
    ("/etc/hostname", 'open\\(root="/"\\) allows absolute names'), ("gone.jpg", "no such file"),
    ("sub/", "names no file"), ("sub", "is a directory")])
def test_paths_that_cannot_be_opened(tmp_path, path, message):
    write(tmp_path / "secret.bin", b"s")
    (tmp_path / "in" / "sub").mkdir(parents=True)
    m = write(tmp_path / "in" / "m.csv", f"path\n{path}\n")
    loader = stoker.Loader(m, fields={"x": "from(path) | open | bytes"})
    with pytest.raises(stoker.StokerError, match=message):
        next(iter(loader))


@pytest.mark.parametrize("rooted", [False, True])
def test_symlinks_stay_below_the_root(tmp_path, rooted):
    """Links inside the root are followed, however they are written; those that lead out are refused by name."""
    root = tmp_path / "data"
    write(root / "deep" / "a.bin", b"a")
    write(tmp_path / "secret" / "b.bin", b"secret")
    write(tmp_path / "data2" / "c.bin", b"a name that begins like the root's")
    inside = {"rel.bin": "deep/a.bin", "abs.bin": root / "deep" / "a.bin", "way": "deep", "absway": root / "deep"}
    outside = {"out.bin": "../secret/b.bin", "absout.bin": tmp_path / "secret" / "b.bin", "outway": "../secret",
               "absoutway": tmp_path / "secret", "near.bin": tmp_path / "data2" / "c.bin"}
    for name, to in {**inside, **outside}.items():
        (root / name).symlink_to(to)
    (tmp_path / "link").symlink_to(root)                     # the root itself may be one

    def read(name):
        m = write(root / f"{name.replace('/', '-')}.csv", f"path\n{name}\n")
        where = f'(root="{tmp_path}/link")' if rooted else ""
        with stoker.Loader(m, fields={"x": f"from(path) | open{where} | bytes"}, num_workers=0) as loader:
            return bytes(next(iter(loader))["x"][0])

    for name in ("deep/a.bin", "rel.bin", "abs.bin", "way/a.bin", "absway/a.bin"):
        assert read(name) == b"a", name
    for name in ("out.bin", "absout.bin", "outway/b.bin", "absoutway/b.bin", "near.bin"):
        with pytest.raises(stoker.StokerError, match="a symlink leads out of the root") as e:
            read(name)
        assert e.value.code == "ECORRUPT" and name in str(e.value), name


def test_absolute_paths_below_the_root(tmp_path):
    write(tmp_path / "data" / "a.bin", b"abc")
    m = write(tmp_path / "m.csv", f"path\n{tmp_path}/data/a.bin\n")
    for root in ("/", str(tmp_path), str(tmp_path / "data")):
        loader = stoker.Loader(m, fields={"x": f'from(path) | open(root="{root}") | bytes'})
        assert bytes(next(iter(loader))["x"][0]) == b"abc"
    loader = stoker.Loader(m, fields={"x": f'from(path) | open(root="{tmp_path}/dat") | bytes'})
    with pytest.raises(stoker.StokerError, match="leads out of its root"):
        next(iter(loader))


def test_open_belongs_to_manifests(folder, tmp_path):
    tar = write_tar(tmp_path / "a.tar", [("0.txt", b"x")])
    with pytest.raises(stoker.StokerError, match="files that rows of a manifest") as e:
        stoker.Loader(tar, fields={"x": "from(txt) | open | bytes"})
    assert e.value.code == "ENOTSUP"
    with pytest.raises(stoker.StokerError, match="open stands first"):
        stoker.Loader(folder / "files.csv", fields={"x": "from(path) | text | open"})


def test_ranges_past_the_end(tmp_path):
    write(tmp_path / "a.bin", b"abc")
    m = write(tmp_path / "m.csv", "path,offset,length\na.bin,2,2\na.bin,4,\n")
    loader = stoker.Loader(m, fields={"x": "from(path) | open | bytes"}, num_workers=0)
    for _ in range(2):
        with pytest.raises(stoker.StokerError, match="the file has 3 bytes") as e:
            list(loader)
        assert e.value.code == "ECORRUPT"


def test_a_changed_manifest_is_stale(tmp_path):
    m = write(tmp_path / "m.csv", "path,x\na,1\n")
    assert len(stoker.open(m)) == 1
    write(m, "path,x\na,1\nb,2\n")
    with pytest.raises(stoker.StokerError) as e:
        stoker.open(m)
    assert e.value.code == "ESTALE"
