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
