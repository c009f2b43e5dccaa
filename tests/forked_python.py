# SPDX-License-Identifier: Apache-2.0
"""Python programs in processes forked from one that has imported torch, or what else is asked for.

Importing torch takes two seconds of CPU time, and most programs that tests start take less.  A program runs as `python` would run it:
a `__main__` of its own, arguments, folder, environment, and an end with all that Python does at its end.  What differs: modules
are there already, and stdin is empty.  Tests of start-up, of imports and of spawned processes start a real interpreter.

    done = python("torch", "stoker").run(["-c", code, *args], env=env)         # as subprocess.run(..., capture_output=True, text=True)
    process = python("stoker").start([script, *args], env=env)                 # as Popen: pid, poll, wait, kill, send_signal
"""

import atexit
import functools
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import types
from pathlib import Path

BUILD = Path(os.environ.get("STOKER_BUILD", Path(__file__).resolve().parents[1] / "build")).resolve()


TORCH = ("torch", "torch.distributed", "PIL.Image", "stoker")       # one process is forked for all who need it


@functools.cache
def python(*modules):
    return Forker(modules)


class Forker:
    cpu = 0.0                                   # seconds of CPU time of the programs of all

    def __init__(self, modules):
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(BUILD / "python")]))
        self.process = subprocess.Popen([sys.executable, __file__, *modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path})
        atexit.register(self.end)

    def end(self):
        self.process.stdin.close()              # it then ends, if no other process has the pipe
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, argv, *, env=None, cwd=None, stdout=None, stderr=None):
        """stdout, stderr: paths; without, those of the tests."""
        return Process(self, self.ask(argv=[str(a) for a in argv], env=dict(os.environ if env is None else env), cwd=str(cwd or os.getcwd()),
                                      files=[str(f or f"/proc/{os.getpid()}/fd/{fd}") for fd, f in ((1, stdout), (2, stderr))]))

    def run(self, argv, *, env=None, cwd=None, timeout=300):
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            process = self.start(argv, env=env, cwd=cwd, stdout=out, stderr=err)
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            return subprocess.CompletedProcess(argv, status, out.read_text(), err.read_text())


class Process:
    def __init__(self, forker, pid):
        self.forker, self.pid, self.returncode = forker, pid, None
        self.fd = os.pidfd_open(pid)            # it stays there until it is asked for

    def poll(self, timeout=0):
        if self.returncode is None and select.select([self.fd], [], [], timeout)[0]:
            self.returncode, cpu = self.forker.ask(pid=self.pid)
            Forker.cpu += cpu
            os.close(self.fd)
        return self.returncode

    def wait(self, timeout=300):
        if self.poll(timeout) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:                 # not waited for, so that the number is still its own
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


# ---- the process that is forked ------------------------------------------------------------------

def serve():
    """Starts processes and answers how they ended.  Returns in a forked one, what it has to run; None at the end."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "pid" in asked:
            _, status, used = os.wait4(asked["pid"], 0)
            answer = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        else:
            answer = os.fork()
            if answer == 0:
                return asked
        print(json.dumps(answer), flush=True)
    return None


def become(argv, env, cwd, files):
    for fd, path in enumerate(files, 1):
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644), fd)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[:] = argv if argv[0] not in ("-c", "-m") else [argv[0], *argv[2:]]
    sys.path[0] = str(Path(argv[0]).resolve().parent) if argv[0] not in ("-c", "-m") else ""
    if argv[0] == "-m":
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        return
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if argv[0] != "-c":
        main.__file__ = argv[0]
    exec(compile(argv[1] if argv[0] == "-c" else Path(argv[0]).read_text(), "<string>" if argv[0] == "-c" else argv[0], "exec"),
         main.__dict__)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
    import huge_pages
    sys.path.pop()
    huge_pages.gather()
    if (mine := serve()) is not None:
        become(**mine)
