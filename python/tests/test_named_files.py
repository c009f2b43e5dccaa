# SPDX-License-Identifier: Apache-2.0
"""Files that cells of tables name: Parquet, Arrow, HDF5 and MDS give what a manifest of the same rows gives."""
import io
import json
import pathlib
import sys

import numpy as np
import pytest
import stoker

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
import made  # noqa: E402
import made_mds  # noqa: E402

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
h5py = pytest.importorskip("h5py")
Image = pytest.importorskip("PIL.Image")
N = 60
FIELDS = {"image": "from(path) | open | image | random_resized_crop(24) | hflip | to(u8)",
          "small": "from(path) | open | image | random_resized_crop(12) | to(u8)",
          "raw": "from(path) | open | bytes", "label": "from(label) | int", "name": "from(path) | text"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """N rows that name 40 pictures below the table's folder; some rows name the same one."""
    root = tmp_path_factory.mktemp("named")
    rng = np.random.default_rng(3)
    for k in range(40):
        (root / f"p/{k % 4}").mkdir(parents=True, exist_ok=True)
        out = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (30 + k, 60 - k // 2, 3), dtype=np.uint8)).save(out, "JPEG" if k % 3 else "PNG")
        (root / f"p/{k % 4}/{k}.jpg").write_bytes(out.getvalue())
    paths = [f"p/{k % 40 % 4}/{k % 40}.jpg" for k in range(N)]
    table = pa.table({"path": paths, "label": pa.array(range(N), pa.int64()), "k": [["a", "b"]] * N})
    plain = table.select(["path", "label"])
    pq.write_table(table, root / "t.parquet", row_group_size=17, data_page_size=256)
    pq.write_table(plain, root / "plain.parquet", use_dictionary=False, compression="none", column_encoding="PLAIN")
    with pa.OSFile(str(root / "packed.arrow"), "wb") as f, \
            pa.ipc.new_file(f, plain.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(plain, max_chunksize=13)
    (root / "list.csv").write_text("path,label\n" + "".join(f"{p},{i}\n" for i, p in enumerate(paths)))
    (root / "other.jsonl").write_text("".join(json.dumps({"where": p.replace("p/", "\u0070/"), "label": i}) + "\n" for i, p in enumerate(paths)))
    made_mds.write(root / "mds", {"path": "str", "label": "int"}, [{"path": p, "label": i} for i, p in enumerate(paths)], per_shard=25)
    with h5py.File(root / "t.h5", "w") as f:
        f.create_dataset("path", data=paths, dtype=h5py.string_dtype(), chunks=(16,))
        f.create_dataset("label", data=np.arange(N))
    return root


def load(source, fields=FIELDS, **options):
    options = {"batch_size": 7, "shuffle": True, "seed": 4, "collate": "list"} | options
    with stoker.Loader(source if isinstance(source, stoker.Dataset) else str(source), fields, **options) as loader:
        return [{f: [np.asarray(x).copy() if not isinstance(x, (str, bytes)) else x for x in b[f]] for f in fields} for b in loader]


def same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b):
        assert x.keys() == y.keys()
        for f in x:
            assert len(x[f]) == len(y[f]) and all(np.array_equal(p, q) for p, q in zip(x[f], y[f])), f


def at(root, fields=FIELDS):
    """The same chains with the folder of the files."""
    return {name: chain.replace("| open", f'| open(root="{root}")') for name, chain in fields.items()}


@pytest.mark.asan
@pytest.mark.parametrize("options", [{}, {"num_workers": None}, {"num_workers": 3, "shuffle": False}, {"memory_limit": "3MB"}])
@pytest.mark.parametrize("kind", ["t.parquet", "plain.parquet", "packed.arrow", "t.h5", "mds", "table"])
def test_tables_give_what_a_manifest_gives(files, kind, options):
    """Whether paths are in blocks of pages, in ranges of a file, or in memory."""
    source = stoker.open(pq.read_table(files / "plain.parquet")) if kind == "table" else files / kind
    fields = FIELDS if kind.startswith(("t.", "p")) else at(files)
    same(load(source, fields, **options), load(files / "list.csv", **options))


def test_names_with_escapes(files):
    """A field of a manifest that is not `path`: its text is read, and quotes and escapes are taken away, before the file is opened."""
    fields = {name: chain.replace("path", "where") for name, chain in FIELDS.items()}
    same(load(files / "other.jsonl", fields), [{k: v for k, v in b.items()} for b in load(files / "list.csv")])


@pytest.mark.parametrize("num_workers", [None, 3])
def test_resume_and_ranks(files, num_workers):
    """Stopped anywhere, and shared among ranks, the rows are those of one loader that runs through."""
    want = load(files / "t.parquet", num_workers=num_workers, drop_last=True)
    options = {"batch_size": 7, "shuffle": True, "seed": 4, "collate": "list", "drop_last": True, "num_workers": num_workers}
    for stop in (1, 4):
        with stoker.Loader(str(files / "t.parquet"), FIELDS, **options) as loader:
            rows = iter(loader)
            for _ in range(stop):
                next(rows)
            state = loader.state_dict()
        with stoker.Loader(str(files / "t.parquet"), FIELDS, **options) as loader:
            loader.load_state_dict(state)
            got = [b["name"] for b in loader]
        assert [list(b) for b in got] == [list(b["name"]) for b in want[stop:]]
    names = set()
    for rank in (0, 1):
        for b in load(files / "t.parquet", rank=rank, world_size=2, num_workers=num_workers, batch_size=5):
            names |= {int(x) for x in b["label"]}
    assert names == set(range(N))


BAD = {"p/missing.jpg": "no such file", "../up.jpg": "leads out of its root", "": "names no file", "p": "is a directory", "x" * 5000: "the path of .* has 50", "x" * 300: "such a long name",
       "/etc/passwd": "leads out of its root", "p/link.jpg": "leads out|symlink|refused"}


@pytest.mark.asan
@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("where", ["t.parquet", "t.h5"])
def test_a_name_that_is_no_file_is_a_bad_sample(files, tmp_path, name, where):
    """It has its row as its key, and the others are read."""
    if not (files / "p/link.jpg").is_symlink():
        (files / "p/link.jpg").symlink_to(pathlib.Path(stoker.__file__))
    paths = ["p/0/0.jpg"] * 9 + [name] + ["p/1/1.jpg"] * 10
    if where == "t.parquet":
        pq.write_table(pa.table({"path": paths, "n": list(range(20))}), tmp_path / where)
    else:
        with h5py.File(tmp_path / where, "w") as f:
            f.create_dataset("path", data=paths, dtype=h5py.string_dtype())
            f.create_dataset("n", data=np.arange(20))
    fields = at(files, {"image": "from(path) | open | image | resize((8, 8)) | to(u8)", "n": "from(n) | int"})
    with pytest.raises(stoker.StokerError, match=BAD[name]) as caught:
        load(tmp_path / where, fields)
    assert "key 9" in str(caught.value)
    with stoker.Loader(str(tmp_path / where), fields, batch_size=5, on_error="skip") as loader:
        rows = [int(x) for b in loader for x in b["n"]]
        stats = loader.stats()
    assert len(rows) == 20 and 9 not in rows and [row["key"] for row in stats["bad_samples"]] == ["9"]


def test_nulls_and_columns_of_other_types(files, tmp_path):
    """A null is a bad sample; numbers are refused when the loader is opened, by their column's name."""
    pq.write_table(pa.table({"path": ["p/0/0.jpg", None, "p/1/1.jpg"], "n": [1, 2, 3]}), tmp_path / "n.parquet")
    with pytest.raises(stoker.StokerError, match="open reads bytes; the field n has a type"):
        load(tmp_path / "n.parquet", {"x": "from(n) | open | bytes"})
    with pytest.raises(stoker.StokerError, match="it has no value in field path"):
        load(tmp_path / "n.parquet", at(files, {"x": "from(path) | open | bytes"}), shuffle=False)


def test_tar_files_name_no_files(tmp_path, files):
    made.write_tar(tmp_path / "a.tar", [("0.txt", b"p/0/0.jpg")])
    with pytest.raises(stoker.StokerError, match=r"of a table \(Parquet, Arrow, HDF5, MDS\) name, and this is tar"):
        load(tmp_path / "a.tar", at(files, {"x": "from(txt) | open | bytes"}))
