# SPDX-License-Identifier: Apache-2.0
"""Train on several ranks and go on after a kill, with any number of ranks.

    torchrun --nproc-per-node 2 ddp_resume.py photos checkpoint.pt [epochs] [stop after so many steps]

Every rank saves nothing of its own: the state is the same on all of them.
"""
import os
import sys

import stoker
import torch
from torch.nn.parallel import DistributedDataParallel

data, path = sys.argv[1:3]
epochs = int(sys.argv[3]) if len(sys.argv) > 3 else 2
stop = int(sys.argv[4]) if len(sys.argv) > 4 else -1
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loader = stoker.Loader(data, global_batch_size=16, shuffle=True, seed=1, fields={
    "image": "image | random_resized_crop(32) | hflip | normalize(imagenet) | to(f32)", "label": "from(cls) | int"})
loader.ledger(path + ".ledger")                 # what was handed out, over all lives of the run
if os.path.exists(path):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    loader.load_state_dict(saved["loader"])
    print(f"rank {rank}: {loader}", flush=True)
steps = 0
while loader.epoch < epochs:
    for images, labels in loader.as_tuples("image", "label"):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict()}
        if rank == 0:
            torch.save(state, path + ".new")
            os.replace(path + ".new", path)
        torch.distributed.barrier()
        steps += 1
        if steps == stop:
            os._exit(9)                         # as a kill would
print(f"rank {rank}: epoch {loader.epoch}, {steps} steps", flush=True)
torch.distributed.destroy_process_group()
