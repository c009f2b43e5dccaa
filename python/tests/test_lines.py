# SPDX-License-Identifier: Apache-2.0
"""JSON lines and CSV without a column `path`: every line is a sample, its members or cells are fields."""
import csv
import json
import random

import numpy as np
import pytest

import stoker

ODD = ["plain", "", 'quote " in it', "comma, in it", ",first", "\nline", "tab\tand \\ slash", "é日本", '"', '""', "a\r\nb", "{\"a\": \"\"}", "x" * 5000]


def records(n):
    rng = random.Random(18)
    return [{"text": rng.choice(ODD), "label": rng.randrange(100), "more": {"a": [1, rng.choice(ODD)]}, "maybe": rng.choice([None, 1.5, "é"])}
            for _ in range(n)]


@pytest.mark.asan
@pytest.mark.parametrize("ascii_only", [False, True])
def test_json_lines(tmp_path, ascii_only):
    rows = records(200)
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(r, ensure_ascii=ascii_only) + "\n" for r in rows), newline="")
    ds = stoker.open(str(path))
    assert len(ds) == 200
    for i, row in enumerate(rows):
        got = ds[i]
        assert got["__key__"] == str(i) and got["text"].decode() == row["text"] and int(got["label"]) == row["label"]
        assert json.loads(got["more"]) == row["more"]
        assert ("maybe" in got) == (row["maybe"] is not None)
        if row["maybe"] is not None:
            assert got["maybe"].decode() == str(row["maybe"])


@pytest.mark.asan
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv(tmp_path, end):
    rows = records(200)
    path = tmp_path / "corpus.csv"
    with open(path, "w", newline="", encoding="utf-8") as f:
        out = csv.DictWriter(f, ["text", "label"], lineterminator=end, extrasaction="ignore")
        out.writeheader()
        out.writerows(rows)
    ds = stoker.open(str(path))
    assert [(ds[i]["text"].decode(), int(ds[i]["label"])) for i in range(200)] == [(r["text"], r["label"]) for r in rows]


@pytest.mark.asan
def test_duckdb_reads_the_same(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.csv"
    duckdb.sql("SELECT range AS i, CASE WHEN range % 3 = 0 THEN 'a,\"b\"' ELSE 'x' || range END AS s FROM range(500)").write_csv(str(path))
    ds = stoker.open(str(path))
    assert [(int(ds[i]["i"]), ds[i]["s"].decode()) for i in range(500)] == duckdb.read_csv(str(path)).fetchall()


@pytest.mark.parametrize("workers", [0, 2])
def test_loader(tmp_path, workers):
    rows = records(300)
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(r) for r in rows[:100]), newline="")
    (tmp_path / "b.jsonl").write_text("\n".join(json.dumps(r) for r in rows[100:]), newline="")
    loader = stoker.Loader(str(tmp_path / "*.jsonl"), {"text": "text", "label": "int"}, batch_size=32, shuffle=True, num_workers=workers)
    seen = []
    for batch in loader:
        for i, text, label in zip(batch.sample_ids.tolist(), batch["text"], np.asarray(batch["label"]).tolist()):
            assert (text, label) == (rows[i]["text"], rows[i]["label"])
            seen.append(i)
    assert sorted(seen) == list(range(300))


def test_a_path_makes_it_a_manifest(tmp_path):
    (tmp_path / "x.txt").write_text("content")
    (tmp_path / "m.jsonl").write_text('{"path": "x.txt", "label": 3}\n{"label": 4}\n')
    with pytest.raises(stoker.StokerError, match="line 2: there is no path"):
        stoker.open(str(tmp_path / "m.jsonl"))
    (tmp_path / "d.jsonl").write_text('{"label": 3}\n{"path": "x.txt", "label": 4}\n')
    ds = stoker.open(str(tmp_path / "d.jsonl"))
    assert ds[1]["path"] == b"x.txt" and ds[0]["label"] == b"3"
    with pytest.raises(stoker.StokerError, match="its lines are the data"):
        list(stoker.Loader(str(tmp_path / "d.jsonl"), {"x": "from(path) | open | bytes"}, select=[1]))


def test_damage_has_a_line(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(stoker.StokerError, match="line 2"):
        stoker.open(str(tmp_path / "t.jsonl"))
    (tmp_path / "t.csv").write_text('a,b\n1,2\n1\n')
    with pytest.raises(stoker.StokerError, match="line 3: 1 cells, the header line has 2"):
        stoker.open(str(tmp_path / "t.csv"))


@pytest.mark.asan
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_columns_taken_together(tmp_path, kind):
    rng = np.random.default_rng(18)
    x = rng.standard_normal((300, 40)).round(4)
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        cells = [[*(repr(float(v)) for v in row), f"say \"{i}\", twice", "" if i % 7 == 3 else f" {i} "] for i, row in enumerate(x)]
        with open(path, "w", newline="") as f:
            csv.writer(f, quoting=csv.QUOTE_NONNUMERIC).writerows([[*(f"x{i}" for i in range(40)), "text", "holes"], *cells])
    else:                                       # members in any order, some missing, null or quoted
        rows = []
        for i, row in enumerate(x):
            r = {f"x{k}": float(v) for k, v in enumerate(row)} | {"text": "a"} | ({} if i % 14 == 3 else {"holes": None if i % 7 == 3 else str(i)})
            rows.append(json.dumps(dict(sorted(r.items(), reverse=i % 2))) + "\n")
        path.write_text("".join(rows))
    holes = np.array([np.nan if i % 7 == 3 else i for i in range(300)])
    for chain, want in (("columns('x*') | to(f32)", x[:, [int(n[1:]) for n in sorted(f"x{i}" for i in range(40))]].astype("f4")
                         if kind == "jsonl" else x.astype("f4")),
                        ("columns(x3, holes)", np.stack([x[:, 3], holes], 1)),
                        ("columns(holes, default=-1)", np.nan_to_num(holes, nan=-1)[:, None]),
                        ("columns('[ht]*')", holes[:, None])):
        with stoker.Loader(str(path), {"x": chain}, batch_size=64, shuffle=True, num_workers=2) as loader:
            for batch in loader:
                got = np.asarray(batch["x"])
                assert got.dtype == want.dtype and batch.valid.all()
                np.testing.assert_array_equal(got, want[np.asarray(batch.sample_ids)], err_msg=chain)
    with pytest.raises(stoker.StokerError, match="text is not a number"):
        next(iter(stoker.Loader(str(path), {"x": "columns(text)"}, batch_size=64)))
    with pytest.raises(stoker.StokerError, match="no column of numbers is called t\\*"):
        stoker.Loader(str(path), {"x": "columns('t*')"}, batch_size=64)


@pytest.mark.asan
@pytest.mark.parametrize("mark", ["\t", ";"])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_other_marks(tmp_path, mark, name):
    """The header line says what is between cells; a cell may begin with any other mark."""
    rows = [*records(100), *({"text": t, "label": 0} for t in (";x", "\tx", ",x", ',"x', ';"y"', "\n;"))]
    with open(tmp_path / name, "w", newline="", encoding="utf-8") as f:
        out = csv.DictWriter(f, ["text", "label"], delimiter=mark, extrasaction="ignore")
        out.writeheader()
        out.writerows(rows)
    got = [(s["text"].decode(), int(s["label"])) for s in stoker.open(str(tmp_path / name))]
    assert got == [(r["text"], r["label"]) for r in rows]


def test_marks_in_comma_files(tmp_path):
    """A comma in the header line is what counts, and cells may begin with the other marks."""
    rows = [(t, u) for t in (";x", "\tx", ';"x', "\t", ";") for u in ("1", ";", "\t\"")]
    with open(tmp_path / "t.csv", "w", newline="") as f:
        csv.writer(f).writerows([("a;b", "c\td"), *rows])
    assert [(s["a;b"].decode(), s["c\td"].decode()) for s in stoker.open(str(tmp_path / "t.csv"))] == rows


def test_json_by_its_name(tmp_path):
    """What is called .jsonl is never read as CSV; an empty part, as Spark writes them, has no samples."""
    (tmp_path / "a.jsonl").write_text("")
    (tmp_path / "b.jsonl").write_text('{"x": 1}\n{"x": 2}\n')
    (tmp_path / "c.jsonl").write_text("\n\n")
    ds = stoker.open(str(tmp_path / "*.jsonl"))
    assert [s["x"] for s in ds] == [b"1", b"2"] and len(ds.shards) == 3
    for text in ("[1, 2]\n[3, 4]\n", '"one"\n"two"\n', "1\n2\n"):
        (tmp_path / "d.ndjson").write_text(text)
        with pytest.raises(stoker.StokerError, match="line 1: not a JSON object"):
            stoker.open(str(tmp_path / "d.ndjson"))
