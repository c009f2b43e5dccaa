# SPDX-License-Identifier: Apache-2.0
"""The counts that end `make test` are read off what meson and pytest print."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import pytest  # noqa: E402
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

    def beside(self, name):
        self.other = FakeLog(*self.others)
        return self.other

    def take(self, other):
        self.said += other.said

    others = ()


SERIAL_MARK = "mark." + "serial"        # this file has none itself


@pytest.fixture(autouse=True)
def one_serial_file(monkeypatch):
    monkeypatch.delenv("SERVICES", raising=False)
    monkeypatch.setattr(run_tests, "marked_files", lambda *marks: [] if "services" in marks else [["python/tests/test_a.py"]])


def test_files_are_found_by_their_marks(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    (tmp_path / "python/tests").mkdir(parents=True)
    (tmp_path / "tests/a").mkdir(parents=True)
    (tmp_path / "tests/b").mkdir()
    (tmp_path / "python/tests/test_a.py").write_text(f"@pytest.{SERIAL_MARK}\n")
    (tmp_path / "python/tests/test_b.py").write_text("def test(): pass\n")
    (tmp_path / "tests/a/test_c.py").write_text(f"pytestmark = pytest.{SERIAL_MARK}\n")
    (tmp_path / "tests/a/test_d.py").write_text(f"{SERIAL_MARK} {SERIAL_MARK.replace('serial', 'asan')}\n")
    (tmp_path / "tests/b/test_e.py").write_text(f"@pytest.{SERIAL_MARK}\n")
    found = [[str(p) for p in files] for files in run_tests.marked_files("serial")]
    assert found == [["python/tests/test_a.py"], ["tests/a/test_c.py", "tests/a/test_d.py"], ["tests/b/test_e.py"]]
    found = [[str(p) for p in files] for files in run_tests.marked_files("serial", "asan")]
    assert found == [["tests/a/test_d.py"]]


def test_serial_tests_run_after_the_others_and_are_counted():
    log = FakeLog((1, "1 failed, 9 passed in 2.10s\n"), (0, "2 passed, 1 skipped in 0.10s\n"))
    assert run_tests.run_pytest(log, env={}, mark="asan") == (1, (11, 1, 1))
    first, second = log.commands
    assert "-n" in first and "asan and not serial and not services" in first
    assert "-n" not in second and "asan and serial and not services" in second


def test_a_failure_of_the_serial_tests_counts():
    log = FakeLog((0, "9 passed in 2.10s\n"), (1, "1 failed in 0.10s\n"))
    assert run_tests.run_pytest(log, env={}) == (1, (9, 1, 0))


def test_no_serial_test_is_no_failure():
    none = run_tests.NO_TESTS_COLLECTED
    log = FakeLog((0, "9 passed in 2.10s\n"), (none, "no tests ran in 0.01s\n"))
    assert run_tests.run_pytest(log, env={}) == (0, (9, 0, 0))
    log = FakeLog((none, "no tests ran in 0.01s\n"), (none, "no tests ran in 0.01s\n"))
    assert run_tests.run_pytest(log, env={})[0] == none


def services(monkeypatch, *results):
    """A log; there are as many folders with services as results."""
    log = FakeLog((0, "9 passed in 2.10s\n"))
    log.others = results
    monkeypatch.setattr(run_tests, "marked_files", lambda *marks: [[f"tests/{i}/test_b.py"] for i in range(len(results))]
                        if "services" in marks else [])
    return log


def test_services_run_beside_the_others_and_are_counted(monkeypatch):
    log = services(monkeypatch, (1, "1 failed, 3 passed in 1.10s\n"), (0, "2 passed in 0.10s\n"))
    assert run_tests.run_pytest(log, env={}) == (1, (14, 1, 0))
    assert "not serial and not services" in log.commands[0] and "-n" in log.commands[0]
    assert [c[-2:] for c in log.other.commands] == [["services and not serial", f"tests/{i}/test_b.py"] for i in (1, 0)]
    assert "1 failed" in log.text()             # a failure is found in the one log


def test_services_can_be_left_out(monkeypatch):
    monkeypatch.setenv("SERVICES", "0")
    log = services(monkeypatch, (1, "1 failed in 1.10s\n"))
    assert run_tests.run_pytest(log, env={}) == (0, (9, 0, 0)) and log.other.commands == []
