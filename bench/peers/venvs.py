# SPDX-License-Identifier: Apache-2.0
"""A virtual environment for each peer, under .venvs-peers: made once, then only looked at.

Torch, numpy and Pillow are those of the Python that measures (a .pth file points there), so all peers stand
on the same ones and torch lies on the disk once; the constraints keep pip from fetching another torch.
What a peer needs in another version it has in its own environment, which comes first on its path; where
that is torch itself, `constraints=()`.
"""

import hashlib
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venvs-peers"
PATIENCE_S = 900
# torchvision's releases each belong to one torch.
CONSTRAINTS = ("torch==2.13.0", "torchvision==0.28.0")


def short_reason(text):
    """What pip or a peer said, in one short line without hosts and paths of this machine."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"(\w+\.)*(\w*(Error|Exception)|ERROR|Absent)\b", line)]
    line = (telling or lines or ["it said nothing"])[-1]
    if "No matching distribution" in line:
        return "not on the package index for this Python"
    line = re.sub(r"\w+://\S+", "...", line)
    line = re.sub(r"(?<![\w.])/[\w.+-]+(?:/[\w.+-]+)+", lambda m: m[0].rsplit("/", 1)[1], line)
    return line if len(line) <= 100 else line[:97] + "..."


def python_of(name):
    return FOLDER / name / "bin/python"


def is_current(venv, text):
    stamp = venv / "stamp"
    return stamp.exists() and stamp.read_text() == text


def stamp_text(packages, constraints):
    names = "\n".join([*packages, *constraints, sys.version, sysconfig.get_path("purelib")])
    return hashlib.sha256(names.encode()).hexdigest()


def install(name, packages, constraints):
    venv = FOLDER / name
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", venv], check=True, capture_output=True)
    site = subprocess.run([python_of(name), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                          check=True, capture_output=True, text=True).stdout.strip()
    Path(site, "base.pth").write_text(sysconfig.get_path("purelib") + "\n")
    limits = FOLDER / "constraints.txt"
    limits.write_text("\n".join(constraints) + "\n")
    done = subprocess.run([sys.executable, "-m", "pip", "--python", python_of(name), "install", "-q",
                           "--disable-pip-version-check", "-c", limits, *packages],
                          capture_output=True, text=True, timeout=PATIENCE_S)
    return None if done.returncode == 0 else short_reason(done.stderr)


def ensure(name, packages, say, constraints=CONSTRAINTS):
    """(Python to run it with, None), or (None, why it cannot be installed)."""
    if not packages:
        return Path(sys.executable), None
    venv, text = FOLDER / name, stamp_text(packages, constraints)
    if is_current(venv, text):
        return python_of(name), None
    FOLDER.mkdir(exist_ok=True)
    say(f"installing {' '.join(packages)}")
    try:
        reason = install(name, packages, constraints)
    except subprocess.TimeoutExpired:
        reason = f"installing took more than {PATIENCE_S // 60} minutes"
    except subprocess.CalledProcessError as error:
        reason = short_reason((error.stderr or b"").decode(errors="replace"))
    if reason:
        return None, f"does not install: {reason}"
    (venv / "stamp").write_text(text)
    return python_of(name), None
