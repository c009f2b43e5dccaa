# SPDX-License-Identifier: Apache-2.0
"""Runs every suite of `make test`, one line per step with its time and its CPU time, and sums their counts.

After the build, steps run in two lanes at the same time: Python's tests wait for children, servers and timers, and the sanitizer
builds use what they leave.  What measures time runs after both, alone.  On two cores all of it is bound by CPU time, so that is what
each line shows beside the clock; the folders of Python's tests and the suites of C's come after the steps.

Full logs are in build/logs/; the end of a failing step's log is shown, and before the sums the name and
the errors of each test that failed.  A suite that cannot run
here (no TSan run-time library, say) is skipped with its reason, never silently.  A step that fails
without counts of its own (a build, lint) counts as one failure.  The last line is always
`N passed, N failed, N skipped`, and the exit status is 1 if anything failed.

Names given on the command line choose steps: `tools/test.sh build units`.

Python's tests are collected once and run in forked processes (pytest_forks.py), those marked `services` in one of their own;
SERVICES=0 leaves them out.  The sanitizer builds make only what their step runs.
"""

import collections
import json
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
FORKED = ("-p", "pytest_forks", "--forks", str(os.cpu_count()))
# -Og compiles in three quarters of the time of -O1, and tests take as long; -O0 in half, and they take twice as long.
# -g1: functions and lines, which is what a report shows; a quarter less to compile.
# -fno-sanitize-recover: UBSan ends the program anyway (halt_on_error), and without the code to go on a tenth less to compile.
# nvcc knows no sanitizer, and what it compiles is the same in every build.
SANITIZED = ("--buildtype=debugoptimized", "-Doptimization=g", "-Db_lundef=false", "-Dc_args=-g1 -fno-sanitize-recover=all", "-Dcuda=disabled")

TIMING = ("--suite", "timing")
NOT_TIMING = ("--no-suite", "timing")
# Under a sanitizer, timing says nothing, and nvcc compiles what it compiled without one.
NOT_SANITIZED = (*NOT_TIMING, "--no-suite", "compiles")
# TSan looks for nothing in a test that starts no thread.  The units step checks that these start none; a replay of
# a fuzz target calls one parser.
THREADED = ("--no-suite", "single", "--no-suite", "fuzz")
BESIDE = "--timeout-multiplier=5"       # other steps run at the same time; a test has ten minutes

SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


# Importing torch takes 4 s of CPU time with bytecode that is kept, and 9.5 s without: where the environment says that none is written,
# as containers do, every child would compile it again.
BYTECODE = {"PYTHONPYCACHEPREFIX": str(ROOT / "build/pycache"), "PYTHONDONTWRITEBYTECODE": ""}


class Skip(Exception):
    """Raised by a step that cannot run on this machine; the message says why."""


class Totals:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures, self.times = [], []
        self.lock = threading.Lock()

    def add(self, passed, failed, skipped):
        with self.lock:
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
        self.cpu = 0.0

    def run(self, *command, env=None):
        self.file.write(f"$ {' '.join(map(str, command))}\n")
        self.file.flush()
        process = subprocess.Popen(
            [str(c) for c in command], cwd=ROOT, env={**os.environ, **BYTECODE, "PATH": PATH, **(env or {})},
            stdin=subprocess.DEVNULL, stdout=self.file, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu += used.ru_utime + used.ru_stime
        return process.returncode

    def text(self):
        self.file.flush()
        return self.path.read_text(errors="replace")


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
    (ROOT / folder / "meson-logs/testlog.json").unlink(missing_ok=True)
    status = log.run(*wrapper, BIN / "meson", "test", "-C", folder, "--print-errorlogs",
                     *options, env=env)
    counts = meson_counts(log.text())
    log.file.write(suite_times(ROOT / folder / "meson-logs/testlog.json"))
    if status == 0 and not any(counts):
        raise Skip(f"{folder} has no tests; is cmocka installed?")
    return status, counts


def suite_times(path):
    """The time of each suite of C tests, written as pytest_forks writes that of folders."""
    took = collections.defaultdict(lambda: [0, 0.0])
    for line in path.read_text().splitlines() if path.exists() else []:
        test = json.loads(line)
        suite = took[re.split(r"\+| - ", test["name"])[0]]      # "unit+single - stoker:tar_test"
        suite[0] += 1
        suite[1] += test["duration"]
    return "".join(f"{name:<20} {n:5} tests {seconds:7.1f} s\n" for name, (n, seconds) in
                   sorted(took.items(), key=lambda kv: -kv[1][1]))


def step_build(log):
    return log.run(BIN / "ninja", "-C", "build"), None


def step_units(log):
    return meson_test(log, "build", *NOT_TIMING, BESIDE)


def python_env(folder="build"):
    """Environment in which `import stoker` is that of `folder` and TORCH=0 hides torch."""
    path = [str(ROOT / folder / "python")]
    if os.environ.get("TORCH") == "0":
        path.insert(0, str(ROOT / "tools/notorch"))
    return {"PYTHONPATH": os.pathsep.join(path), "STOKER_CLI": str(ROOT / folder / "cli/stoker")}


def marked_files(mark):
    """The files whose text has this mark; collecting the others takes seconds."""
    return sorted(p.relative_to(ROOT) for folder in TEST_FOLDERS for p in (ROOT / folder).rglob("test_*.py")
                  if f"mark.{mark}" in p.read_text())


def run_pytest(log, *options, env, mark="", files=()):
    """Tests with `mark` (all without) in `files` (all without), side by side, but those marked serial."""
    which = [mark, "not serial", "not services" if os.environ.get("SERVICES") == "0" else ""]
    status = log.run(BIN / "python", "-m", "pytest", "-q", *FORKED, *options, "-m", " and ".join(filter(None, which)),
                     *(f"--only={f}" for f in files), *TEST_FOLDERS, env=with_tools(env))
    return status, pytest_counts(log.text())


def with_tools(env):
    """That environment, and what is in tools/ can be imported."""
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, [env.get("PYTHONPATH"), str(ROOT / "tools")]))}


def step_pytest(log):
    return run_pytest(log, env=python_env())


def step_alone(log):
    """What measures time, or how the cores are used: nothing else runs."""
    status, counts = meson_test(log, "build", *TIMING)
    before = len(log.text())
    only = [f"--only={f}" for f in marked_files("serial")]
    again = log.run(BIN / "python", "-m", "pytest", "-q", "-p", "pytest_forks", "--forks", "1", *only, "-m", "serial", *TEST_FOLDERS,
                    env=with_tools(python_env()))
    return status or again, tuple(map(sum, zip(counts, pytest_counts(log.text()[before:]))))


def step_asan(log):
    status = configure(log, "build-asan", [*SANITIZED, "-Db_sanitize=address,undefined"])
    if status:
        return status, None
    return meson_test(log, "build-asan", *NOT_SANITIZED, BESIDE, env=SANITIZER_ENV)


def step_asan_pytest(log):
    """Tests marked `asan` against the sanitized extension.  CPython is not built with ASan, so the
    run-time library must come first, and what CPython itself leaks at exit is not looked at."""
    libraries = [compiler_file(name) for name in ("libasan.so", "libstdc++.so")]
    if not libraries[0]:
        raise Skip("cc has no libasan.so to load before Python")
    if log.run(BIN / "ninja", "-C", "build-asan", "python-tree"):
        return 1, None
    options = SANITIZER_ENV["ASAN_OPTIONS"].replace("detect_leaks=1", "detect_leaks=0")
    status, counts = run_pytest(log, "-p", "no:faulthandler", mark="asan", files=marked_files("asan"), env={
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
    return meson_test(log, "build-tsan", *NOT_SANITIZED, *THREADED, BESIDE, wrapper=wrapper,
                      env=SANITIZER_ENV)


def step_lint(log):
    return log.run(ROOT / "tools/lint.sh"), None


STEPS = {
    "build": step_build, "units": step_units, "pytest": step_pytest, "asan": step_asan,
    "asan-pytest": step_asan_pytest, "tsan": step_tsan, "lint": step_lint, "alone": step_alone,
}
# One after another: lanes, which run at the same time.
ORDER = ([["build"]], [["pytest"], ["asan", "asan-pytest", "tsan", "units", "lint"]], [["alone"]])


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

def run_step(name, step, totals):
    log = Log(name)
    start = time.monotonic()
    try:
        status, counts = step(log)
    except Skip as reason:
        totals.add(0, 0, 1)
        print(f"== {name:<12} skipped: {reason}", flush=True)
        return
    except Exception as error:          # a step that could not run has failed, and the steps after it go on
        totals.add(0, 1, 0)
        totals.failures.append(f"{name}: {type(error).__name__}: {error}")
        print(f"== {name:<12} FAILED: {type(error).__name__}: {error}", flush=True)
        return
    passed, failed, skipped = counts or (0, 0, 0)
    if status and not failed:
        failed = 1
    totals.add(passed, failed, skipped)
    result = f"{passed} passed, {failed} failed, {skipped} skipped" if counts else (
        "FAILED" if status else "ok")
    lines = [f"== {name:<12}{time.monotonic() - start:6.1f} s {log.cpu:7.1f} CPU s  {result}"]
    if failed:
        lines += ["   | " + line for line in log.text().splitlines()[-TAIL_LINES:]]
        lines.append(f"   whole log: {log.path.relative_to(ROOT)}")
        totals.failures += [f"{name}: {line}" for line in failures(log.text()) or log.text().splitlines()[-5:]]
    totals.times += [f"   {name:<12} {line}" for line in folder_times(log.text())]
    print("\n".join(lines), flush=True)


def folder_times(text):
    """The lines that pytest_forks and suite_times() write, of a second and more."""
    found = re.findall(r"^(\S+ +\d+ tests +([\d.]+) s.*)$", text, re.M)
    return [line for line, seconds in found if float(seconds) >= 1]


def run_lane(names, totals):
    for name in names:
        run_step(name, STEPS[name], totals)


def run_together(lanes, totals):
    threads = [threading.Thread(target=run_lane, args=(names, totals)) for names in lanes]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def summary(totals, start):
    """The end of what is said, and the exit status."""
    print("\n".join([*totals.times, f"== all         {time.monotonic() - start:6.1f} s",
                     *totals.failures[:FAILURE_LINES], str(totals)]))
    return 1 if totals.failed else 0


def main(names):
    unknown = [n for n in names if n not in STEPS]
    if unknown:
        sys.exit(f"no step '{unknown[0]}'; there are: {' '.join(STEPS)}")
    LOGS.mkdir(parents=True, exist_ok=True)
    totals = Totals()
    start = time.monotonic()
    for lanes in ORDER:
        run_together([[n for n in lane if n in (names or STEPS)] for lane in lanes], totals)
    return summary(totals, start)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
