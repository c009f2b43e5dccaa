# SPDX-License-Identifier: Apache-2.0
"""make wheel, when STOKER_SLOW=1 asks for it: it builds everything anew and fills two venvs."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("STOKER_SLOW") != "1", reason="takes minutes: STOKER_SLOW=1")
def test_wheel(tmp_path):
    done = subprocess.run(
        [ROOT / "tools/wheel.sh"], capture_output=True, text=True, timeout=1200,
        env={**os.environ, "PYTHON": sys.executable, "WHEEL_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tried: stoker" in done.stdout and re.search(r"\d+ KB", done.stdout)
    if not subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True).stdout:
        sdist, = tmp_path.glob("stoker-*.tar.gz")
        assert f"of {sdist.name}" in done.stdout
        names = {name.partition("/")[2] for name in tarfile.open(sdist).getnames()}
        assert {"meson.build", "tools/version.py", "include/stoker/stoker.h", "python/stoker/__init__.py"} <= names
    wheel, = tmp_path.glob("*.whl")
    assert "-cp311-abi3-manylinux" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert any(n.startswith("stoker.libs/libjpeg") for n in names)
    assert "stoker/stoker-cli" in names and "stoker/py.typed" in names
