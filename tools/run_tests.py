# SPDX-License-Identifier: Apache-2.0
"""Runs every suite of `make test`, one line per step, and sums their counts.

Full logs are in build/logs/; the end of a failing step's log is shown, and before the sums the name and
the errors of each test that failed: a serial part that passed may have pushed them out of the end.  A suite that cannot run
here (no TSan run-time library, say) is skipped with its reason, never silently.  A step that fails
without counts of its own (a build, lint) counts as one failure.  The last line is always
`N passed, N failed, N skipped`, and the exit status is 1 if anything failed.

Names given on the command line choose steps: `tools/test.sh build units`.

pytest runs in three processes for two cores.  Tests marked `services` run beside them, one after another in one process: they
share servers, and wait for them half of their time; SERVICES=0 leaves them out.  Tests marked `serial` run after all others, alone.
The sanitizer builds make only what their step runs.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv/bin"
LOGS = ROOT / "build/logs"
PATH = f"{BIN}{os.pathsep}{os.environ['PATH']}"
TAIL_LINES = 40
FAILURE_LINES = 60  # of all steps together
NO_TESTS_COLLECTED = 5  # pytest's exit status
TEST_FOLDERS = ("python/tests", "tests")
# Half as many again as cores: tests wait for children, servers and timers a fifth of their time.
SIDE_BY_SIDE = ("-n", str((3 * os.cpu_count() + 1) // 2), "--dist", "worksteal")
# -g1: functions and lines, which is what a report shows; a quarter less to compile.
# nvcc knows no sanitizer, and what it compiles is the same in every build.
SANITIZED = ("--buildtype=debugoptimized", "-Db_lundef=false", "-Dc_args=-g1", "-Dcuda=disabled")

# Under a sanitizer, timing says nothing, and nvcc compiles what it compiled without one.
NOT_SANITIZED = ("--no-suite", "timing", "--no-suite", "compiles")
# TSan looks for nothing in a test that starts no thread.  The units step checks that these start none.
THREADED = ("--no-suite", "single")

SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


class Skip(Exception):
    """Raised by a step that cannot run on this machine; the message says why."""


class Totals:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []

    def add(self, passed, failed, skipped):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


class Log:
    """Runs commands and appends their output to one file."""

    def __init__(self, name):
        self.path = LOGS / f"{name}.log"
        self.file = open(self.path, "w")

    def run(self, *command, env=None):
        self.file.write(f"$ {' '.join(map(str, command))}\n")
        self.file.flush()
        return subprocess.run(
            [str(c) for c in command], cwd=ROOT, env={**os.environ, "PATH": PATH, **(env or {})},
            stdin=subprocess.DEVNULL, stdout=self.file, stderr=subprocess.STDOUT,
        ).returncode

    def text(self):
        self.file.flush()
        return self.path.read_text(errors="replace")

    def beside(self, name):
        """A log of commands that run at the same time; take() adds it to this one."""
        return Log(f"{self.path.stem}-{name}")

    def take(self, other):
        self.file.write(other.text())


# ---- counts -----------------------------------------------------------------------------------

def meson_counts(text):
    """Sums of meson's closing table: `Ok: 12`, `Fail: 0`, `Skipped: 1`, `Timeout: 0` and others."""
    count = {k: int(v) for k, v in re.findall(r"^([A-Z][A-Za-z ]*):\s+(\d+)\s*$", text, re.M)}
    bad = ("Fail", "Unexpected Pass", "Timeout")
    return (count.get("Ok", 0) + count.get("Expected Fail", 0),
            sum(count.get(k, 0) for k in bad), count.get("Skipped", 0))


def pytest_counts(text):
    """Counts of pytest's last line: `3 failed, 12 passed, 1 skipped, 1 error in 2.1s`."""
    last = ([line for line in text.splitlines() if re.search(r" in [\d.]+s", line)] or [""])[-1]
    count = {k: int(v) for v, k in re.findall(r"(\d+) (\w+)", last)}
    return (count.get("passed", 0) + count.get("xfailed", 0),
            sum(count.get(k, 0) for k in ("failed", "error", "errors", "xpassed")),
            count.get("skipped", 0))


def failures(text):
    """Lines of a log that say which tests failed, and why: those of meson, and of pytest with their errors."""
    pattern = r"(FAILED|ERROR) \S+::|E  |_{4,} .* _{4,}$|\s*\d+/\d+ .*\b(FAIL|TIMEOUT|ERROR|UNEXPECTEDPASS)\b"
    return [line for line in text.splitlines() if re.match(pattern, line)]


# ---- steps: each returns (status, counts or None) ------------------------------------------------

def configure(log, folder, options, env=None):
    if (ROOT / folder / "build.ninja").exists():
        return 0
    return log.run(BIN / "meson", "setup", folder, *options, env=env)


def meson_test(log, folder, *options, wrapper=(), env=None):
    """Builds what the tests are made of, and runs them."""
    status = log.run(*wrapper, BIN / "meson", "test", "-C", folder, "--print-errorlogs",
                     *options, env=env)
    counts = meson_counts(log.text())
    if status == 0 and not any(counts):
        raise Skip(f"{folder} has no tests; is cmocka installed?")
    return status, counts


def step_build(log):
    return log.run(BIN / "ninja", "-C", "build"), None


def step_units(log):
    return meson_test(log, "build", "--timeout-multiplier=4")


def python_env(folder="build"):
    """Environment in which `import stoker` is that of `folder` and TORCH=0 hides torch."""
    path = [str(ROOT / folder / "python")]
    if os.environ.get("TORCH") == "0":
        path.insert(0, str(ROOT / "tools/notorch"))
    return {"PYTHONPATH": os.pathsep.join(path), "STOKER_CLI": str(ROOT / folder / "cli/stoker")}


def marked_files(*marks):
    """For each folder, the files whose text has all these marks; collecting the others takes seconds.
    Files of several folders in one command would all import the conftest of the last one."""
    found = sorted(p.relative_to(ROOT) for folder in TEST_FOLDERS for p in (ROOT / folder).rglob("test_*.py")
                   if all(f"mark.{m}" in p.read_text() for m in marks))
    return [list(files) for _, files in itertools.groupby(found, lambda p: p.parent)]


def pytest_runs(mark):
    """Marks and arguments of each run of pytest: those of one list side by side, and of services; then those alone."""
    marks = [mark] if mark else []
    files = sum(marked_files(mark), []) if mark else TEST_FOLDERS
    # Backwards: Ray, in the first folder, gives itself 30 s to start, and all others begin by importing what they need.
    beside = [("services and not serial", files) for files in reversed(marked_files("services", *marks))]
    return ([("not serial and not services", [*SIDE_BY_SIDE, *files])],
            beside if os.environ.get("SERVICES") != "0" else [],
            [("serial and not services", files) for files in marked_files("serial", *marks)])


def run_pytest(log, *options, env, mark=""):
    """Tests with `mark` (all without), side by side, and beside them those marked services; then those marked serial."""
    results = []

    def one_after_another(log, runs):
        for which, rest in runs:
            before = len(log.text())
            status = log.run(BIN / "python", "-m", "pytest", "-q", *options, "-m", " and ".join([*filter(None, [mark]), which]),
                             *rest, env=env)
            results.append((status, *pytest_counts(log.text()[before:])))

    main, beside, alone = pytest_runs(mark)
    second = log.beside("services")
    thread = threading.Thread(target=one_after_another, args=(second, beside))
    thread.start()
    one_after_another(log, main)
    thread.join()
    log.take(second)
    one_after_another(log, alone)
    ran = [status for status, *_ in results if status != NO_TESTS_COLLECTED]
    return next(filter(None, ran), 0 if ran else NO_TESTS_COLLECTED), tuple(map(sum, zip(*[counts for _, *counts in results])))


def step_pytest(log):
    return run_pytest(log, env=python_env())


def step_asan(log):
    status = configure(log, "build-asan", [*SANITIZED, "-Db_sanitize=address,undefined"])
    if status:
        return status, None
    return meson_test(log, "build-asan", *NOT_SANITIZED, "--timeout-multiplier=4", env=SANITIZER_ENV)


def step_asan_pytest(log):
    """Tests marked `asan` against the sanitized extension.  CPython is not built with ASan, so the
    run-time library must come first, and what CPython itself leaks at exit is not looked at."""
    libraries = [compiler_file(name) for name in ("libasan.so", "libstdc++.so")]
    if not libraries[0]:
        raise Skip("cc has no libasan.so to load before Python")
    if log.run(BIN / "ninja", "-C", "build-asan", "python-tree"):
        return 1, None
    options = SANITIZER_ENV["ASAN_OPTIONS"].replace("detect_leaks=1", "detect_leaks=0")
    status, counts = run_pytest(log, "-p", "no:faulthandler", mark="asan", env={
        **python_env("build-asan"), **SANITIZER_ENV, "ASAN_OPTIONS": options,
        "LD_PRELOAD": " ".join(filter(None, libraries)), "PYTHONMALLOC": "malloc"})
    if status == NO_TESTS_COLLECTED:
        raise Skip("no test is marked asan")
    return status, counts


def step_tsan(log):
    compiler, wrapper = tsan_compiler()
    cached = f"ccache {compiler}" if shutil.which("ccache") else compiler
    status = configure(log, "build-tsan", [*SANITIZED, "-Db_sanitize=thread", "-Dpython=disabled"],
                       env={"CC": cached})     # meson finds ccache by itself only without CC
    if status:
        return status, None
    return meson_test(log, "build-tsan", *NOT_SANITIZED, *THREADED, "--timeout-multiplier=8", wrapper=wrapper,
                      env=SANITIZER_ENV)


def step_lint(log):
    return log.run(BIN / "python", "tools/lint.py"), None


STEPS = {
    "build": step_build, "units": step_units, "pytest": step_pytest, "asan": step_asan,
    "asan-pytest": step_asan_pytest, "tsan": step_tsan, "lint": step_lint,
}


# ---- compilers --------------------------------------------------------------------------------

def compiler_file(name):
    """Path of a file that belongs to the C compiler, or None (it then echoes the bare name)."""
    path = subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True,
                          text=True).stdout.strip()
    return path if os.path.isabs(path) else None


def tsan_compiler():
    """A compiler whose TSan programs run here, and a command to run them under.  Kernels that spread
    addresses widely need `setarch -R` with older run-time libraries."""
    program = ROOT / "build/logs/tsan-probe"
    names = ["clang", *(f"clang-{v}" for v in range(20, 13, -1)), "gcc", "cc"]
    for compiler in filter(shutil.which, names):
        built = subprocess.run([compiler, "-fsanitize=thread", "-x", "c", "-", "-o", program],
                               input=b"int main(void) { return 0; }", capture_output=True)
        for wrapper in ((), ("setarch", os.uname().machine, "-R")):
            if built.returncode == 0 and subprocess.run(
                    [*wrapper, program], capture_output=True).returncode == 0:
                return compiler, wrapper
    raise Skip("no compiler here makes TSan programs that run")


# ---- running ----------------------------------------------------------------------------------

def run_step(name, totals):
    log = Log(name)
    start = time.monotonic()
    print(f"== {name:<12}", end="", flush=True)
    try:
        status, counts = STEPS[name](log)
    except Skip as reason:
        totals.add(0, 0, 1)
        print(f"skipped: {reason}")
        return
    passed, failed, skipped = counts or (0, 0, 0)
    if status and not failed:
        failed = 1
    totals.add(passed, failed, skipped)
    result = f"{passed} passed, {failed} failed, {skipped} skipped" if counts else (
        "FAILED" if status else "ok")
    print(f"{time.monotonic() - start:6.1f} s  {result}", flush=True)
    if failed:
        print("\n".join("   | " + line for line in log.text().splitlines()[-TAIL_LINES:]))
        print(f"   whole log: {log.path.relative_to(ROOT)}", flush=True)
        totals.failures += [f"{name}: {line}" for line in failures(log.text())]


def main(names):
    unknown = [n for n in names if n not in STEPS]
    if unknown:
        sys.exit(f"no step '{unknown[0]}'; there are: {' '.join(STEPS)}")
    LOGS.mkdir(parents=True, exist_ok=True)
    totals = Totals()
    for name in names or STEPS:
        run_step(name, totals)
    print("\n".join([*totals.failures[:FAILURE_LINES], str(totals)]))
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
