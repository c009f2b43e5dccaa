# SPDX-License-Identifier: Apache-2.0
"""A stream of text files that the workers share out, with a shuffle buffer of its own, cut into blocks."""
import random
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import IterableDataset, get_worker_info


class TextStream(IterableDataset):
    def __init__(self, paths, block=12):
        self.paths, self.block = paths, block

    def lines(self):
        info = get_worker_info()
        mine = self.paths if info is None else self.paths[info.id::info.num_workers]
        for path in mine:
            with open(path, "rb") as file:
                yield from file

    def __iter__(self):
        held, rng = [], random.Random(torch.initial_seed())
        for line in self.lines():
            held.append(line)
            if len(held) == 5:
                yield from self.blocks(held.pop(rng.randrange(5)))
        random.shuffle(held)
        for line in held:
            yield from self.blocks(line)

    def blocks(self, line):
        ids = torch.frombuffer(bytearray(line), dtype=torch.uint8).long()
        for start in range(0, len(ids) - self.block, self.block):
            yield ids[start:start + self.block], ids[start + 1:start + self.block + 1]


torch.manual_seed(21)
with tempfile.TemporaryDirectory() as folder:
    for n in range(5):
        Path(folder, f"{n}.txt").write_text("".join(f"file {n} line {k} says {k * k + n} and {'no' * (k % 7)}more\n" for k in range(8)))
    loader = DataLoader(TextStream(sorted(Path(folder).glob("*.txt"))), batch_size=8, num_workers=2)
    model = nn.Sequential(nn.Embedding(128, 16), nn.Linear(16, 128))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for epoch in range(2):
        for step, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            print(epoch, step, loss.item().hex())
