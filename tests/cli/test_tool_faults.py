# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around tools: narrow terminals and none, full disks, no samples, descriptions of another schema."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

import pytest
from conftest import jpeg, write_tar

FAST = ("--seconds", "0.5", "--batch-size", "4")


def on_terminal(command, columns, cwd):
    """Exit status and what a terminal of so many columns got on stderr."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([*map(str, command)], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs) as p:
        os.close(theirs)
        got = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:                 # the terminal has no one left
                break
            if not piece:
                break
            got += piece
        os.close(ours)
    return p.wait(180), got.decode()


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_a_narrow_terminal(stoker, photos, tmp_path, columns):
    for command in (["bench", "photos", *FAST], ["bench", "photos", "--sweep", "--seconds", "0.1", "--batch-size", "4"]):
        code, got = on_terminal([stoker.program, *command], columns, tmp_path)
        drawn = [re.sub(r"\x1b\[K", "", part) for part in got.split("\r") if part.strip("\x1b[K\n")]
        assert code == 0 and drawn and "\n" not in got, got     # every drawing is over the one before
        assert max(map(len, drawn)) < columns, drawn
        if columns == 80:
            assert any("[" in part for part in drawn)


def test_no_terminal(stoker, photos):
    """Results only: no bar, no color, nothing that moves a cursor; also without TERM."""
    env = {"TERM": ""}
    for command in (["bench", "photos", *FAST], ["doctor", "photos", *FAST], ["describe", "photos"], ["plan", "photos", "--rate", "10"]):
        done = stoker(*command, **env)
        assert done.code == 0 and done.err == "" and not re.search(r"[\x1b\r]", done.raw), command


COMMANDS = [["bench", *FAST], ["bench", "--sweep", "--seconds", "0.05"], ["bench", "--against", "torch"], ["doctor", *FAST],
            ["plan", "--rate", "1"], ["describe"], ["drift", "photos"], ["check", "--rules", "rules.json"]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(c[:2]))
def test_no_samples(stoker, photos, tmp_path, command):
    write_tar(tmp_path / "empty.tar", [])
    (tmp_path / "rules.json").write_text('{"samples": {"min": 1}}')
    done = stoker(*command, "empty.tar")
    assert done.code == 3 and done.out == "" and done.err.count("\n") == 1 and "no samples" in done.err, done.err


@pytest.mark.parametrize("command", [["bench", *FAST], ["bench", "--sweep", "--seconds", "0.05"], ["doctor", *FAST], ["plan", "--bench", "--rate", "1"]],
                         ids=lambda c: " ".join(c[:2]))
def test_a_bad_sample(stoker, tmp_path, command):
    """An error of the run is one line, and nothing is freed twice."""
    write_tar(tmp_path / "bad.tar", [(f"{i}.jpg", jpeg(i)) for i in range(6)] + [("7.jpg", b"no picture")])
    done = stoker(*command, "bad.tar", MALLOC_CHECK_="3")
    assert done.code in (1, 3) and done.err.count("\n") == 1 and "bad.tar" in done.err, (done.code, done.err)


@pytest.mark.parametrize("command", [["describe", "photos"], ["drift", "photos", "photos"], ["bench", "photos", *FAST, "--json"],
                                     ["bench", "photos", "--sweep", "--seconds", "0.02", "--batch-size", "4"],
                                     ["plan", "--rate", "1"], ["doctor", "photos", *FAST]], ids=lambda c: " ".join(c[:3]))
def test_a_full_disk(stoker, photos, tmp_path, command):
    with open("/dev/full", "w") as full:
        done = subprocess.run([stoker.program, *command], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=180)
    assert done.returncode == 3 and done.stderr == "stoker: the output could not be written\n"


def test_a_description_of_another_schema(stoker, photos, tmp_path):
    for number, text in enumerate(('{"stoker_description": 2, "features": {}}', '{"features": {}}', "[]", "", "no JSON")):
        path = tmp_path / f"{number}.json"
        path.write_text(text)
        for order in ((path, "photos"), ("photos", path)):
            done = stoker("drift", *order)
            assert done.code == 3 and done.out == "" and done.err.count("\n") == 1 and f"{number}.json: " in done.err, done.err
    other = json.loads(stoker("describe", "photos").raw)
    other["features"]["jpg.depth"] = other["features"].pop("jpg.width")
    (tmp_path / "other.json").write_text(json.dumps(other))
    done = stoker("drift", "other.json", "photos")
    assert done.code == 1 and re.search(r"!! jpg.depth +missing", done.out) and re.search(r"!! jpg.width +missing", done.out)


def test_pictures_that_cannot_be_shown(stoker, tmp_path):
    """A page is written also where its pictures can't be: a damaged first sample."""
    write_tar(tmp_path / "bad.tar", [("0.jpg", b"\xff\xd8\xff junk"), *((f"{i}.jpg", jpeg(i)) for i in range(1, 9))])
    done = stoker("bench", "bad.tar", "--epochs", "1", "--batch-size", "2", "--on-error", "skip", "--html", "b.html")
    assert done.code == 0, done.err
    text = (tmp_path / "b.html").read_text()
    assert text.endswith("</body></html>\n")
    done = stoker("describe", "bad.tar", "--html", "d.html")
    assert done.code == 0 and (tmp_path / "d.html").read_text().endswith("</body></html>\n")
