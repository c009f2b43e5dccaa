# SPDX-License-Identifier: Apache-2.0
"""A LightningModule and a LightningDataModule, with validation and shuffled batches from workers."""
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset


class Images(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return torch.rand(1, 8, 8) + (i % 3) / 3, i % 3


class Data(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Images(24), batch_size=6, shuffle=True, num_workers=2, persistent_workers=True)

    def val_dataloader(self):
        return DataLoader(Images(8), batch_size=4, num_workers=1)


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))

    def training_step(self, batch, batch_idx):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        print(self.current_epoch, batch_idx, loss.item().hex())
        return loss

    def validation_step(self, batch, batch_idx):
        print("val", nn.functional.cross_entropy(self.net(batch[0]), batch[1]).item().hex())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-2)


L.seed_everything(5, workers=True, verbose=False)
trainer = L.Trainer(max_epochs=2, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False)
trainer.fit(Classifier(), datamodule=Data())
