# SPDX-License-Identifier: Apache-2.0
"""A Trainer of transformers with a collator that pads and masks at random, and a loader of one's own."""
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed


class Lines(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        return {"input_ids": [2 + (i * 7 + j) % 28 for j in range(4 + i % 5)], "name": f"line {i}"}


class MaskingCollator:
    def __call__(self, features):
        ids = nn.utils.rnn.pad_sequence([torch.tensor(f["input_ids"]) for f in features], batch_first=True)
        masked = torch.bernoulli(torch.full(ids.shape, 0.3)).bool() & (ids != 0)
        labels = ids.masked_fill(~masked, -100)
        labels[:, 0] = ids[:, 0]
        return {"input_ids": ids.masked_fill(masked, 1), "labels": labels}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Embedding(30, 16), nn.Linear(16, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 30))

    def forward(self, input_ids, labels):
        logits = self.net(input_ids)
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


class MyTrainer(Trainer):
    def get_train_dataloader(self):
        loader = DataLoader(self.train_dataset, batch_size=self.args.train_batch_size, sampler=self._get_train_sampler(),
                            collate_fn=self.data_collator, num_workers=self.args.dataloader_num_workers)
        return self.accelerator.prepare(loader)


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            print(state.global_step, float(logs["loss"]).hex(), float(logs["grad_norm"]).hex())


set_seed(3)
with tempfile.TemporaryDirectory() as out:
    arguments = TrainingArguments(out, max_steps=5, per_device_train_batch_size=6, learning_rate=0.05, logging_steps=1, use_cpu=True,
                                  save_strategy="no", report_to=[], disable_tqdm=True, remove_unused_columns=False,
                                  dataloader_num_workers=2, seed=3)
    MyTrainer(Model(), arguments, data_collator=MaskingCollator(), train_dataset=Lines(), callbacks=[PrintLoss()]).train()
