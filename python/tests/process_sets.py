# SPDX-License-Identifier: Apache-2.0
"""Data sets that look at what multiprocessing makes of their worker, or share something of it with the parent.  Fresh processes
import this module, and not pytest's."""

import ctypes
import multiprocessing
import os
import random
import signal
import sys
import time
from multiprocessing import util

N = 24


class Shared:
    """A manager's dict that the parent has used: each process needs a connection of its own."""

    def __init__(self, manager, n=300):
        self.n, self.table = n, manager.dict()
        self.table["parent"] = 1

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        self.table[i] = i * i
        return self.table[i]


class Facts:
    def __len__(self):
        return N

    def __getitem__(self, i):
        me, parent = multiprocessing.current_process(), multiprocessing.parent_process()
        return i, me.name, me.daemon, parent.name, parent.pid, parent.is_alive(), sys.stdin.read(), str(me._identity), multiprocessing.get_start_method()


class Exiting:
    """exit() of its process, where C++ takes apart what is static, would end it by SIGABRT."""

    def __len__(self):
        return N

    def __getitem__(self, i):
        libc = ctypes.CDLL(None)
        libc["__cxa_atexit"](ctypes.cast(libc.abort, ctypes.c_void_p), None, None)
        return i


class Telling:
    """Its last samples put much into a queue, count, and leave a file when their process ends."""

    def __init__(self, context, folder, many):
        self.queue, self.count, self.folder, self.many = context.Queue(), context.Value("q", 0), str(folder), many

    def __len__(self):
        return N

    def __getitem__(self, i):
        with self.count.get_lock():
            self.count.value += i
        if i >= N - 2:
            util.Finalize(None, self.leave, exitpriority=10)
            for k in range(self.many):
                self.queue.put((i, k, "x" * 100))
        return i

    def leave(self):
        with open(os.path.join(self.folder, str(os.getpid())), "w") as file:
            file.write("left")


class Drawn:
    """Draws of worker 1 come late, and those of worker 0 once `gate` exists."""

    def __init__(self, gate):
        self.gate = str(gate)

    def __len__(self):
        return 8

    def __getitem__(self, i):
        while i >= 4 and not os.path.exists(self.gate):
            time.sleep(0.01)
        return i, random.random()


class Locking:
    """Its first sample holds a lock of all processes for a while."""

    def __init__(self, lock, entered):
        self.lock, self.entered = lock, entered

    def __len__(self):
        return 4

    def __getitem__(self, i):
        if i == 1:
            with self.lock:
                self.entered.set()
                time.sleep(0.6)
        return i


def by_signal(pid):
    os.kill(pid, signal.SIGKILL)
