# SPDX-License-Identifier: Apache-2.0
"""bench/peers: what the driver makes of rows, and two contenders at work for a second."""

import importlib
import json
import os
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "bench/peers"
BUILD = Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve()
sys.path.insert(0, str(PEERS))

import common  # noqa: E402
import report  # noqa: E402
import run as driver  # noqa: E402
import venvs  # noqa: E402

LOOK = {"samples": 640, "kinds": ["torch float32 [3, 224, 224]"], "mean": [0.05, 0.07, 0.08],
        "std": [1.16, 1.15, 1.2], "edges": 0.138, "label_fit": 0.8}


def row(rate, cpu=1.0, memory=500.0, first=0.1):
    return {"samples_per_s": rate, "cpu_s_per_1000": cpu, "peak_memory_mb": memory, "first_batch_s": first}


def entry(title, *rows, **setting):
    return {"title": title, "note": f"how {title} is set", "setting": setting, "rows": list(rows)}


@pytest.fixture
def entries():
    return {"slow": entry("Slow", row(700, 2.8, 400, 1.5), row(650, 2.6, 420, 1.2), workers=2, transforms="pillow"),
            "gone": {"title": "Gone", "absent": "does not install: no wheel"},
            "stoker_tar": entry("Stoker", row(1900, 1.05), row(2000, 1.0)),
            "stoker_seek": entry("Stoker, seek points", row(4000, 0.5, 600, 0.05)),
            "fast": entry("Fast", row(2100, 1.2, 500, 0.09), threads=2)}


def cells_of(table, title):
    line = next(line for line in table.splitlines() if line.startswith(f"| {title} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_best_is_taken_column_by_column(entries):
    assert report.best(entries["slow"]["rows"]) == row(700, 2.6, 400, 1.2)
    assert report.spread(entries["slow"]["rows"]) == pytest.approx(50 / 700)


def test_table_bolds_what_beats_plain_stoker_and_nothing_else(entries):
    table = report.table(entries)
    assert cells_of(table, "Fast") == ["Fast", "**2,100**", "1.20", "500", "**0.09**", "2 threads"]
    assert cells_of(table, "Slow") == ["Slow", "700", "2.60", "**400**", "1.20", "2 workers, pillow"]
    assert cells_of(table, "Stoker") == ["Stoker", "2,000", "1.00", "500", "0.10", "as it is"]
    assert "**" not in "".join(cells_of(table, "Stoker, seek points"))


def test_table_is_fastest_first_and_ends_with_the_absent(entries):
    table = report.table(entries)
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == [
        "Stoker, seek points", "Fast", "Stoker", "Slow", "Gone"]
    assert cells_of(table, "Gone") == ["Gone", "–", "–", "–", "–", "does not install: no wheel"]
    assert len({line.count("|") for line in table.splitlines()}) == 1


def test_table_without_stoker_bolds_nothing(entries):
    entries["stoker_tar"] = {"title": "Stoker", "absent": "not built"}
    assert "**" not in report.table(entries)


def test_notes_are_of_those_that_ran(entries):
    entries["fast"]["remarks"] = ["samples more sharply"]
    notes = report.notes(entries)
    assert "- Fast: how Fast is set; samples more sharply" in notes and "Gone" not in notes


def test_chart_has_a_bar_for_each_that_ran_in_proportion(entries):
    root = ET.fromstring(report.chart(entries, "a caption & <more>"))
    space = "{http://www.w3.org/2000/svg}"
    bars = [(float(r.get("width")), r.get("fill")) for r in root.iter(f"{space}rect")][1:]
    assert [width for width, _ in bars] == [320, 168, 160, 56]
    assert [fill == "#c2571a" for _, fill in bars] == [True, False, True, False]
    words = [t.text for t in root.iter(f"{space}text")]
    assert "2,100/s" in words and "Gone" not in words and "a caption & <more>" in words


def test_chart_of_nothing_is_still_a_picture():
    ET.fromstring(report.chart({"gone": {"title": "Gone", "absent": "why"}}, ""))


@pytest.mark.parametrize("change, said", [
    ({}, None), ({"kinds": ["numpy float32 [3, 224, 224]"]}, None),
    ({"kinds": ["torch uint8 [3, 224, 224]"]}, "uint8"), ({"kinds": ["torch float32 [224, 224, 3]"]}, "224, 3]"),
    ({"kinds": ["torch float32 [3, 224, 224] not contiguous"]}, "not contiguous"), ({"label_fit": 0.1}, "labels")])
def test_other_output_is_told(change, said):
    found = report.differs({**LOOK, **change}, [3, 224, 224])
    assert found is None if said is None else said in found


@pytest.mark.parametrize("change, bad, remark", [
    ({}, None, None), ({"mean": [0.05, 0.3, 0.08]}, "in the mean", None), ({"std": [1.16, 1.15, 0.9]}, "spread", None),
    ({"edges": 0.2}, None, "more sharply"), ({"edges": 0.1}, None, "more softly")])
def test_other_values_are_told(change, bad, remark):
    found, remarks = report.compare({**LOOK, **change}, LOOK)
    assert (found is None) if bad is None else bad in found
    assert (not remarks) if remark is None else remark in remarks[0]


@pytest.mark.parametrize("text, reason", [
    ("ERROR: Could not find a version\nERROR: No matching distribution found for x==1", "not on the package index"),
    ("Traceback\n  File \"/a/b/c.py\"\nRuntimeError: Could not find package: opencv.", "find package: opencv"),
    ("ImportError: /usr/lib/x86/libfoo.so.1: no such file", "ImportError: libfoo.so.1: no such file"),
    ("ValueError: see https://host.example/simple/x", "ValueError: see ..."), ("", "said nothing")])
def test_reasons_are_short_and_name_no_host_or_path(text, reason):
    found = venvs.short_reason(text + "\n")
    assert reason in found and "://" not in found and "/usr" not in found
    assert len(venvs.short_reason("TypeError: " + "x" * 500)) <= 100


def test_every_contender_says_what_it_is():
    for name in driver.CONTENDERS:
        peer = importlib.import_module(name)
        assert peer.TITLE and peer.NOTE and peer.MODULES and len(peer.SETTINGS) >= 1
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", package) for package in peer.PACKAGES)
        assert callable(peer.prepare) and callable(peer.batches)
        assert peer.TITLE in (ROOT / "docs/peers.md").read_text()


# ---- at work ----------------------------------------------------------------------------------------

@pytest.fixture
def work(tmp_path):
    """Forty photos of one brightness each, so that labels can be told from pictures."""
    files = []
    for i in range(40):
        files.append(tmp_path / f"{i:02d}.jpg")
        noise = Image.effect_noise((80 + i, 70), 20).point(lambda v, i=i: max(v - 128, 0) + 5 * i)
        noise.convert("RGB").save(files[-1], quality=90)
    driver.write_photos(tmp_path / "work", files, 320)
    return tmp_path / "work"


def contender(name, work):
    args = SimpleNamespace(work=work, build=BUILD, cores=os.sched_getaffinity(0), warm=0, no_install=True,
                           tune_seconds=0.3, tune_rounds=1, seconds=0.5, rounds=1)
    return driver.Contender(name, args)


def test_shards_hold_every_sample_once(work):
    data, names = common.Data(work), []
    for path in sorted(data.shards().glob("*.tar")):
        with tarfile.open(path) as tar:
            names += [m.name for m in tar]
    assert names == [f"{n:08d}.{ext}" for n in range(320) for ext in ("jpg", "cls")]
    assert data.label(41) == 1 and data.path(41).endswith("01.jpg")


def test_a_broken_preparation_leaves_nothing_behind(work):
    data = common.Data(work)

    def fails(path):
        path.mkdir()
        raise OSError("disk full")
    with pytest.raises(OSError):
        data.once("half", fails)
    assert not (work / "half").exists()
    assert data.once("half", lambda path: path.mkdir()).is_dir()


def test_two_contenders_at_work(work, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(driver, "CHECK_BATCHES", 4)
    if not (BUILD / "python/stoker").exists():
        pytest.skip("the Python package is not built")
    names = ("stoker_tar", "dataloader") if os.environ.get("STOKER_PEERS") else ("dataloader",)     # each imports torch three times
    both = [contender(name, work) for name in names]
    for c in both:
        c.settings = c.settings[:1]
        c.prepare()
        assert c.absent is None
    driver.measure(both, both[0].args)
    for c in both:
        assert c.absent is None and len(c.rows) == 1 and not c.remarks, c.tried
        assert c.look["kinds"] == ["torch float32 [3, 224, 224]"] and c.look["label_fit"] > 0.95
        got = c.rows[0]
        assert got["samples"] % 64 == 0 and got["samples_per_s"] > 10 and 0 < got["first_batch_s"] < 60
        assert got["peak_memory_mb"] > 20 and got["cpu_s_per_1000"] >= 0
        assert c.entry()["versions"]["torch"]


def test_a_contender_that_fails_is_absent_with_a_reason(work):
    pytest.importorskip("torch")
    c = contender("dataloader", work)
    c.settings = [{"workers": -1}]
    c.tune()
    assert c.absent.startswith("does not run: ValueError") and c.entry()["absent"] == c.absent
    assert "/" not in c.absent


def test_one_that_is_not_installed_is_absent(work, monkeypatch, tmp_path):
    monkeypatch.setattr(venvs, "FOLDER", tmp_path / "none")
    c = contender("dali_cpu", work)
    c.set_up()
    assert c.absent == "not installed" and c.python == Path(sys.executable)
    optional = contender("dataloader", work)
    optional.set_up()
    assert optional.absent is None


def test_one_that_hangs_is_ended(work):
    process = driver.Process([sys.executable, "-c", "import time; time.sleep(60)"], dict(os.environ),
                             os.sched_getaffinity(0))
    status, _, err = process.finish(1.5)
    assert status == 1 and "did not end" in err and process.peak > 1 << 20


def test_results_are_written_without_paths_of_this_machine(tmp_path, monkeypatch, entries, capsys):
    monkeypatch.setattr(driver, "ROOT", tmp_path)
    (tmp_path / "bench").mkdir()
    entries["slow"]["remarks"] = [f"{tmp_path}/build/x"]
    driver.write(entries, {"cores": 2, "cpu": "a CPU", "versions": {"torch": "2"}}, "made")
    folder = tmp_path / "bench/results"
    kept = json.loads((folder / "peers-made.json").read_text())
    assert set(kept["contenders"]) == set(entries) and str(tmp_path) not in (folder / "peers-made.json").read_text()
    assert "versions: torch 2" in (folder / "peers-made.md").read_text()
    assert (folder / "peers-made.svg").exists() and "| Fast |" in capsys.readouterr().out


def test_sessions_count_what_their_processes_use():
    code = ("import common, os; sum(range(10**7)); "
            "print(common.cpu_seconds(), common.memory_bytes(os.getsid(0)), common.process_age())")
    done = subprocess.run([sys.executable, "-c", code], cwd=PEERS, capture_output=True, text=True,
                          start_new_session=True)
    cpu, memory, age = map(float, done.stdout.split())
    assert 0.02 < cpu < 60 and 4 << 20 < memory < 1 << 30 and 0.02 < age < 60
