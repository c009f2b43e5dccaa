# SPDX-License-Identifier: Apache-2.0
"""Runs pieces of Python as `python -c` does, each in a process forked from one that has imported torch: that import takes longer
than most pieces.

Each line of its input is a piece: its code, folder and environment, and a file for what it says.  It answers each with its status.
"""

import contextlib
import json
import os
import sys
import traceback
import types


def run(code, folder, env, said):
    """Never returns."""
    status = 1
    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(env)
        os.dup2(os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644), 1)
        os.dup2(1, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv, sys.path[0] = ["-c"], ""
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), main.__dict__)
        status = 0
    except SystemExit as e:
        status = e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main():
    with contextlib.suppress(ImportError):
        import torch.utils.data  # noqa: F401
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            run(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
