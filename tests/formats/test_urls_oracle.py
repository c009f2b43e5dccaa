# SPDX-License-Identifier: Apache-2.0
"""Patterns of names, expanded by braceexpand and WebDataset and by us: the same names in the same order."""
import itertools
import os
import pathlib
import random
import subprocess

import pytest

braceexpand = pytest.importorskip("braceexpand")

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("STOKER_BUILD", ROOT / "build"))
DUMP = BUILD / "tests" / "formats" / "urls_dump"
LIMIT = 2000

FIXED = [
    "", "plain", "{}", "{x}", "{x,y}", "{x,y", "x,y}", "}{", "}{{a,b}", "}}{{", "a{,}b", "{,}", "{{,}}", "{{a,b},c}", "{a,b}}", "{{a,b}",
    "{1..3}", "{01..3}", "{1..03}", "{-1..1}", "{-01..1}", "{0..-0}", "{00..0}", "{3..1}", "{1..10..3}", "{10..1..-3}", "{1..3..0}",
    "{1..3..}", "{1..}", "{..3}", "{1...3}", "{a..e}", "{e..a..2}", "{A..c}", "{c..A}", "{Z..a}", "{A..A}", "{a..A..100}", "{a..1}", "{1..a}",
    "{aa..b}", "{1..3\n}", "{a..c\n}", "{a..c..2\n}", "\\{a,b}", "\\{a,b\\}", "{a\\,b,c}", "{a\\\\,b}", "{a,\\\\\\\\b}", "{x\\\\\\\\,y}z", "a\\",
    "{a,b}\\", "\\\n", "{\\\n,x}", "{{1..3},{a..c}}", "{{{a,b},c},d}", "x{1..2}y{a,b}z", "{99999..100001}", "{+1..3}", "{1..3,5}",
    "$x{1,2}", "${X}", "{é,日本}", "{é..ü}", "train-{000000..000012}.tar", "{a,{1..3}}{b,c}",
]


def ours(patterns, mode="braces", env=None):
    text = "".join(p.encode("utf-8", "surrogateescape").hex() + "\n" for p in patterns)
    p = subprocess.run([DUMP, mode], input=text, capture_output=True, text=True, timeout=120, env=env, check=True)
    out = []
    for line in p.stdout.splitlines():
        head, *names = line.split(" ")
        out.append([bytes.fromhex(n[1:]).decode("utf-8", "surrogateescape") for n in names] if head == "ok" else head)
    assert len(out) == len(patterns)
    return out


def theirs(pattern):
    try:
        got = list(itertools.islice(braceexpand.braceexpand(pattern), LIMIT + 1))
    except braceexpand.UnbalancedBracesError:
        return "EINVAL"
    return got if len(got) <= LIMIT else None


def compare(patterns):
    want = {p: theirs(p) for p in patterns}
    patterns = [p for p in want if want[p] is not None]
    for p, got in zip(patterns, ours(patterns)):
        assert got == want[p], f"pattern {p!r}"
    return len(patterns)


def test_fixed():
    assert compare(FIXED) == len(FIXED)


def nested(rng, depth):
    """A well-formed pattern, mostly."""
    parts = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.random()
        if kind < 0.35 or depth == 0:
            parts.append("".join(rng.choices("ab.-\\0", [5, 5, 1, 1, 0.5, 1], k=rng.randint(0, 3))))
        elif kind < 0.55:
            a, z = (rng.choice(["", "-", "0", "-0", "00"]) + str(rng.randint(0, 12)) for _ in range(2))
            parts.append("{%s..%s%s}" % (a, z, rng.choice(["", "", "..2", "..-3", "..0", "..", "..x"])))
        elif kind < 0.65:
            parts.append("{%s..%s%s}" % (*rng.choices("ABYZabyz", k=2), rng.choice(["", "", "..2", "..-7"])))
        else:
            inner = [nested(rng, depth - 1) for _ in range(rng.randint(1, 3))]
            parts.append("{" + ",".join(inner) + "}")
    return "".join(parts)


@pytest.mark.parametrize("seed", range(4))
def test_random_well_formed(seed):
    print("seed", seed)
    rng = random.Random(seed)
    assert compare([nested(rng, 3) for _ in range(800)]) > 500


@pytest.mark.parametrize("seed", range(5))
def test_random_soup(seed):
    print("seed", seed)
    rng = random.Random(1000 + seed)
    compare(["".join(rng.choices("{},.\\ab01-\n", [6, 6, 4, 5, 2, 2, 1, 2, 2, 1, 0.3], k=rng.randint(1, 16))) for _ in range(8000)])


def test_as_webdataset():
    """Lists and the environment, through WebDataset's own function."""
    shardlists = pytest.importorskip("webdataset.shardlists")
    values = {"WDS_A": "no/where-{0..2}", "WDS_B": "${A}/x", "WDS_C": "${B}::${A}", "WDS_1": "one"}
    patterns = ["a.tar::b-{0..3}.tar", "${A}.tar", "${B}.tar", "z::${C}", "$A", "${1}{a,b}", "${}", "s3://b/{a,b}::mem://c", "a:b:::c"]
    old = dict(os.environ)
    os.environ.update(values)
    try:
        want = [shardlists.expand_urls(p) for p in patterns]
        assert ours(patterns, "urls", env=dict(os.environ)) == want
    finally:
        os.environ.clear()
        os.environ.update(old)
