# SPDX-License-Identifier: Apache-2.0
"""Runs training scripts that are killed and started again, and keeps what they trained on.

Called as `lives.py MODULE ..`; each line of its input is a plan: a folder, the script, and for each life
its number of ranks and the training step at which it ends with SIGKILL (null: when the script ends).  It
answers each with one line: "" or what went wrong.  Lives and ranks are forked from this one process, which
has imported the modules, because that is what takes the time.

A step is a call of cross_entropy; its targets are the numbers of the samples (the data is made so).  They
are noted there, and not where batches are handed out, so that a framework which reads ahead of its
training and counts that as trained is caught.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path

sys.path += [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2] / "tools")]
import huge_pages  # noqa: E402
from ports import free_port  # noqa: E402


def record(path, die_at):
    """Note every training step; die as from outside when step number `die_at` is asked for."""
    import torch
    real = torch.nn.functional.cross_entropy
    notes = open(path, "a")
    steps = 0

    def noted(scores, targets, *args, **kwargs):
        nonlocal steps
        if steps == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        steps += 1
        notes.write(json.dumps(targets.tolist()) + "\n")
        notes.flush()
        return real(scores, targets, *args, **kwargs)

    torch.nn.functional.cross_entropy = noted


def live(plan, life, rank, port, gate):
    """One rank of one life, in a process of its own; with torchrun's environment if any has several."""
    status = 1
    signal.alarm(600)               # a rank that hangs ends
    try:
        os.dup2(os.open(f"log-{life}-{rank}", os.O_CREAT | os.O_WRONLY, 0o644), 2)
        os.dup2(2, 1)
        world, die_at = plan["lives"][life]
        if any(w > 1 for w, _ in plan["lives"]):
            os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank),
                           "LOCAL_WORLD_SIZE": str(world), "GROUP_RANK": "0",
                           "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                           "TORCHELASTIC_RUN_ID": "none"}
        record(f"steps-{life}-{rank}", die_at)
        exec(compile(plan["script"], "script", "exec"), {"__name__": "__main__"})
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if rank == 0 and status == 0:
            os.read(gate, 1)        # torch's store is in this process, and the others use it to their end
        os._exit(status)


def run(plan):
    os.chdir(plan["folder"])
    for life, (world, die_at) in enumerate(plan["lives"]):
        port = free_port()
        ranks = []
        gate, others_ended = os.pipe()
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                os.close(others_ended)
                live(plan, life, rank, port, gate)
            ranks.append(pid)
        ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in ranks[1:]]
        os.close(others_ended)
        ends.insert(0, os.waitstatus_to_exitcode(os.waitpid(ranks[0], 0)[1]))
        os.close(gate)
        if any(end != (0 if die_at is None else -signal.SIGKILL) for end in ends):
            return f"life {life} ended with {ends}"
    return ""


def main(modules):
    for name in modules:
        with contextlib.suppress(ImportError):      # its tests are skipped
            importlib.import_module(name)
    huge_pages.gather()
    for line in sys.stdin:
        print(run(json.loads(line)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
