# SPDX-License-Identifier: Apache-2.0
"""loader.expect(): a loader holds a description and warns while training."""

import json
import logging
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import stoker
from conftest import write_tar

CLI = Path(os.environ.get("STOKER_CLI", Path(__file__).resolve().parents[2] / "build/cli/stoker")).resolve()
FIELDS = {"label": "from(cls) | int"}


def shard(path, seed, n=3000, classes=(0.25, 0.25, 0.25, 0.25), long=40):
    rng = np.random.default_rng(seed)
    return str(write_tar(path, [(f"{i:05d}.{field}", data) for i in range(n) for field, data in (
        ("cls", b"%d" % rng.choice(len(classes), p=classes)), ("txt", b"x" * int(rng.integers(50, 50 + long))))]))


def describe(path, to):
    if not CLI.exists():
        pytest.skip(f"{CLI} is not built")
    text = subprocess.run([CLI, "describe", path], capture_output=True, text=True, timeout=180, check=True).stdout
    to.write_text(text)
    return to


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    folder = tmp_path_factory.mktemp("before")
    path = shard(folder / "a.tar", 1)
    return path, describe(path, folder / "a.json")


def loop(path, expected, **more):
    with stoker.Loader(path, FIELDS, batch_size=100, shuffle=True, **more) as loader:
        held = loader.expect(expected)
        for _ in loader:
            pass
        held.wait()
    return held


def test_data_as_it_was(before, tmp_path, caplog):
    path, text = before
    for data in (path, shard(tmp_path / "b.tar", 2)):
        held = loop(data, text)
        assert held.checks == 1 and held.drifted == [] and {r.feature for r in held.rows} >= {"cls", "txt.bytes"}
    assert caplog.records == []


@pytest.mark.parametrize("change, feature", [({"classes": (0.7, 0.1, 0.1, 0.1)}, "cls"), ({"long": 90}, "txt.bytes")])
def test_data_that_changed(before, tmp_path, caplog, change, feature):
    path = shard(tmp_path / "b.tar", 2, **change)
    with caplog.at_level(logging.WARNING, logger="stoker"):
        held = loop(path, json.loads(before[1].read_text()))        # a dict will do
    assert [row.feature for row in held.drifted] == [feature]
    assert len(caplog.records) == 1 and f"describes them: {feature} (" in caplog.text


def test_samples_that_are_drawn_otherwise(before, caplog):
    """The data is the same; what the loop gets of it is not."""
    path, text = before
    labels = np.array([int(v) for v in stoker.open(path, columns=["cls"]).column("cls")])
    held = loop(path, text, select=np.flatnonzero(labels < 2).tolist() * 2)
    assert "cls" in {row.feature for row in held.drifted} and "are not as" in caplog.text


def test_it_says_so_once(before, tmp_path, caplog):
    path = shard(tmp_path / "b.tar", 2, n=400, long=90)
    with stoker.Loader(path, FIELDS, batch_size=50) as loader:
        held = loader.expect(before[1], every=200)
        for _ in range(4):
            for _ in loader:
                held.wait()
    assert held.checks >= 4 and caplog.text.count("txt.bytes") == 1


def test_a_missing_field(before, tmp_path, caplog):
    path = str(write_tar(tmp_path / "b.tar", [(f"{i}.cls", b"%d" % (i % 4)) for i in range(400)]))
    held = loop(path, before[1])
    assert "txt.bytes is missing or new" in caplog.text and held.checks == 1


def test_bad_input(before, tmp_path):
    path, text = before
    with stoker.Loader(path, FIELDS, batch_size=100) as loader:
        (tmp_path / "other.json").write_text('{"samples": 3}')
        with pytest.raises(stoker.StokerError, match=r"other.json: this is not a description"):
            loader.expect(tmp_path / "other.json")
        later = {**json.loads(text.read_text()), "stoker_description": 2}
        with pytest.raises(stoker.StokerError, match="version 2 and this build reads 1: describe the data again"):
            loader.expect(later)
        with pytest.raises(stoker.StokerError, match="could not be read: No such file"):
            loader.expect(tmp_path / "none.json")
        with pytest.raises(stoker.StokerError, match="not 5"):
            loader.expect(5)
        with pytest.raises(stoker.StokerError, match="every"):
            loader.expect(text, every=0)
    with pytest.raises(stoker.StokerError, match="closed"):
        loader.expect(text)
    with stoker.Loader([stoker.open(path), stoker.open(path)], FIELDS, batch_size=100) as loader:
        with pytest.raises(stoker.StokerError, match="one data set"):
            loader.expect(text)
