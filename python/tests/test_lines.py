# SPDX-License-Identifier: Apache-2.0
"""JSON lines and CSV without a column `path`: every line is a sample, its members or cells are fields."""
import csv
import json
import os
import pickle
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


@pytest.mark.asan
def test_a_path_may_be_a_files_name(tmp_path):
    """Corpora of code and of the web have fields called path, offset and length; only `open` takes them for a file's."""
    (tmp_path / "x.txt").write_text("content")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "é.txt").write_text("other")
    rows = [{"path": "x.txt", "length": 3}, {"path": None, "length": 8.5}, {"label": 4}, {"path": "src/a.py", "length": "many", "offset": -1},
            {"path": ["a"], "length": 2}, {"path": "p" * 5000}, {"path": ""}, {"path": "x.txt", "other": "deep/\u00e9.txt"}]
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    ds = stoker.open(str(tmp_path / "m.jsonl"))
    for i, row in enumerate(rows):
        got = {k: v.decode() for k, v in ds[i].items() if not k.startswith("__")}
        assert got == {k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items() if v is not None}
        key = row.get("path")
        assert ds[i]["__key__"] == (key if isinstance(key, str) and 0 < len(key) < 4096 else str(i))
    chain = {"x": "from(path) | open | bytes"}
    assert bytes(stoker.open(str(tmp_path / "m.jsonl"), chain)[0]["x"]) == b"con"
    assert bytes(stoker.open(str(tmp_path / "m.jsonl"), {"x": "from(other) | open | bytes"})[7]["x"]) == b"other"
    for i, why in ((1, "no field"), (3, "not a count of bytes"), (4, "not a file's name"), (5, "not a file's name"), (6, "its path is empty")):
        with pytest.raises(stoker.StokerError, match=why):
            list(stoker.Loader(str(tmp_path / "m.jsonl"), chain, select=[i]))
    with stoker.Loader(str(tmp_path / "m.jsonl"), {"x": "from(path) | open | bytes"}, on_error="skip", batch_size=8, select=[0, 3, 5, 7]) as loader:
        assert {bytes(x) for batch in loader for x in batch["x"]} == {b"con", b"content"}


def test_the_index_of_a_manifest_is_small(tmp_path):
    """The index has the paths; captions and all other texts stay in the file."""
    (tmp_path / "m.jsonl").write_text("".join(json.dumps({"path": f"{i}.jpg", "caption": "c" * 2000}) + "\n" for i in range(2000)))
    assert len(stoker.open(str(tmp_path / "m.jsonl"))) == 2000
    assert sum(p.stat().st_size for p in (tmp_path / ".stoker").iterdir()) < 150_000


@pytest.mark.asan
def test_numbers_that_python_writes(tmp_path):
    rows = [{"x": float("nan")}, {"x": float("inf")}, {"x": float("-inf"), "l": [1.5, float("nan")]}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    with stoker.Loader(str(tmp_path / "t.jsonl"), {"x": "float"}, batch_size=3) as loader:
        assert np.isnan(next(iter(loader))["x"][0]) and next(iter(loader))["x"].tolist()[1:] == [float("inf"), float("-inf")]
    assert np.isnan(stoker.open(str(tmp_path / "t.jsonl"), {"l": "floats"})[2]["l"][1])
    for bad in ("NaNs", "-NaN", "Inf", "+Infinity", "N", "-I"):
        (tmp_path / "bad.jsonl").write_text('{"x": ' + bad + "}\n")
        with pytest.raises(stoker.StokerError, match="line 1: not JSON"):
            stoker.open(str(tmp_path / "bad.jsonl"))


@pytest.mark.asan
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_damaged_lines_are_left_out_on_request(tmp_path, kind, caplog):
    good = [json.dumps({"a": i, "b": "x"}) if kind == "jsonl" else f"{i},x" for i in range(300)]
    bad = {3: '{"a": 1' if kind == "jsonl" else "1", 7: '{"a": "\x01"}' if kind == "jsonl" else '1,"x" y', 299: "[1]" if kind == "jsonl" else "1,2,3"}
    head = [] if kind == "jsonl" else ["a,b"]
    path = str(tmp_path / f"t.{kind}")
    (tmp_path / f"t.{kind}").write_text("\n".join(head + [bad.get(i, line) for i, line in enumerate(good)]))
    want = [i for i in range(300) if i not in bad]
    with pytest.raises(stoker.StokerError, match=f"line {4 + len(head)}: "):
        stoker.open(path)
    with caplog.at_level("WARNING"):
        ds = stoker.open(path, salvage=True)
    assert [int(s["a"]) for s in ds] == want
    assert f"3 damaged lines were left out, the first is line {4 + len(head)}: " in caplog.text
    with pytest.raises(stoker.StokerError, match="line "):
        stoker.Loader(path, {"a": "int"}, on_error={"skip": 1})
    with stoker.Loader(path, {"a": "int"}, on_error="skip", batch_size=32, num_workers=2) as loader:
        assert np.concatenate([np.asarray(b["a"]) for b in loader]).tolist() == want


CELLS = ["a", "", "x y", "é", 'q"q', "c,c", "s;s", "t\tt", "1.5", '"', '""', "\n", "\r", "\r\n", " ", "日本"]


@pytest.mark.asan
@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_line_ends_as_pandas_reads_them(tmp_path, end):
    pandas = pytest.importorskip("pandas")
    rng = random.Random(16)
    for n, mark in enumerate(",\t;" * 4):
        cells = [c for c in CELLS if n % 2 == 0 or c not in "\r\n" or not c]     # Python's writer does not quote all of those
        rows = [[rng.choice(cells) for _ in range(3)] for _ in range(rng.randrange(1, 60))]
        path = tmp_path / f"{n}.csv"
        with open(path, "w", newline="", encoding="utf-8") as f:
            csv.writer(f, delimiter=mark, lineterminator=end, quoting=csv.QUOTE_MINIMAL if n % 2 else csv.QUOTE_ALL).writerows([["x", "y", "z"], *rows])
        if n % 3 == 0:                          # the last line may lack its end
            path.write_bytes(path.read_bytes().removesuffix(end.encode()))
        want = pandas.read_csv(path, sep=mark, dtype=str, keep_default_na=False, skip_blank_lines=False, engine="python")
        got = [[s[k].decode() for k in "xyz"] for s in stoker.open(str(path))]
        assert got == want.values.tolist() == rows, (n, mark)


def test_line_ends_at_the_edge_of_a_window(tmp_path):
    """CR LF is one line's end also where a read of 1 MiB ends between both."""
    for end in ("\r\n", "\r"):
        for cut in range(-3, 4):
            first = "x" * ((1 << 20) - len("a,b") - 2 * len(end) - 2 + cut)
            (tmp_path / "t.csv").write_bytes((f"a,b{end}{first},1{end}y,2{end}").encode())
            ds = stoker.open(str(tmp_path / "t.csv"))
            assert [(len(s["a"]), s["b"]) for s in ds] == [(len(first), b"1"), (1, b"2")]
            (tmp_path / "t.csv").unlink()
            for p in (tmp_path / ".stoker").iterdir():
                p.unlink()


@pytest.mark.asan
def test_quotes_between_tabs(tmp_path):
    """Who writes tabs often quotes nothing: a quote that does not enclose its cell is text, as DuckDB and pandas read it without quoting."""
    lines = ['a 5" disk\t1', 'say "hi"\t2', '"half\t3" more', '"hi" he said\t4', '"whole"\t5', ',"x"\t6', ';"y"\t"7 ""q"""', '"a"b"\t8', '"a\t"b"x', "x\t9"]
    (tmp_path / "t.tsv").write_text("text\tn\n" + "\n".join(lines) + "\n")
    got = [(s["text"].decode(), s["n"].decode()) for s in stoker.open(str(tmp_path / "t.tsv"))]
    assert got == [('a 5" disk', "1"), ('say "hi"', "2"), ('"half', '3" more'), ('"hi" he said', "4"), ("whole", "5"), (',"x"', "6"),
                   (';"y"', '7 "q"'), ('"a"b"', "8"), ('"a', '"b"x'), ("x", "9")]
    (tmp_path / "u.tsv").write_text('text\tn\n"open\t1\nx\t2" y\n')
    with pytest.raises(stoker.StokerError, match="line 2: text after the closing quote of cell 1"):
        stoker.open(str(tmp_path / "u.tsv"))        # it encloses a line's end: no one can say what was meant


@pytest.mark.asan
def test_encodings(tmp_path):
    text = "naïve – “x” €"
    for name in ("cp1252", "latin-1", "cp1251", "iso8859-15"):
        rows = [("größe" if name != "cp1251" else "размер", "path"), ((text if name == "cp1252" else "ä" if name != "cp1251" else "я"), "p.txt")]
        path = tmp_path / f"{name}.csv"
        path.write_bytes("\n".join(",".join(r) for r in rows).encode(name))
        with pytest.raises(stoker.StokerError, match="line 1: the name of column 1 is not UTF-8: .*encoding="):
            stoker.open(str(path))
        ds = stoker.open(str(path), encoding=name)
        assert ds.fields == list(rows[0]) and ds[0][rows[0][0]].decode() == rows[1][0]
        decoded = stoker.open(str(path), {"x": f"from('{rows[0][0]}') | text"}, encoding=name)
        assert decoded[0]["x"] == rows[1][0]
        assert pickle.loads(pickle.dumps(decoded))[0]["x"] == rows[1][0]
        os.utime(path, (1, 1))                   # verified again when it is read, by the same encoding
        assert stoker.open(str(path), encoding=name)[0][rows[0][0]].decode() == rows[1][0]
    (tmp_path / "c.csv").write_bytes(b"a\n\x81\n")
    with pytest.raises(stoker.StokerError, match="byte 0x81 is no character of the file's encoding"):
        stoker.open(str(tmp_path / "c.csv"), encoding="cp1252")[0]
    assert stoker.open(str(tmp_path / "c.csv"))[0]["a"] == b"\x81"
    (tmp_path / "d.csv").write_text("a\n1\n", encoding="utf-16")
    with pytest.raises(stoker.StokerError, match="it is UTF-16; make UTF-8 of it: iconv"):
        stoker.open(str(tmp_path / "d.csv"))
    (tmp_path / "d.jsonl").write_text('{"a": 1}\n')
    for what, why in (("gbk", "one byte per character.*iconv -f gbk"), ("utf-16", "iconv -f utf-16"), ("klingon", "name of an encoding"), (3, "name of an encoding")):
        with pytest.raises(stoker.StokerError, match=why):
            stoker.open(str(tmp_path / "c.csv"), encoding=what)
    assert stoker.open(str(tmp_path / "c.csv"), encoding="utf-8")[0]["a"] == b"\x81"
    with pytest.raises(stoker.StokerError, match="encoding= is for CSV"):
        stoker.open(str(tmp_path / "d.jsonl"), encoding="cp1252")


def test_names_of_columns_as_duckdb_has_them(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"x": [5, 6]}).to_csv(tmp_path / "pandas.csv")         # an index column without a name
    (tmp_path / "odd.csv").write_text(",a,a,b,a,\n0,1,2,3,4,5\n")
    for name in ("pandas.csv", "odd.csv"):
        ds, want = stoker.open(str(tmp_path / name)), duckdb.read_csv(str(tmp_path / name))
        assert ds.fields == want.columns
        assert [[int(s[k]) for k in ds.fields] for s in ds] == [list(r) for r in want.fetchall()]
    (tmp_path / "more.csv").write_text("a,a_1,a,column3,,\n0,1,2,3,4,5\n")
    assert stoker.open(str(tmp_path / "more.csv")).fields == ["a", "a_1", "a_2", "column3", "column4", "column5"]


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
