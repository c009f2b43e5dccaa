# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: tests are collected once, and run in forked processes.

`--forks N` makes N processes for most tests, and one more for those marked `services`, which share servers and wait for them half
of their time.  Importing torch and reading 250 files takes 24 s of CPU time: pytest-xdist has every process do it, here they are
forked after it.  Tests marked `serial` are left for a run without `--forks`.

A process gets a file of tests at a time, and asks for the next one before the last test of the one it has: so that what its fixtures
hold for the session stays.  Files that take long come first.  A process that dies fails the test it was in, and another one
takes its place.

No test hangs the run, whatever it waits for: a process, a thread, a socket, a queue.  After PATIENCE seconds the test fails where
it waits, with the stacks of all threads, and the process goes on with the next one.  A process that does not (its main thread is
in C code that never returns to Python) ends at LIMIT, with its stacks; one that does not even that is killed.

At the end it says how much time each folder took, and which tests took most.
"""

import atexit
import collections
import faulthandler
import gc
import itertools
import os
import resource
import signal
import time
import traceback
from multiprocessing.connection import Pipe, wait
from pathlib import Path, PurePath

import pytest

import huge_pages

# Before torch is imported.  A module that computes while it is collected would otherwise start the threads of OpenMP, which a forked
# process does not have: its next large operation waits for them without end.  And threads of OpenMP wait by spinning.
os.environ["OMP_NUM_THREADS"] = "1"

# Seconds for one test, where the longest takes 40 on a quiet machine.
PATIENCE = float(os.environ.get("STOKER_TEST_PATIENCE", 420))
LIMIT = PATIENCE + 180
DEAREST = int(os.environ.get("STOKER_TEST_DEAREST", 40))        # tests that are shown with their CPU time
TICKS = os.sysconf("SC_CLK_TCK")
GRACE = 60      # after LIMIT, for a process to end by itself
HURRY = signal.SIGRTMIN + 7     # from the parent, at PATIENCE; no test uses it
# Those of more than ten seconds of CPU time, so that none is begun last.
LONG = ("test_lifetime", "test_peers", "test_dataloader", "test_dataloader_classes", "test_interrupts", "test_transform_gpu", "test_torch_bits",
        "test_from_transform", "test_watch", "test_top", "test_against_pillow", "test_install", "test_scripts",
        "test_frameworks", "test_snippets", "test_examples", "test_killed", "test_gpu_bench", "test_memory")


def pytest_addoption(parser):
    parser.addoption("--forks", type=int, default=0, help="run tests in so many forked processes")
    parser.addoption("--only", action="append", default=[], help="of the folders given, collect only this file (again: this one too)")


def pytest_configure(config):
    if config.option.forks and not config.option.collectonly:
        config.pluginmanager.register(Forks(config, config.option.forks), "forks")


def pytest_ignore_collect(collection_path, config):
    """Files of several folders as arguments would all import the conftest of the last one."""
    only = config.option.only
    if only and collection_path.is_file() and str(collection_path.relative_to(config.rootpath)) not in only:
        return True
    return None


def cpu_seconds():
    """CPU time of this process, of those it has waited for, and of all that descend from it and run."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used) + sum(map(tree_seconds, children(os.getpid())))


def children(pid):
    """Processes that the threads of one have started; none where the kernel does not list them."""
    try:
        return [child for task in os.listdir(f"/proc/{pid}/task") for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    except OSError:                             # it has ended meanwhile
        return []


def tree_seconds(pid):
    """CPU time of a process that runs, of those it has waited for, and of its children."""
    try:
        used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    except OSError:
        return 0.0
    return sum(map(int, used)) / TICKS + sum(map(tree_seconds, children(pid)))


def check_threads():
    """A thread that a module started while it was collected would be missing in every forked process, and be waited for."""
    mine, *others = (open(f"/proc/self/task/{task}/comm").read() for task in sorted(os.listdir("/proc/self/task"), key=int))
    if mine in others:          # libraries that care for fork() give their threads names
        raise pytest.UsageError("collecting the tests has started a thread, and forked processes would not have it: a test module "
                                "computes with threads, or starts one, when it is imported; let a fixture do that")


def files_of(items):
    """Numbers of items, a list for each file, long files first."""
    found = [list(group) for _, group in itertools.groupby(range(len(items)), lambda i: items[i].path)]
    rank = {name: i for i, name in enumerate(LONG)}
    return sorted(found, key=lambda group: rank.get(items[group[0]].path.stem, len(LONG)))


class Process:
    """A forked process: what it was given and has not finished, and the test that it is in."""

    def __init__(self, queue):
        self.queue = queue              # lists of numbers; shared by processes of one kind
        self.left = collections.deque()
        self.conn = self.pid = self.end = None  # end: a file that can be read when the process has ended
        self.since = None               # when its test began; None between two tests
        self.hurried = False


class Child:
    """The plugin inside a forked process: runs what it is given, and sends reports."""

    def __init__(self, session, conn):
        self.session, self.config, self.conn = session, session.config, conn
        self.stderr = os.dup(2)         # before it is captured
        self.inside = None              # the test that runs
        signal.signal(HURRY, self.give_up)

    def give_up(self, number, frame):
        """Ends a wait of the main thread: Python's waits return for a signal, and raise what its handler raises."""
        test, self.inside = self.inside, None
        if test is not None:
            faulthandler.dump_traceback(file=self.stderr)
            pytest.fail(f"{test} took longer than {PATIENCE:.0f} s: what it waits for, below, did not happen")

    def limit(self):
        """Within LIMIT seconds from now it is called again, or this process ends."""
        faulthandler.dump_traceback_later(LIMIT, exit=True, file=self.stderr)

    def pytest_runtest_logreport(self, report):
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.conn.send(("report", data))

    def more(self):
        self.conn.send(("more", None))
        return self.conn.recv()

    def run(self):
        left = collections.deque(self.more())
        while left:
            i = left.popleft()
            if not left:
                left.extend(self.more())
            self.conn.send(("begin", i))
            self.limit()
            before, wall = cpu_seconds(), time.monotonic()
            self.inside = self.session.items[i].nodeid
            self.config.hook.pytest_runtest_protocol(item=self.session.items[i],
                                                     nextitem=self.session.items[left[0]] if left else None)
            self.inside = None
            if not left or self.session.items[left[0]].path != self.session.items[i].path:
                gc.collect()                    # workers of loaders in tracebacks hold every pipe that was open when they were forked
            self.conn.send(("end", (i, time.monotonic() - wall, cpu_seconds() - before)))


class Forks:
    def __init__(self, config, n):
        self.config, self.n = config, n
        self.took = collections.defaultdict(lambda: [0, 0.0, 0.0])      # by folder: tests, seconds, CPU seconds
        self.cpu = {}                           # by test

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            raise session.Interrupted(f"{session.testsfailed} errors while collecting")
        self.session = session
        check_threads()
        huge_pages.gather()
        kinds = [i.get_closest_marker("services") is not None for i in session.items]
        files = files_of(session.items)
        plain = collections.deque(mine for mine in ([i for i in f if not kinds[i]] for f in files) if mine)
        services = collections.deque(filter(None, [[i for i in range(len(kinds)) if kinds[i]]]))
        running = [Process(plain) for _ in range(min(self.n, len(plain)))] + [Process(services) for _ in services]
        try:
            for p in running:
                self.fork(p)
            while running:
                self.listen(running)
        finally:
            for p in running:
                os.kill(p.pid, 15)
        return True

    def fork(self, process):
        process.conn, theirs = Pipe()
        process.pid = os.fork()
        if process.pid:
            theirs.close()
            process.end = os.pidfd_open(process.pid)
            return
        status = 1
        try:
            self.be_child(theirs)
            status = 0
        except BaseException:                   # nothing of the parent's runs in this process
            traceback.print_exc()
        os._exit(status)

    def be_child(self, conn):
        plugins = self.config.pluginmanager
        capture = plugins.getplugin("capturemanager")
        capture.stop_global_capturing()         # its files are the parent's too
        child = Child(self.session, conn)
        capture.start_global_capturing()
        for name in ("terminalreporter", "forks", "junitxml"):
            plugins.unregister(name=name)
        plugins.register(child, "forked")
        child.run()
        child.limit()
        conn.close()
        atexit._run_exitfuncs()                 # the ends of processes that tests have started

    def listen(self, running):
        """What the processes say; one has ended when it has and all it said was heard.  Its end of the connection proves
        nothing: processes that a test has left behind may hold it open."""
        ready = set(wait([p.conn for p in running] + [p.end for p in running], timeout=min(5, PATIENCE / 2)))
        for process in [p for p in running if {p.conn, p.end} & ready]:
            if process.conn not in ready or not self.hear(process):
                self.ended(process, running)
        for process in running:
            self.hurry(process)

    def hurry(self, process):
        """A test that waits for too long."""
        took = time.monotonic() - process.since if process.since else 0
        if took > PATIENCE and not process.hurried:
            process.hurried = True
            os.kill(process.pid, HURRY)
        if took > LIMIT + GRACE:
            os.kill(process.pid, signal.SIGKILL)

    def hear(self, process):
        try:
            what, data = process.conn.recv()
        except (EOFError, OSError):
            return False
        getattr(self, "on_" + what)(process, data)
        return True

    def on_more(self, process, _):
        given = process.queue.popleft() if process.queue else []
        process.left.extend(given)
        process.conn.send(given)

    def on_begin(self, process, i):
        assert process.left[0] == i
        process.since, process.hurried = time.monotonic(), False

    def on_report(self, process, data):
        self.log(self.config.hook.pytest_report_from_serializable(config=self.config, data=data))

    def on_end(self, process, data):
        i, wall, cpu = data
        assert process.left.popleft() == i
        process.since = None
        took = self.took[str(PurePath(self.session.items[i].nodeid.split("::")[0]).parent)]
        for k, more in enumerate((1, wall, cpu)):
            took[k] += more
        self.cpu[self.session.items[i].nodeid] = cpu

    def ended(self, process, running):
        """It has run all, or died in a test; then another one takes its place."""
        _, status = os.waitpid(process.pid, 0)
        process.since = None
        process.conn.close()
        os.close(process.end)
        if process.left:
            item = self.session.items[process.left.popleft()]
            self.log(pytest.TestReport(item.nodeid, item.location, {}, "failed",
                                       f"its process died: {os.waitstatus_to_exitcode(status)}", "call"))
        elif status:                            # what its fixtures and its exit functions undo is a part of the tests
            how = f"a process for tests ended outside of a test: {os.waitstatus_to_exitcode(status)}"
            if process.queue:
                raise RuntimeError(how)
            self.log(pytest.TestReport("the end of a process", ("", None, "the end of a process"), {}, "failed", how, "teardown"))
        if not process.left and not process.queue:
            running.remove(process)
            return
        if process.left:
            process.queue.appendleft(list(process.left))
            process.left.clear()
        self.fork(process)

    def log(self, report):
        self.session.config.hook.pytest_runtest_logreport(report=report)

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.section("time per folder")
        for folder, (n, wall, cpu) in sorted(self.took.items(), key=lambda kv: -kv[1][2]):
            terminalreporter.write_line(f"{folder:<20} {n:5} tests {wall:7.1f} s {cpu:7.1f} CPU s")
        terminalreporter.section("tests that took most CPU time")
        for cpu, test in sorted(((cpu, test) for test, cpu in self.cpu.items()), reverse=True)[:DEAREST]:
            terminalreporter.write_line(f"{cpu:7.1f} CPU s {test}")
