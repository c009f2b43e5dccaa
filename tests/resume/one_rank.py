# SPDX-License-Identifier: Apache-2.0
"""One rank of a made-up training run: one_rank.py PLAN.json.  killed.py starts it, and kills it.

Every step it takes a batch, writes a line for each valid row (epoch, id, hash of its pixels), meets the
other ranks, and now and then rank 0 keeps a checkpoint.  Ranks come from torchrun (then they meet by
gloo), or from RANK and WORLD_SIZE alone (then by counters in a shared file; torch is not imported).
"""

import json
import mmap
import os
import struct
import sys
import time
from pathlib import Path

SLOT = struct.Struct("<QQ")     # pid, steps taken
PATIENCE = 300


class Counters:
    """pid and steps of every rank in a file that all of them map: how ranks meet, and how killed.py
    knows whom to kill and when."""

    def __init__(self, path, ranks):
        size = ranks * SLOT.size
        with open(path, "r+b" if os.path.exists(path) else "w+b") as file:
            file.truncate(size)
            self.map = mmap.mmap(file.fileno(), size)
        self.ranks = ranks

    def put(self, rank, steps):
        SLOT.pack_into(self.map, rank * SLOT.size, os.getpid(), steps)

    def get(self):
        return [SLOT.unpack_from(self.map, rank * SLOT.size) for rank in range(self.ranks)]

    def meet(self, steps):
        parent, end = os.getppid(), time.monotonic() + PATIENCE
        while any(taken < steps for _, taken in self.get()):
            if os.getppid() != parent or time.monotonic() > end:
                sys.exit("the other ranks are gone")
            time.sleep(0.0005)


def keep(path, state):
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(state))
    os.replace(fresh, path)


def pixels_of(batch, row):
    value = batch["image"][row]
    return bytes(value.numpy() if hasattr(value, "numpy") else value)


def open_loader(plan, **options):
    import stoker
    data = plan["data"] if isinstance(plan["data"], str) else stoker.mix(plan["data"])
    return stoker.Loader(data, {"image": plan["chain"]}, **plan["loader"], **options)


def lines_of(batch, epoch):
    from hashlib import blake2b
    for row, (number, valid) in enumerate(zip(batch.sample_ids, batch.valid, strict=True)):
        if valid:
            yield f"{epoch} {int(number)} {blake2b(pixels_of(batch, row), digest_size=8).hexdigest()}\n"


def train(plan, rank, world, meet, counters):
    loader = open_loader(plan, **plan["life"])
    checkpoint = Path(plan["checkpoint"])
    if checkpoint.exists():
        loader.load_state_dict(json.loads(checkpoint.read_text()))
    loader.ledger(plan["ledger"])
    steps = 0
    with open(f"{plan['pixels']}-{rank}", "a", buffering=1) as told:
        while (epoch := loader.epoch) < plan["epochs"]:
            for batch in loader:
                told.write("".join(lines_of(batch, epoch)))
                time.sleep(plan["pause"])
                steps += 1
                counters.put(rank, steps)
                meet(steps)
                if rank == 0 and steps % plan["every"] == 0:
                    keep(checkpoint, loader.state_dict())
                if steps == plan["waits_at"]:
                    time.sleep(PATIENCE)        # killed.py is late: the machine is busy


def main():
    plan = json.loads(Path(sys.argv[1]).read_text())
    if plan["torchrun"]:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        rank, world = dist.get_rank(), dist.get_world_size()
        counters = Counters(plan["counters"], world)
        train(plan, rank, world, lambda steps: dist.barrier(), counters)
        dist.destroy_process_group()
    else:
        sys.modules["torch"] = None
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        counters = Counters(plan["counters"], world)
        train(plan, rank, world, counters.meet, counters)
    Path(f"{plan['counters']}-{rank}-done").touch()


if __name__ == "__main__":
    main()
