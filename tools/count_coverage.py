# SPDX-License-Identifier: Apache-2.0
"""make coverage: runs the C unit tests and Python's tests on a build that counts, and says per folder how much of the code ran.

Tests run in one process and its children, which all end by exit(): counts are written there.  What only a GPU or a sanitizer
build runs counts as not run.  A test that fails does not stop it; its name is in build-cov/logs.

Arguments: folders and files of Python's tests, `units` for those of C; all without.  The result says which ran.
"""

import datetime
import itertools
import json
import os
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import run_tests

ROOT = run_tests.ROOT
FOLDER = "build-cov"
RESULTS = ROOT / f"bench/results/coverage-{os.environ.get('NAME') or 'last'}.txt"
UNITS = "units"
OPTIONS = ("--buildtype=debugoptimized", "-Doptimization=1", "-Db_coverage=true", "-Db_lundef=false", "-Dcuda=disabled")



def settings():
    """coverage.py's own file: children are measured too, whatever starts them."""
    path = ROOT / FOLDER / "coverage.ini"
    path.write_text(f"[run]\nbranch = true\nparallel = true\nsource_pkgs = stoker\ndata_file = {ROOT / FOLDER / 'python.cov'}\n"
                    "patch = subprocess, fork, _exit\n[report]\nskip_empty = true\n")
    return path


def run_all(which):
    log = run_tests.Log("coverage")
    if run_tests.configure(log, FOLDER, OPTIONS) or log.run(run_tests.BIN / "ninja", "-C", FOLDER):
        sys.exit(f"coverage: the build failed: {log.path.relative_to(ROOT)}")
    for old in (ROOT / FOLDER).glob("python.cov*"):
        old.unlink()
    for old in (ROOT / FOLDER).rglob("*.gcda"):
        old.unlink()
    config = settings()
    env = run_tests.with_tools(run_tests.python_env(FOLDER))
    env["STOKER_BUILD"] = FOLDER
    python = [w for w in which if w != UNITS]
    if not which or UNITS in which:
        run_tests.meson_test(log, FOLDER, *run_tests.NOT_TIMING, run_tests.BESIDE)
    if python or not which:
        run_python(log, env, config, python)
    return log, env, config


def run_python(log, env, config, which):
    log.run(run_tests.BIN / "python", "-m", "coverage", "run", f"--rcfile={config}", "-m", "pytest", "-q", "-p", "no:cacheprovider",
            "-m", "not serial", *(which or run_tests.TEST_FOLDERS), env=env)


def gcov(data):
    """[(file, line, how often, [how often each branch])] of one object."""
    done = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", data], capture_output=True, cwd=ROOT / FOLDER)
    return [(f["file"], line["line_number"], line["count"], [b["count"] for b in line["branches"]])
            for document in done.stdout.splitlines() for f in json.loads(document)["files"] for line in f["lines"]]


def is_ours(path):
    return path.startswith(("src/", "cli/", "python/ext/")) and not path.endswith("_test.c")


def c_counts():
    """{file: [lines that ran, of how many, branches taken, of how many]}; a line of a header ran if it did in one object."""
    lines = defaultdict(int)
    branches = defaultdict(list)
    with ThreadPoolExecutor() as pool:
        for found in pool.map(gcov, sorted((ROOT / FOLDER).rglob("*.gcda"))):
            for name, number, count, taken in found:
                name = os.path.relpath(os.path.normpath(ROOT / FOLDER / name), ROOT)
                if is_ours(name):
                    lines[name, number] += count
                    branches[name, number].append(taken)
    files = defaultdict(lambda: [0, 0, 0, 0])
    for (name, number), count in lines.items():
        taken = [any(way) for way in itertools.zip_longest(*branches[name, number], fillvalue=0)]
        for i, n in enumerate((count > 0, 1, sum(taken), len(taken))):
            files[name][i] += n
    with open(ROOT / FOLDER / "missing.txt", "w") as out:
        out.writelines(f"{name}:{number}\n" for (name, number), count in sorted(lines.items()) if not count)
    return files


def python_counts(log, env, config):
    made = ROOT / FOLDER / "python.json"
    if not list((ROOT / FOLDER).glob("python.cov*")):
        return {}
    for words in (("combine", "-q"), ("json", "-q", "-o", made), ("html", "-q", "-d", ROOT / FOLDER / "python-html")):
        log.run(run_tests.BIN / "python", "-m", "coverage", words[0], f"--rcfile={config}", *words[1:], env=env)
    found = json.loads(made.read_text())["files"]
    return {f"python/stoker/{Path(name).name}": (s["covered_lines"], s["num_statements"], s["covered_branches"], s["num_branches"])
            for name, s in ((name, f["summary"]) for name, f in found.items())}


def table(files):
    """One line per folder, then all of C and all of Python."""
    sums = defaultdict(lambda: [0, 0, 0, 0])
    for name, counts in files.items():
        language = "all of Python" if name.endswith(".py") else "all of C"
        for key in (str(Path(name).parent), language):
            sums[key] = [a + b for a, b in zip(sums[key], counts)]
    rows = sorted(k for k in sums if not k.startswith("all")) + [k for k in ("all of C", "all of Python") if k in sums]
    yield f"{'folder':<20} {'lines':>8}  {'run':>7}  {'branches':>8}  {'taken':>7}"
    for key in rows:
        lines, all_lines, branches, all_branches = sums[key]
        yield (f"{key:<20} {all_lines:>8,} {100 * lines / max(1, all_lines):>6.1f} %  {all_branches:>8,} "
               f"{100 * branches / max(1, all_branches):>6.1f} %")


def about(which):
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    ran = f"ONLY=\"{' '.join(which)}\"; what other tests run counts as not run" if which else "all tests"
    return f"make coverage, {datetime.date.today()}, commit {commit or '?'}: {ran}"


def main(which):
    run_tests.LOGS.mkdir(parents=True, exist_ok=True)
    log, env, config = run_all(which)
    files = {**c_counts(), **python_counts(log, env, config)}
    text = "\n".join([about(which), "", *table(files)]) + "\n"
    RESULTS.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main(sys.argv[1:])
