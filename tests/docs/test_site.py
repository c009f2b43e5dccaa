# SPDX-License-Identifier: Apache-2.0
"""The site of `make docs`: every public header is on its page, and pages fit wide and narrow windows."""

import html
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/cli")]

import docs  # noqa: E402
from test_browser import chromium  # noqa: E402


def test_the_page_of_c_has_every_header():
    assert sorted(docs.HEADERS) == sorted(p.stem for p in (ROOT / "include/stoker").glob("*.h"))
    assert "typedef struct stk_stats {" in docs.c_page()


# ---- in a browser -------------------------------------------------------------------------------

WIDTHS = (400, 1200)
LOOKED_AT = ("index", "questions", "measured", "comparisons", "order", "loader", "tables", "gpu", "api/cli")     # wide tables, long code; all take a minute
# Each page at each width in a frame; when all are there, how wide each became.
LOOK = """<!doctype html><html><body>%s<pre id="out"></pre><script>
onload = () => document.querySelectorAll("iframe").forEach(frame => {
    const root = frame.contentDocument.documentElement;
    out.textContent += `${frame.src} ${frame.width} ${root.clientWidth} ${root.scrollWidth} ${frame.contentDocument.body.innerText.length}\\n`;
});
</script></body></html>"""
FRAME = '<iframe src="{}" width="{}" height="900" style="border: 0"></iframe>'


@pytest.fixture(scope="module")
def site():
    """As `make docs` builds it: strictly, so that a link or an anchor that leads nowhere fails."""
    beside = Path(sys.prefix, "docs")
    if not (beside / "mkdocs").exists() and not importlib.util.find_spec("mkdocs"):
        pytest.skip("mkdocs is not installed: `make docs` installs it")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(beside), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, ROOT / "tools/docs.py"], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "build/site"


@pytest.mark.services
def test_no_page_scrolls_sideways(site, tmp_path):
    pages = [site / f"{name}.html" for name in LOOKED_AT]
    frames = [FRAME.format(page.as_uri(), width) for page in pages for width in WIDTHS]
    (tmp_path / "look.html").write_text(LOOK % "".join(frames))
    done = subprocess.run([chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND",
                           "--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1400,1000",
                           "--dump-dom", (tmp_path / "look.html").as_uri()], capture_output=True, text=True, timeout=600)
    rows = [(page, *map(int, numbers.split())) for page, numbers in re.findall(r"(file://\S+\.html) (\d+ \d+ \d+ \d+)$", html.unescape(done.stdout), re.M)]
    assert len(rows) == len(frames), done.stderr[-2000:]
    wide = [f"{Path(page).name} at {width}: {scrolls} px" for page, width, shown, scrolls, text in rows if scrolls > shown]
    assert not wide
    assert all(text > 100 for *_, text in rows)
