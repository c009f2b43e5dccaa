# SPDX-License-Identifier: Apache-2.0
"""Names that hold escape sequences, quotes, bytes that are not UTF-8 and unseen characters, through every command:
nothing that a terminal obeys goes out, and every --json is JSON."""

import io
import json
import os
import pty
import re
import subprocess
import tarfile
import unicodedata

import pytest
from conftest import CLI, ROOT, jpeg

HOSTILE = ['q"uote', "back\\slash", "esc\x1b[2J\x1b]0;owned\x07", "c1\x9b31m", "bidi\u202egpj", "zero\u200bwidth\ufeff",
           "line\u2028\nforged: ok", "byte\udcff\udc9b", "tag\U000e0041", "tab\t\r\x7f"]
SHARD = 'sh"\x1b[1A\u202e.tar'


def harmless(data):
    """Control and format characters, lone bytes: none of them came out."""
    text = data.decode("utf-8")  # it is UTF-8 as a whole
    assert not [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")], text
    assert not re.search("^forged", text, re.MULTILINE)
    return text


@pytest.fixture
def run(tmp_path):
    def run(*args, code=(0, 1), cwd=tmp_path):
        done = subprocess.run([CLI, *map(os.fsencode, map(str, args))], cwd=cwd, capture_output=True, timeout=60,
                              env={**os.environ, "STOKER_CACHE": str(tmp_path / "cache")})
        assert done.returncode in code, done.stderr
        harmless(done.stderr)
        return harmless(done.stdout)

    return run


def objects(text):
    """A document, or one a line."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


def write_hostile(path, names):
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as tar:
        for i, key in enumerate(names):
            for field, data in ((names[-1 - i], b"x\x1b[2J"), ("jpg", jpeg(i) if i else b"\xff\xd8\xff damaged"), ("cls", b"1")):
                info = tarfile.TarInfo(f"{key}.{field}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


@pytest.fixture
def hostile(tmp_path):
    write_hostile(tmp_path / SHARD, HOSTILE)
    return SHARD


def test_every_command(run, hostile, tmp_path):
    for args in (["index"], ["index", "--force", "--columns", "cls"], ["ls"], ["ls", "--long"], ["check"],
                 ["check", "--write-exclude", "bad.jsonl"], ["check", "--field", "x=from(jpg) | image | resize((8, 8))"],
                 ["bench", "--epochs", "1", "--field", "x=from(cls) | int", "--batch-size", "2"],
                 ["bench", "--epochs", "1", "--field", 'e\x1b[2J"=from(cls) | int', "--batch-size", "2"]):
        run(*args, hostile)
        assert objects(run(*args, hostile, "--json"))
    for key in HOSTILE:
        if "\udcff" not in key:
            assert key in [o["key"] for o in objects(run("ls", hostile, "--json"))]
        run("cat", hostile, key)
        (sample,) = objects(run("cat", hostile, key, "--json"))
        assert len(sample["fields"]) == 3
    (found,) = objects(run("check", hostile, "--json"))
    assert found["bad"][0]["key"] == HOSTILE[0] and found["bad"][0]["shard"] == SHARD
    packed = 'p\x1b[2J".tar'
    write_hostile(tmp_path / packed, [name for name in HOSTILE if "\n" not in name])
    for n, args in enumerate((["--name", "n\x1b[2J\""], ["--name", "bidi\u202e"])):
        run("pack", packed, f"out{n}", *args)
        assert args[1] in objects(run("pack", packed, f"out{n}", *args, "--json"))[0]["pattern"]


def test_every_error(run, hostile, tmp_path):
    bad = HOSTILE[2] + HOSTILE[4]
    (tmp_path / ("torn" + bad + ".tar")).write_bytes(b"\x1b[2J" * 400)
    for args in ([bad], ["--" + bad], ["ls", bad], ["ls", hostile, "--" + bad], ["cat", hostile, bad], ["cat", hostile, HOSTILE[0], bad],
                 ["cat", hostile, HOSTILE[0], "cls", "--decode", bad], ["check", bad], ["check", hostile, "--field", bad],
                 ["check", hostile, "--field", f"x=from(\"{bad}\")"], ["check", hostile, "--workers", bad],
                 ["check", hostile, "--write-exclude", f"no{bad}/x"], ["ops", bad], ["bench", hostile, "--field", bad],
                 ["bench", hostile, "--field", f"x=from(jpg) | {bad}"], ["bench", hostile, "--exclude", bad],
                 ["pack", hostile, "out", "--name", bad + "/"], ["pack", bad, "out"], ["ledger", bad], ["index", bad],
                 ["index", "torn" + bad + ".tar"], ["index", hostile, "--columns", bad], ["ls", hostile, "--json=" + bad]):
        run(*args, code=(2, 3))
    run("check", "torn" + bad + ".tar", code=(1,))


def test_folders(run, tmp_path):
    for i, name in enumerate(HOSTILE):
        folder = tmp_path / "pictures" / os.fsdecode(os.fsencode("class" + name))
        folder.mkdir(parents=True)
        (folder / os.fsdecode(os.fsencode(name + ".jpg"))).write_bytes(jpeg(i))
    for command in ("index", "ls", "check"):
        run(command, "pictures")
        objects(run(command, "pictures", "--json"))


def test_ledger(run, hostile, tmp_path):
    stoker = pytest.importorskip("stoker")
    with stoker.Loader(str(tmp_path / hostile), fields={"x": "from(cls) | int"}, batch_size=2) as loader:
        loader.ledger(str(tmp_path / "ledger\x1b[2J"))
        list(loader)
    for args in ([], ["--step", "1", "--data", hostile], ["--sample", HOSTILE[2], "--data", hostile],
                 ["--never", "--epoch", "0", "--data", hostile]):
        run("ledger", "ledger\x1b[2J", *args)
        objects(run("ledger", "ledger\x1b[2J", *args, "--json") or "{}")


@pytest.mark.parametrize("kind", ["raw", "chain"])
def test_cat_to_a_terminal(hostile, tmp_path, kind):
    """Text goes out; what a terminal would act on is refused, unless --raw says so."""
    def cat(*args):
        ours, theirs = pty.openpty()
        done = subprocess.run([CLI, "cat", hostile, "2", *args], cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE,
                              timeout=60)
        os.close(theirs)
        try:
            said = os.read(ours, 1 << 16)
        except OSError:  # nothing was written
            said = b""
        os.close(ours)
        return done.returncode, said, done.stderr

    assert cat("cls") == (0, b"1", b"")
    args = ["jpg", "--decode", "ppm"] if kind == "chain" else [HOSTILE[-3]]
    code, said, error = cat(*args)
    assert (code, said) == (2, b"") and b"--raw" in error and b"-o FILE" in error
    code, said, error = cat(*args, "--raw")
    assert code == 0 and (said == b"x\x1b[2J" or kind == "chain")
    piped = subprocess.run([CLI, "cat", hostile, "2", *args], cwd=tmp_path, capture_output=True)
    assert piped.returncode == 0 and piped.stdout


def test_text_goes_out_in_one_place():
    """What prints beside out.c would print names raw."""
    for path in sorted((ROOT / "cli").glob("*.c")):
        # manual.c writes the option tables, whose texts are the program's own; pages and pictures write HTML, and escape it
        if path.name not in ("out.c", "picture.c", "manual.c") and not path.name.startswith("page"):
            raw = re.findall(r'(?<!\w)(?:v?f?printf|puts|fputs)\((?!\s*")[^\n]*|(?<!\w)v?f?printf\([^\n]*', path.read_text())
            assert not raw, f"{path.name}: {raw}"
