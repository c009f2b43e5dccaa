# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Trainer with a loader in place of its DataLoader: python hf_trainer.py photos OUTPUT"""
import sys

import stoker
import torch
from transformers import Trainer, TrainingArguments


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 2))

    def forward(self, image, labels):
        logits = self.net(image)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


loader = stoker.Loader(sys.argv[1], batch_size=16, shuffle=True, fields={
    "image": "image | random_resized_crop(32) | hflip | normalize(imagenet) | to(f32)", "labels": "from(cls) | int"})


class StokerTrainer(Trainer):
    def get_train_dataloader(self):
        return loader


args = TrainingArguments(sys.argv[2], num_train_epochs=2, per_device_train_batch_size=16, use_cpu=True, report_to=[], save_strategy="no",
                         logging_strategy="no", disable_tqdm=True)
trainer = StokerTrainer(Model(), args, train_dataset=loader.dataset)
trainer.train()
print(f"{trainer.state.global_step} steps; {loader}")
