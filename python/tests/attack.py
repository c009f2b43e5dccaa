# SPDX-License-Identifier: Apache-2.0
"""Cases that are tried in another process, with limits on time and memory: a crash, a hang or gigabytes there are
a failure here.  For test_attack_arguments.py and test_attack_states.py.

A case is a text of Python that is run after `PRELUDE`; what it raises is told by the name of its class.
"""

import io
import json
import os
import selectors
import subprocess
import sys

import numpy as np
from conftest import jpeg, picture, write_tar

import stoker

SECONDS = 30                    # a case; the slowest take well under one on a machine at rest
MEMORY = 1 << 30                # resident, of the whole process
EXAMPLES = int(os.environ.get("STOKER_ATTACKS", "150"))
SEED = int(os.environ.get("STOKER_SEED", "0"))

_CHILD = """
import json, resource, sys
sys.modules["torch"] = None
resource.setrlimit(resource.RLIMIT_DATA, (6 << 30, 6 << 30))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import stoker
space = {}
for line in sys.stdin:
    code, prelude = json.loads(line)
    told = {"error": None}
    try:
        if prelude:
            space = {}
        exec(code, space)
    except BaseException as e:
        kinds = [k.__name__ for k in type(e).__mro__]
        told = {"error": type(e).__name__, "kinds": kinds, "text": str(e), "code": getattr(e, "code", None)}
    told["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    print(json.dumps(told), flush=True)
"""


def write_shard(folder, pictures):
    """40 samples: a class, rows of different lengths, and a picture where that is asked for."""
    members = []
    for i in range(40):
        npy = io.BytesIO()
        np.save(npy, np.arange(i % 7 + 1, dtype=np.int32))
        members += [(f"{i:03d}.jpg", jpeg(picture(i, 24, 20)))] if pictures else []
        members += [(f"{i:03d}.cls", str(i % 3).encode()), (f"{i:03d}.npy", npy.getvalue())]
    return str(write_tar(folder / "a.tar", members))


class Victim:
    """A process that tries cases one by one; started again when one ended it."""

    def __init__(self, prelude):
        self.prelude = prelude
        self.process = None

    def _start(self):
        package = os.path.dirname(os.path.dirname(stoker.__file__))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
        self.process = subprocess.Popen([sys.executable, "-c", _CHILD], env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        told = self._ask(self.prelude, True)
        assert told["error"] is None, told

    def _ask(self, code, prelude=False):
        self.process.stdin.write(json.dumps([code, prelude]) + "\n")
        self.process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            ready = selector.select(SECONDS)
        line = self.process.stdout.readline() if ready else None
        if line:
            return json.loads(line)
        self.process.kill()
        code, self.process = self.process.wait(), None
        raise AssertionError("it ended the process: exit " + str(code) if ready else f"no answer in {SECONDS} s")

    def try_case(self, code):
        if self.process is None:
            self._start()
        told = self._ask(code)
        assert told["rss"] < MEMORY, f"it took {told['rss'] >> 20} MB"
        return told

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait(SECONDS)
            self.process.stdout.close()


def check(told, names):
    """Nothing was raised, or an error of ours, or a ValueError or TypeError, in one line that has one of `names`."""
    if told["error"] is None:
        return
    text = told["text"]
    assert {"StokerError", "ValueError", "TypeError"} & set(told["kinds"]), told
    assert told["error"] != "OutOfMemoryError", told
    assert text and "\n" not in text and len(text) < 1000, told
    assert any(name in text for name in names), told
