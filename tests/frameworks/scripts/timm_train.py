# SPDX-License-Identifier: Apache-2.0
"""After timm's train.py: an image folder, RandAugment and random erasing in workers, repeated augmentation, fast_collate, Mixup."""
import random
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from timm.data import Mixup, create_dataset, create_transform
from timm.data.distributed_sampler import RepeatAugSampler
from timm.data.loader import fast_collate
from timm.loss import SoftTargetCrossEntropy
from torch.utils.data import DataLoader


def write_pictures(root):
    draw = np.random.RandomState(0)
    for i in range(18):
        folder = Path(root, f"class{i % 3}")
        folder.mkdir(exist_ok=True)
        Image.fromarray(draw.randint(0, 256, (30, 36, 3), np.uint8)).save(folder / f"{i}.png")


def worker_init(worker_id):
    info = torch.utils.data.get_worker_info()
    np.random.seed(info.seed % (2**32 - 1))
    random.seed(info.seed)


def main():
    torch.manual_seed(42)
    np.random.seed(42)
    random.seed(42)
    with tempfile.TemporaryDirectory() as root:
        write_pictures(root)
        dataset = create_dataset("", root=root, split="train", is_training=True)
        dataset.transform = create_transform(24, is_training=True, auto_augment="rand-m9-mstd0.5-inc1", re_prob=0.3, use_prefetcher=True)
        sampler = RepeatAugSampler(dataset, num_replicas=1, rank=0, num_repeats=3, selected_round=1)
        loader = DataLoader(dataset, batch_size=6, shuffle=False, sampler=sampler, num_workers=2, collate_fn=fast_collate, drop_last=True,
                            worker_init_fn=worker_init, persistent_workers=True)
        mixup = Mixup(mixup_alpha=0.2, cutmix_alpha=1.0, num_classes=3)
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, 3), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(8 * 49, 3))
        optimizer, criterion = torch.optim.AdamW(model.parameters(), 1e-3), SoftTargetCrossEntropy()
        for epoch in range(2):
            sampler.set_epoch(epoch)
            for image, target in loader:
                image, target = mixup(image.float().sub_(128).div_(64), target)
                loss = criterion(model(image), target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(epoch, loss.item().hex())


if __name__ == "__main__":
    main()
