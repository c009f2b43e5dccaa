# SPDX-License-Identifier: Apache-2.0
"""Lightning: a loader goes where a DataLoader goes: python lightning_train.py photos"""
import sys

import lightning
import stoker
import torch


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 2))

    def training_step(self, batch, _):
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


loader = stoker.Loader(sys.argv[1], batch_size=16, shuffle=True, fields={
    "image": "image | random_resized_crop(32) | hflip | normalize(imagenet) | to(f32)", "label": "from(cls) | int"})
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                            enable_model_summary=False, use_distributed_sampler=False)
trainer.fit(Model(), loader.as_tuples("image", "label"))
print(f"{trainer.global_step} steps; {loader}")
