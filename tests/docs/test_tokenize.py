# SPDX-License-Identifier: Apache-2.0
"""examples/tokenize_and_train.py: text in, token files and a model that has learned something out."""

import importlib.util
import os
import pathlib
import re
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve()
sys.path.insert(0, str(ROOT / "tests"))
from forked_python import TORCH, python  # noqa: E402

EXAMPLE = ROOT / "examples" / "tokenize_and_train.py"


def example():
    spec = importlib.util.spec_from_file_location("tokenize_and_train", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_text_becomes_tokens_and_a_model(tmp_path, monkeypatch):
    run = python(*TORCH).run([EXAMPLE, tmp_path], env=os.environ | {"PYTHONPATH": str(BUILD / "python")})
    assert run.returncode == 0, run.stderr
    assert "1200 documents in 6 shards" in run.stdout
    first, last = map(float, re.search(r"loss (\S+) at first, (\S+) on held-out", run.stdout).groups())
    assert first > 5 and last < 1.0

    monkeypatch.syspath_prepend(str(BUILD / "python"))
    documents = example().some_documents()              # the files hold the text, document by document, val first
    ids = np.concatenate([np.fromfile(tmp_path / f"{name}.bin", np.uint16) for name in ("val", "train")])
    decoded = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).decode(ids.tolist(), skip_special_tokens=False)
    assert decoded.split("<|end|>") == [*documents, ""]
