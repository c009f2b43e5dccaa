# SPDX-License-Identifier: Apache-2.0
"""The counts that end `make test` are read off what meson and pytest print; forked processes; what `make check` runs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1] / "tools"
sys.path[:0] = [str(TOOLS), str(Path(__file__).parent)]

import forked_python  # noqa: E402
import pytest  # noqa: E402
import check  # noqa: E402
import run_tests  # noqa: E402

MESON = """
1/3 base / err  OK  0.01s
Ok:                 7
Expected Fail:      1
Fail:               2
Unexpected Pass:    0
Skipped:            3
Timeout:            1

Full log written to somewhere
"""


def test_meson_counts():
    assert run_tests.meson_counts(MESON) == (8, 3, 3)
    assert run_tests.meson_counts("ninja: error") == (0, 0, 0)


def test_meson_counts_leave_out_what_is_not_printed():
    """meson 1.12 prints only the rows that are not zero, but Ok and Fail always."""
    assert run_tests.meson_counts("Ok:                2\nFail:              0\n") == (2, 0, 0)


def test_pytest_counts():
    text = "1 passed in 9s of old\n=== 3 failed, 12 passed, 1 skipped, 1 error in 2.10s ===\n"
    assert run_tests.pytest_counts(text) == (12, 4, 1)
    assert run_tests.pytest_counts("12 passed, 2 xfailed in 61.20s (0:01:01)") == (14, 0, 0)
    assert run_tests.pytest_counts("no tests ran in 0.01s") == (0, 0, 0)


def test_failures():
    """What meson and pytest print of a failure is found among what passed."""
    said = ["  2/3 base / err  FAIL  0.01s   exit status 1", "____ test_one ____", "E   assert 1 == 2",
            "FAILED python/tests/test_x.py::test_one - assert 1 == 2", "ERROR tests/test_y.py::test_two"]
    assert run_tests.failures("\n".join(["1/3 base / ok  OK  0.01s", "....", *said, "1 failed in 2s", "ERROR: no"])) == said


class FakeLog:
    """Answers each command with the next of `results`: (status, what it prints)."""

    def __init__(self, *results):
        self.results, self.commands, self.said = list(results), [], ""

    def run(self, *command, env=None):
        self.commands.append([str(c) for c in command])
        status, text = self.results.pop(0)
        self.said += text
        return status

    def text(self):
        return self.said


SERIAL_MARK = "mark." + "serial"        # this file has none itself


def test_files_are_found_by_their_mark(tmp_path, monkeypatch):
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    (tmp_path / "python/tests").mkdir(parents=True)
    (tmp_path / "tests/a").mkdir(parents=True)
    (tmp_path / "python/tests/test_a.py").write_text(f"@pytest.{SERIAL_MARK}\n")
    (tmp_path / "python/tests/test_b.py").write_text("def test(): pass\n")
    (tmp_path / "tests/a/test_c.py").write_text(f"pytestmark = pytest.{SERIAL_MARK}\n")
    assert [str(p) for p in run_tests.marked_files("serial")] == ["python/tests/test_a.py", "tests/a/test_c.py"]


@pytest.mark.parametrize("services, which", [("1", "asan and not serial"), ("0", "asan and not serial and not services")])
def test_services_can_be_left_out(monkeypatch, services, which):
    monkeypatch.setenv("SERVICES", services)
    log = FakeLog((1, "1 failed, 9 passed in 2.10s\n"))
    assert run_tests.run_pytest(log, env={}, mark="asan") == (1, (9, 1, 0))
    assert "--forks" in log.commands[0] and which in log.commands[0]


def test_what_measures_runs_alone(monkeypatch):
    monkeypatch.setattr(run_tests, "meson_test", lambda log, *options: (0, (1, 0, 1)))
    log = FakeLog((1, "1 failed, 2 passed in 0.10s\n"))
    assert run_tests.step_alone(log) == (1, (3, 1, 1))
    command = log.commands[0]
    assert command[command.index("--forks") + 1] == "1" and "serial" in command     # one process, with a limit for each test


def test_a_step_that_raises_has_failed(monkeypatch, tmp_path, capsys):
    """And those after it in its lane run."""
    def step_build(log):
        raise FileNotFoundError("no compiler")
    monkeypatch.setattr(run_tests, "LOGS", tmp_path)
    monkeypatch.setattr(run_tests, "STEPS", {"build": step_build, "lint": lambda log: (0, (3, 0, 1))})
    totals = run_tests.Totals()
    run_tests.run_together([["build", "lint"]], totals)
    assert run_tests.summary(totals, 0) == 1
    said = capsys.readouterr().out
    assert "build: FileNotFoundError: no compiler" in said and said.endswith("3 passed, 1 failed, 1 skipped\n")


def test_every_step_is_in_the_order_once():
    assert sorted(name for lanes in run_tests.ORDER for lane in lanes for name in lane) == sorted(run_tests.STEPS)


def test_times_of_suites_and_folders(tmp_path):
    log = tmp_path / "testlog.json"
    log.write_text("".join(json.dumps({"name": name, "duration": seconds}) + "\n" for name, seconds in
                           [("unit - stoker:a", 1), ("unit+single - stoker:b", 2.5), ("fuzz - stoker:c", 0.25)]))
    text = run_tests.suite_times(log)
    assert [line.split() for line in text.splitlines()] == [["unit", "2", "tests", "3.5", "s"], ["fuzz", "1", "tests", "0.2", "s"]]
    folders = "python/tests 7 tests 12.0 s 9.0 CPU s"
    assert run_tests.folder_times(f"7 passed in 12 s\n{text}{folders}\n") == [text.splitlines()[0], folders]


FORKED = '''
import os, signal, pytest

@pytest.fixture(scope="session")
def mine(tmp_path_factory):
    print("made")
    yield os.getpid()
    with open("{ends}", "a") as f:
        f.write("end ")

def test_a_pass(mine, capfd):
    os.system("echo said")
    assert capfd.readouterr().out.endswith("said\\n")

def test_b_fails(mine): assert mine == 0
def test_c_dies(mine): os.kill(os.getpid(), signal.SIGKILL)
def test_d_after(mine, tmp_path): assert mine == os.getpid() and tmp_path.exists()
def test_e_leaves(): os._exit(0)
def test_f_last(mine): pass

@pytest.mark.skip
def test_g_skipped(): pass

@pytest.mark.services
def test_h_service(mine): pass
'''


def test_forked_processes(tmp_path):
    """Each test is run and counted once, whatever becomes of the process it runs in; fixtures of a session are undone."""
    ends = tmp_path / "ends"
    for i in range(3):
        (tmp_path / f"test_{i}.py").write_text(FORKED.replace("{ends}", str(ends)))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = services\n")
    (tmp_path / "test_3.py").write_text("raise SystemError\n")
    only = [f"--only=test_{i}.py" for i in range(3)]
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "pytest_forks", "--forks", "2", *only, "-q", "-ra", tmp_path], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(TOOLS)}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and run_tests.pytest_counts(done.stdout) == (12, 9, 3), done.stdout + done.stderr
    assert done.stdout.count("its process died: -9") == done.stdout.count("its process died: 0") == 6    # in its place, and in the sums
    assert 3 <= ends.read_text().count("end") <= 6           # of processes that came to their end
    assert re.search(r"^\. +18 tests", done.stdout, re.M), done.stdout


BAD_END = '''
import os, pytest

@pytest.fixture(scope="session")
def broken():
    yield
    os._exit(7)

def test_a(broken): meet("a", "c")
'''

MEET = '''
import pathlib, time

def meet(me, other):
    """Two processes are there, and each has one of these tests."""
    here = pathlib.Path(__file__).parent
    (here / me).touch()
    for _ in range(600):
        if (here / other).exists():
            return
        time.sleep(.1)
    raise TimeoutError(other)
'''


def test_a_process_that_ends_badly_is_an_error(tmp_path):
    """Also the last one, after its last test."""
    (tmp_path / "test_end.py").write_text(MEET + BAD_END + "def test_b(): pass\n")
    (tmp_path / "test_exit.py").write_text(MEET + "import atexit, os\ndef test_c():\n    meet('c', 'a')\n    atexit.register(os._exit, 9)\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "pytest_forks", "--forks", "2", "-q", "-ra", tmp_path], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(TOOLS)}, capture_output=True, text=True, timeout=300)
    passed, failed, _ = run_tests.pytest_counts(done.stdout)
    assert done.returncode == 1 and passed >= 2 and failed == 2, done.stdout + done.stderr
    assert "died: 7" in done.stdout and "ended outside of a test: 9" in done.stdout


HANGS = '''
import subprocess, threading, time

def test_a_thread(): threading.Event().wait()
def test_a_process():
    with subprocess.Popen(["sleep", "1000"]) as p:
        try:
            p.communicate()
        finally:
            p.kill()
def test_after(): pass
def test_that_never_gives_up():
    while True:
        try:
            time.sleep(1000)
        except BaseException:
            pass
def test_last(): pass
'''


def test_a_test_that_hangs_fails(tmp_path):
    """Whatever it waits for, it fails there, by name, and the others run; one that catches that ends its process."""
    (tmp_path / "test_hangs.py").write_text(HANGS)
    done = subprocess.run([sys.executable, "-c", "import pytest_forks as f, sys; f.LIMIT = f.PATIENCE + 2; import pytest; sys.exit(pytest.main(sys.argv[1:]))",
                           "-p", "pytest_forks", "--forks", "1", "-q", "-ra", tmp_path], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(TOOLS), "STOKER_TEST_PATIENCE": "5"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and run_tests.pytest_counts(done.stdout) == (2, 3, 0), done.stdout + done.stderr
    for name in ("a_thread", "a_process"):
        assert f"test_hangs.py::test_{name} took longer than 5 s" in done.stdout
    assert "its process died: 1" in done.stdout and "in test_that_never_gives_up" in done.stderr


def test_threads_that_would_be_missing(tmp_path):
    """Collecting may compute with torch, which then has no threads; a module that starts one itself is refused."""
    torch = "torch = pytest.importorskip('torch')\nx = torch.ones(10**6)\nassert torch.equal(x, x + 0)\n"
    (tmp_path / "test_computes.py").write_text(f"import pytest\n{torch}def test_a(): assert torch.equal(x, x + 0)\n")
    command = [sys.executable, "-m", "pytest", "-p", "pytest_forks", "--forks", "1", "-q", tmp_path]
    env = {**os.environ, "PYTHONPATH": str(TOOLS), "STOKER_TEST_PATIENCE": "60"}
    done = subprocess.run(command, cwd=tmp_path, env={**env, "OMP_NUM_THREADS": "4"}, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 5), done.stdout + done.stderr             # 5: no torch here
    (tmp_path / "test_starts.py").write_text("import threading, time\nthreading.Thread(target=time.sleep, args=[600], daemon=True).start()\n"
                                             "def test_b(): pass\n")
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode and "has started a thread" in done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("path, tests", [
    ("src/table/parquet_data.c", {"test_parquet", "test_parquet_oracle"}), ("python/stoker/dataloader.py", {"test_dataloader"}),
    ("python/tests/test_pad.py", {"test_pad"}), ("tools/lint.py", {"test_lint"}), ("src/row/row.h", {"test_ragged"}),
])
def test_the_tests_of_a_file(path, tests):
    assert tests <= {Path(t).stem for t in check.tests_of([path])}


def test_a_deleted_file_is_a_change(tmp_path, monkeypatch):
    """Its tests run, so that what needed it is seen."""
    def git(*args):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=b", *args], cwd=tmp_path, check=True, capture_output=True)
    git("init")
    (tmp_path / "gone.py").write_text("")
    git("add", ".")
    git("commit", "-m", "all")
    (tmp_path / "gone.py").unlink()
    monkeypatch.setattr(check, "ROOT", tmp_path)
    assert check.changed("HEAD") == ["gone.py"]


def test_areas_name_what_is_there():
    there = {p.stem for folder in run_tests.TEST_FOLDERS for p in (run_tests.ROOT / folder).rglob("test_*.py")}
    assert {name for names in check.AREAS.values() for name in names.split()} <= there
    assert all((run_tests.ROOT / area).is_dir() for area in check.AREAS)
    assert {f"src/{p.name}" for p in (run_tests.ROOT / "src").iterdir() if p.is_dir()} <= check.AREAS.keys()


def test_seams_are_run_where_they_changed():
    assert check.suites_of(["tests/seams/seam_plugin_test.c"]) == ["--suite", "unit", "--suite", "seams"] != check.suites_of(["docs/x.md"])


def test_tests_that_all_need_services_are_no_failure(monkeypatch, tmp_path):
    """pytest's exit status says then that nothing was collected."""
    monkeypatch.setattr(run_tests, "run_pytest", lambda *_, **__: (run_tests.NO_TESTS_COLLECTED, (0, 0, 0)))
    monkeypatch.setattr(run_tests, "LOGS", tmp_path)
    totals = run_tests.Totals()
    run_tests.run_step("check-pytest", lambda log: check.pytest_of(log, ["tests/stores/test_azure.py"]), totals)
    assert (totals.failed, totals.skipped) == (0, 1)


def test_what_changed_on_main_meanwhile_is_not_the_branchs(tmp_path, monkeypatch):
    def git(*args):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=b", *args], cwd=tmp_path, check=True, capture_output=True)
    git("init", "-b", "trunk")
    for branch, name in (("trunk", "a.py"), ("mine", "b.py"), ("trunk", "c.py")):
        git("checkout", branch) if name == "c.py" else git("checkout", "-B", branch)
        (tmp_path / name).write_text("")
        git("add", ".")
        git("commit", "-m", name)
    git("checkout", "mine")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    assert check.changed("trunk") == ["b.py"]


def test_forked_python(tmp_path):
    """Programs run as under a `python` of their own, and their ends are seen."""
    python = forked_python.python("json")
    done = python.run(["-c", "import atexit, os, sys; atexit.register(print, 'last'); print(sys.argv, os.getcwd(), os.environ['A']); f = 7\n"
                       "import __main__; print(__main__.f); sys.exit(3)", "x"], env={"A": "b"}, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, f"['-c', 'x'] {tmp_path} b\n7\nlast\n")
    (tmp_path / "helper.py").write_text("word = 'beside'\n")
    (tmp_path / "script.py").write_text("import helper, sys\nprint(__name__, __file__, sys.argv[1:], helper.word)\n1 / 0\n")
    done = python.run([tmp_path / "script.py", 1])
    assert done.returncode == 1 and done.stdout == f"__main__ {tmp_path}/script.py ['1'] beside\n" and "ZeroDivisionError" in done.stderr
    assert python.run(["-m", "calendar", "2024", "2"]).stdout.startswith("   February 2024")
    both = [python.start(["-c", "import time; time.sleep(600)"]) for _ in range(2)]
    assert both[0].poll() is None
    both[0].kill()
    assert both[0].wait() == -9 and both[1].poll() is None
    both[1].send_signal(15)
    assert both[1].wait() == -15
    with pytest.raises(subprocess.TimeoutExpired):
        python.run(["-c", "import time; time.sleep(600)"], timeout=0.01)
