# SPDX-License-Identifier: Apache-2.0
"""stoker doctor and stoker plan: what they say, and how they fail."""

import html.parser
import io
import itertools
import json
import os
import re
import subprocess
import tarfile

import pytest
from test_cli import fails

FAST = ("--seconds", "0.2", "--batch-size", "4")


def with_a_slow_model(stoker, command, *more, says=lambda done: done.raw):
    """Steps that are long beside a batch, however busy the machine is: longer ones until the model is blamed, and how long."""
    for ms in (100, 300, 1000, 3000, 10000):
        done = stoker(command, "photos", *FAST, "--step-ms", str(ms), *more)
        if "model-bound: " in says(done):
            break
    return done, ms


def test_doctor_of_data(stoker, photos):
    done, _ = with_a_slow_model(stoker, "doctor")
    assert done.code == 0 and done.err == ""
    lines = done.out.splitlines()
    assert "batches of 4" in lines[0] and lines[1].startswith("video: libavcodec ")
    assert any(line.startswith("  as it is ") for line in lines) and any("ceiling" in line for line in lines)
    assert "(under 1)" in done.out and "(at most 80)" in done.out
    assert lines[-1].startswith("model-bound: ")


def test_doctor_json(stoker, photos):
    done, ms = with_a_slow_model(stoker, "doctor", "--json")
    got = json.loads(done.raw)
    assert got["diagnosis"]["cause"] == "model" and got["samples_per_s"]["as it is"] > 0
    assert got["video"].startswith("libavcodec ")
    assert got["planned_epoch_s"] == pytest.approx(12 / 4 * ms / 1000) and got["epoch_s"] == pytest.approx(12 / got["samples_per_s"]["as it is"], rel=1e-6)
    assert {c["name"] for c in got["diagnosis"]["checks"]} >= {"batch wait", "batch fetch", "workers", "reads"}


def test_bench_ends_with_the_sentence(stoker, photos):
    assert with_a_slow_model(stoker, "bench")[0].out.splitlines()[-1].startswith("model-bound: batches are ready")
    got = json.loads(with_a_slow_model(stoker, "bench", "--json")[0].raw)
    assert got["diagnosis"]["sentence"].startswith("model-bound: ")


@pytest.mark.parametrize("args, line", [
    (["doctor"], "doctor needs at least one path, folder or pattern; try 'stoker doctor --help'"),
    (["doctor", "--"], "doctor needs at least one path, folder or pattern; try 'stoker doctor --help'"),
    (["doctor", "x", "--", "true"], "doctor looks at data or at a command, not at both: 'x' stands before --"),
    (["plan", "--gpus", "8"], "how fast is the model? give --step-ms MS (of one step) or --rate N (samples/s of one GPU)"),
    (["plan", "--rate", "-1"], None),
    (["plan", "--rate", "1", "--storage", "fast"], None),
])
def test_wrong_usage(stoker, args, line):
    done = stoker(*args)
    assert done.code == 2 and done.out == "" and done.err.count("\n") == 1
    if line:
        fails(done, 2, line)


def test_no_samples(stoker, tmp_path):
    (tmp_path / "t.tar").write_bytes(bytes(1024))
    for command in (["doctor", "t.tar", *FAST], ["plan", "t.tar", "--rate", "1"]):
        done = stoker(*command)
        assert done.code == 3 and "no samples" in done.err


def test_exit_status_is_passed_on(stoker):
    assert stoker("doctor", "--", "true").code == 0
    assert stoker("doctor", "--", "sh", "-c", "exit 7").code == 7
    assert stoker("doctor", "--", "sh", "-c", "kill -9 $$").code == 137
    done = stoker("doctor", "--", "no-such-program-here")
    assert done.code == 127 and "could not be run" in done.err
    assert "nothing was seen" in done.err


def test_plan_of_data(stoker, photos):
    got = json.loads(stoker("plan", "photos", "--step-ms", "100", "--batch-size", "8", "--gpus", "2", "--json").raw)
    assert got["samples_per_s"] == pytest.approx(160) and got["steps_per_s"] == pytest.approx(10)
    assert got["storage_bytes_per_s"] == pytest.approx(160 * got["cache_bytes"] / (got["epoch_s"] * 160))
    assert got["cores"] is None and got["idle_cost_month"] is None
    assert got["loaded_per_s"] is None
    benched = json.loads(stoker("plan", "photos", "--step-ms", "1", "--bench", "--json").raw)
    assert benched["cores"] > 0 and benched["loaded_per_s"] > 0
    given = json.loads(stoker("plan", "photos", "--step-ms", "1", "--bench", "--load-ms", "2000", "--json").raw)
    assert given["cores"] == pytest.approx(2 * given["samples_per_s"])


@pytest.mark.parametrize("args, line", [
    (["--samples", "100e9", "--rate", "500e3"], "an epoch 2.31 days"),
    (["--step-ms", "400", "--loader-rate", "1.666667"], "GPU busy, loading overlapped 66.67 %"),
    (["--step-ms", "400", "--loader-rate", "1.666667"], "GPU busy, loading in series 40.00 %"),
    (["--step-ms", "10", "--loader-rate", "30", "--gpu-hour", "3"], "idle GPUs cost 1512 $ a month"),
    (["--step-ms", "200", "--batch-size", "32", "--sample-bytes", "50MB", "--storage", "100MB"], "from storage 8.0 GB/s"),
    (["--step-ms", "200", "--batch-size", "32", "--sample-bytes", "50MB", "--storage", "100MB"], "GPU busy, loading overlapped 1.25 %"),
    (["--step-ms", "10", "--row-bytes", "38MB", "--pcie", "8GB"], "a batch over PCIe 4.75 ms"),
    (["--step-ms", "10", "--row-bytes", "38MB", "--pcie", "28GB"], "a batch over PCIe 1.36 ms"),
])
def test_worked_examples(stoker, args, line):
    """Those of docs/seeing.md."""
    done = stoker("plan", *args)
    assert done.code == 0 and line in re.sub(" +", " ", done.raw)


def test_output_to_a_full_disk(stoker, photos):
    for command in (["plan", "--rate", "1"], ["doctor", str(photos), *FAST]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([stoker.program, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120,
                                  env={**os.environ, "STOKER_CACHE": "/nonexistent"})
        assert done.returncode == 3 and "could not be written" in done.stderr


# ---- pages ----------------------------------------------------------------------------------------

class Page(html.parser.HTMLParser):
    """Every element is closed, nothing is fetched, and no script is needed."""

    VOID = {"meta", "br", "img"}
    SELF_CLOSED = {"rect", "polyline"}

    def __init__(self, text):
        super().__init__()
        self.open, self.text = [], ""
        self.feed(text)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "iframe", "object")
        assert not any(name in ("src", "href", "srcset") or name.startswith("on") for name, value in attrs
                       if not (tag == "img" and name == "src" and value.startswith("data:image/png;base64,")))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in self.SELF_CLOSED

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def page(path):
    text = path.read_text()
    assert len(text) < 2_000_000 and "prefers-color-scheme:dark" in text and "width=device-width" in text
    assert "http://" not in text and "https://" not in text and "url(" not in text
    return Page(text).text


def test_pages_have_the_numbers(stoker, photos, tmp_path):
    got = json.loads(stoker("bench", "photos", *FAST, "--step-ms", "100", "--json", "--html", "b.html").raw)
    text = page(tmp_path / "b.html")
    assert got["diagnosis"]["sentence"] in text
    assert f"{round(got['samples_per_s']):,}" in text and "random_resized_crop(224)" in text
    done, _ = with_a_slow_model(stoker, "doctor", "--html", "d.html", says=lambda _: page(tmp_path / "d.html"))
    assert done.code == 0 and "model-bound: " in page(tmp_path / "d.html") and "under 1" in page(tmp_path / "d.html")
    assert stoker("plan", "--samples", "100e9", "--rate", "500e3", "--html", "p.html").code == 0
    assert "2.31 days" in page(tmp_path / "p.html")


def test_names_in_pages_are_harmless(stoker, tmp_path):
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        head = tarfile.TarInfo("a.txt")
        head.size = 3
        tar.addfile(head, io.BytesIO(b"one"))
    done = stoker("bench", "t.tar", "--epochs", "1", "--field", "<script>alert(1)</script>\x1b[31m=from(txt) | text", "--html", "x.html")
    assert done.code == 0
    assert "<script>alert(1)</script>" in page(tmp_path / "x.html")     # as text


def test_pages_that_cannot_be_written(stoker, photos):
    for path in ("no/such/folder/x.html", "/dev/full"):
        done = stoker("plan", "--rate", "1", "--html", path)
        assert done.code == 3 and done.err.startswith("stoker: "), path


def test_trace(stoker, photos, tmp_path):
    got = json.loads(stoker("bench", "photos", "--epochs", "2", "--batch-size", "4", "--workers", "1", "--trace", "t.json", "--json").raw)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    rows = {e["args"]["row"] for e in events if e["name"] == "decode"}
    assert rows >= set(range(got["samples"])) and got["samples"] == 24
    assert sum(e["name"] == "next" for e in events) >= got["batches"] == 6
    for more in (["--sweep"], ["--against", "torch"]):
        for option in ("trace", "metrics"):
            fails(stoker("bench", "photos", f"--{option}", "t.json", *more), 2, f"--{option} is of one run: leave out --sweep and --against")
    for path, option in itertools.product(("no/such/folder/t.json", "/dev/full"), ("--trace", "--metrics")):
        done = stoker("bench", "photos", *FAST, option, path)
        fails(done, 3, f"can't write {path}: " + ("No such file or directory" if "no" in path else "No space left on device"))


def test_metrics(stoker, photos, tmp_path):
    got = json.loads(stoker("bench", "photos", "--epochs", "2", "--batch-size", "4", "--metrics", "m.prom", "--json").raw)
    lines = (tmp_path / "m.prom").read_text().splitlines()
    assert f"stoker_batches_total {got['batches']}" in lines and lines[-1] == "# EOF" and got["batches"] == 6


def test_sweep(stoker, photos, tmp_path):
    done = stoker("bench", "photos", "--sweep", "--seconds", "0.02", "--batch-size", "4", "--html", "s.html")
    assert done.code == 0
    last = done.out.splitlines()[-1]
    assert re.fullmatch(r'stoker\.Loader\("photos", \.\.\., num_workers=\d+, prefetch=(2|4|8|16)\)', last)
    assert done.out.count("*") == 1 and last in page(tmp_path / "s.html")
    got = json.loads(stoker("bench", "photos", "--sweep", "--seconds", "0.02", "--batch-size", "4", "--json").raw)
    best = max(got["cells"], key=lambda c: c["samples_per_s"])
    assert f"num_workers={best['workers']}, prefetch={best['prefetch']}" in got["line"]
