# SPDX-License-Identifier: Apache-2.0
"""pack(tokenize=): text into token files that a loader, and Megatron, read."""

import json
from pathlib import Path

import numpy as np
import pytest
from pack_functions import far_letters, letters, letters_dict, shorten, some_fail

import stoker


@pytest.fixture
def texts(tmp_path):
    with stoker.Writer(tmp_path / "src-%d.tar", 20) as w:
        for i in range(50):
            w.write({"__key__": f"{i:02d}", "txt": "" if i == 7 else f"text number {i}", "cls": i})
    return str(tmp_path / "src-*.tar")


def documents(folder):
    """As Megatron's reader has them: (type, list of documents)."""
    docs, kinds = [], set()
    for path in sorted(Path(folder).glob("*.bin")):
        raw = path.with_suffix(".idx").read_bytes()
        assert raw[:9] == b"MMIDIDX\0\0"
        code, (n, marks) = raw[17], np.frombuffer(raw, "<u8", 2, 18)
        kind = {4: "<i4", 8: "<u2"}[code]
        lengths, starts = np.frombuffer(raw, "<i4", n, 34), np.frombuffer(raw, "<i8", n, 34 + 4 * n)
        assert list(np.frombuffer(raw, "<i8", marks, 34 + 12 * n)) == list(range(n + 1)) and len(raw) == 34 + 12 * n + 8 * marks
        data = path.read_bytes()
        docs += [np.frombuffer(data, kind, length, at).tolist() for length, at in zip(lengths, starts, strict=True)]
        kinds.add(kind)
    return kinds, docs


def files(folder):
    return {p.name: p.read_bytes() for p in sorted(Path(folder).iterdir()) if p.is_file()}


def test_text_to_tokens(texts, tmp_path):
    want = [letters(f"text number {i}") for i in range(50) if i != 7]
    done = stoker.pack(texts, tmp_path / "one", tokenize=letters, samples=8, num_proc=1)
    assert documents(tmp_path / "one") == ({"<i4"}, want)
    assert (done["shards"], done["samples"], done["dropped"]["functions"]) == (7, 49, 1)
    assert done["pattern"].endswith("shard-{000000..000006}.bin")
    stoker.pack(texts, tmp_path / "many", tokenize=letters, samples=8, num_proc=3)
    assert files(tmp_path / "many") == files(tmp_path / "one")
    loader = stoker.Loader(str(tmp_path / "one/*.bin"), {"x": "tokens(block=7)"}, batch_size=1)
    stream = [int(t) for batch in loader for t in np.asarray(batch["x"]).ravel()]
    flat = [t for doc in want for t in doc]
    assert stream == flat[:len(flat) // 7 * 7]


def test_types_ends_and_dicts(texts, tmp_path):
    stoker.pack(texts, tmp_path / "u", tokenize=stoker.Tokens(letters_dict, dtype="u16", end=0), num_proc=1)
    kinds, docs = documents(tmp_path / "u")
    assert kinds == {"<u2"} and docs[3] == [*letters("text number 3"), 0] and len(docs) == 49
    stoker.pack(texts, tmp_path / "m", tokenize=letters, map=shorten, shuffle=3, split={"a": 0.5, "b": 0.5}, num_proc=1)
    assert documents(tmp_path / "m")[1] == [letters("tex")] * 49
    assert {p.name for p in (tmp_path / "m").glob("*.bin")} == {"a-000000.bin", "b-000000.bin"}

    class Known:
        vocab_size = 300

        def __call__(self, text):
            return np.array(letters(text))
    assert stoker.Tokens(Known()).dtype == "u16" and stoker.Tokens(Known()).make({"text": "ab"}).tolist() == [97, 98]
    assert stoker.Tokens(letters, field="cap").make({"cap": b"a", "txt": "b"}).tolist() == [97]


def test_what_is_done_is_not_done_again(texts, tmp_path):
    how = {"tokenize": letters, "samples": 10, "num_proc": 1}
    stoker.pack(texts, tmp_path / "out", **how)
    want = files(tmp_path / "out")
    assert stoker.pack(texts, tmp_path / "out", **how)["kept_shards"] == 5
    for name in ("shard-000001.bin", "shard-000003.bin", "shard-000003.idx"):
        (tmp_path / "out" / name).unlink()
    assert stoker.pack(texts, tmp_path / "out", **how)["kept_shards"] == 3
    assert files(tmp_path / "out") == want
    with pytest.raises(stoker.StokerError, match="another place or name"):
        stoker.pack(texts, tmp_path / "out", tokenize=letters_dict, samples=10, num_proc=1)
    stoker.pack(texts, tmp_path / "out", tokenize=letters, num_proc=1, force=True)
    assert set(files(tmp_path / "out")) == {"shard-000000.bin", "shard-000000.idx"}


def test_texts_that_fail(texts, tmp_path):
    done = stoker.pack(texts, tmp_path / "out", tokenize=some_fail, on_error="skip", num_proc=1)
    assert (done["samples"], done["failed"]) == (39, 10)
    (listed,) = (tmp_path / "out/.stoker").glob("*.failed")
    reasons = {json.loads(line)["reason"] for line in listed.read_text().splitlines()}
    assert reasons == {"RuntimeError: three", "tokenize answers a list of whole numbers, or a dict with input_ids, not str"}
    with pytest.raises(stoker.StokerError, match="three"):
        stoker.pack(texts, tmp_path / "no", tokenize=some_fail, num_proc=1)


@pytest.mark.parametrize(("how", "says"), [
    ({"tokenize": 3}, "function from text"), ({"tokenize": letters, "fields": {"txt": None}}, "go without fields"),
    ({"timeout": 3}, "tokenize")])
def test_refusals(texts, tmp_path, how, says):
    with pytest.raises(stoker.StokerError, match=says):
        stoker.pack(texts, tmp_path / "out", **how)


@pytest.mark.parametrize(("tokens", "says"), [
    (lambda: stoker.Tokens(far_letters, dtype="u16"), "does not fit u16"), (lambda: stoker.Tokens(letters, field="no"), "it has: txt, cls"),
    (lambda: stoker.Tokens(letters, dtype="u8"), "u16"), (lambda: stoker.Tokens(letters, end=-1), "end is a token")])
def test_tokens_that_are_refused(texts, tmp_path, tokens, says):
    with pytest.raises(stoker.StokerError, match=says):
        stoker.pack(texts, tmp_path / "out", tokenize=tokens(), num_proc=1)


def test_names_end_in_bin(texts, tmp_path):
    with pytest.raises(stoker.StokerError, match="ends in .bin"):
        stoker.pack(texts, tmp_path / "t-%d.tar", tokenize=letters)
    stoker.pack(texts, tmp_path / "t-%d.bin", tokenize=letters, num_proc=1)
    assert (tmp_path / "t-0.idx").exists()
