# SPDX-License-Identifier: Apache-2.0
"""Accelerate: the model is prepared, the loader is not, since it knows its rank: accelerate launch accelerate_train.py photos"""
import sys

import stoker
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
loader = stoker.Loader(sys.argv[1], batch_size=16, shuffle=True, rank=accelerator.process_index, world_size=accelerator.num_processes, fields={
    "image": "image | random_resized_crop(32) | hflip | normalize(imagenet) | to(f32)", "label": "from(cls) | int"})
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 2))
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
accelerator.register_for_checkpointing(loader)
for images, labels in loader.as_tuples("image", "label"):
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
accelerator.save_state(sys.argv[2] if len(sys.argv) > 2 else "checkpoint")
print(f"{loader}: loss {loss.item():.3f}")
