# SPDX-License-Identifier: Apache-2.0
"""Pages in a real browser: they render, nothing is complained of, and the numbers are those of the JSON."""

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import CLI, ROOT, jpeg, write_tar

pytestmark = pytest.mark.services


def chromium():
    """The program; a skip where there is none, or only the stub that would fetch a snap."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=180)
            if done.returncode == 0 and re.search(r"\d+\.\d+", done.stdout):
                return path
    pytest.skip("no browser: tools/setup.sh --tests installs chromium (a snap stub does not count)")


class Text(html.parser.HTMLParser):
    """What a reader sees, and how many of each element."""

    def __init__(self, dom):
        super().__init__()
        self.parts, self.count, self.hidden = [], {}, 0
        self.feed(dom)

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        self.hidden += tag in ("style", "title")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("style", "title")

    def handle_data(self, data):
        if not self.hidden:
            self.parts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.parts).split())


def render(address, tmp_path, width=400):
    """The page as the browser has it, drawn once; its console must stay empty."""
    shot = tmp_path / "shot.png"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--enable-logging=stderr",
             f"--user-data-dir={tmp_path}/browser", f"--window-size={width},1200", f"--screenshot={shot}", "--dump-dom", address]
    done = subprocess.run([chromium(), *flags], capture_output=True, text=True, timeout=300)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert done.returncode == 0 and console == [], done.stderr[-2000:]
    assert "</html>" in done.stdout, done.stderr[-2000:]
    return Text(done.stdout)


@pytest.fixture
def many(tmp_path):
    (tmp_path / "many").mkdir()
    return write_tar(tmp_path / "many" / "t.tar", [
        (f"{i:03d}.{field}", data) for i in range(40)
        for field, data in (("jpg", jpeg(i, 80, 60)), ("cls", str(i % 3).encode()))])


def test_bench_page(stoker, many, tmp_path):
    done = stoker("bench", many, "--epochs", "40", "--batch-size", "4", "--json", "--html", "b.html")
    assert done.code == 0, done.err
    got, seen = json.loads(done.raw), render(f"file://{tmp_path}/b.html", tmp_path)
    assert got["diagnosis"]["sentence"] in seen.text
    assert f"samples/s {int(got['samples_per_s'] + 0.5):,} " in seen.text
    assert f"time to first batch {got['first_batch_s'] * 1e3:.1f} ms" in seen.text
    assert f"CPU time for 1,000 samples {got['cpu_s_per_1000_samples']:.3f} s" in seen.text
    for name, stage in got["stages"].items():
        assert name in seen.text and f"{100 * stage['share']:.4g} %" in seen.text
    for what in ("throughput over time", "what every thread did in the last", "worker ", "loop", "time from batch to batch",
                 "pictures before and after their chain", "80x60; random_resized_crop: cut to"):
        assert what in seen.text
    assert seen.count["img"] == 16 and seen.count["rect"] > 20
    assert (tmp_path / "b.html").stat().st_size < 2_000_000


def test_describe_and_sweep_pages(stoker, many, tmp_path):
    done = stoker("describe", many, "--html", "d.html")
    got, seen = json.loads(done.raw), render(f"file://{tmp_path}/d.html", tmp_path)
    assert f"samples {got['samples']}" in seen.text and f"bytes {got['bytes']:,}" in seen.text
    assert f"jpg.width: mean {got['features']['jpg.width']['mean']:.4g}" in seen.text and seen.count["img"] == 16
    done = stoker("bench", many, "--sweep", "--seconds", "0.02", "--batch-size", "4", "--json", "--html", "s.html")
    got, seen = json.loads(done.raw), render(f"file://{tmp_path}/s.html", tmp_path)
    assert got["line"] in seen.text and "workers down, batches ahead across" in seen.text
    for cell in got["cells"]:
        assert f"{cell['samples_per_s']:.0f}" in seen.text


def test_live_view(many, tmp_path):
    tree = os.environ.get("PYTHONPATH", str(ROOT / "build/python"))
    env = {**os.environ, "PYTHONPATH": tree, "XDG_RUNTIME_DIR": str(tmp_path), "STOKER_MONITOR": "1", "STOKER_CACHE": str(tmp_path / "c")}
    code = ("import stoker, sys\nloader = stoker.Loader(sys.argv[1], {'label': 'from(cls) | int'}, batch_size=10)\n"
            "n = sum(1 for _ in loader)\nprint('ready', flush=True)\nsys.stdin.read()\n")
    with subprocess.Popen([sys.executable, "-c", code, str(many)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout.readline() == "ready\n"
        with subprocess.Popen([CLI, "top", str(p.pid), "--http", "0"], env=env, stdout=subprocess.PIPE, text=True) as server:
            try:
                seen = render(server.stdout.readline().strip(), tmp_path)
                stats = json.loads(subprocess.run([CLI, "top", str(p.pid), "--json"], env=env, capture_output=True, text=True,
                                                  timeout=180).stdout)["loaders"][0]["stats"]
                assert stats["batches"] == 4 and f"in {stats['batches']} batches" in seen.text
            finally:
                server.kill()
                p.stdin.close()
