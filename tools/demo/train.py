# SPDX-License-Identifier: Apache-2.0
"""One minute of training, fed by PyTorch's DataLoader with Pillow and then by Stoker.

Both sides see the same photos, the same transforms (torchvision's RandomResizedCrop, flip and normalize,
written out here since torchvision is not needed otherwise), the same model from the same first
weights, the same number of steps and of threads for the model, and are scored on the same held-out
pictures.  Only who brings the batches differs.
"""

import math
import os
import time
from dataclasses import dataclass

import numpy as np
import stoker
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

from bar import Bar

SIZE, BATCH, CLASSES = 96, 32, 8
SECONDS = 28                    # for the slower side; the other takes the same number of steps
WORKERS = (1, 2)                # num_workers to choose from
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
FIELDS = {
    "image": f"from(jpg) | image | random_resized_crop({SIZE}) | hflip | normalize(imagenet)"
             " | to(f32)",
    "label": "from(cls) | int",
}


# ---- the DataLoader's side -----------------------------------------------------------------------

def uniform(low, high):
    return low + (high - low) * torch.rand(()).item()


def crop_box(width, height, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)):
    """A random box by torchvision's definition: ten tries, then the center."""
    for _ in range(10):
        area = width * height * uniform(*scale)
        aspect = math.exp(uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            x = torch.randint(0, width - w + 1, ()).item()
            y = torch.randint(0, height - h + 1, ()).item()
            return x, y, x + w, y + h
    w, h = min(width, round(height * ratio[1])), min(height, round(width / ratio[0]))
    x, y = (width - w) // 2, (height - h) // 2
    return x, y, x + w, y + h


def to_tensor(image):
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    return (pixels.float() / 255 - MEAN) / STD


class Photos(Dataset):
    def __init__(self, photos):
        self.photos = photos

    def __len__(self):
        return len(self.photos)

    def __getitem__(self, i):
        path, label = self.photos[i]
        with Image.open(path) as file:
            image = file.convert("RGB")
        image = image.crop(crop_box(*image.size)).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        if torch.rand(()).item() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return to_tensor(image), label


def torch_batches(photos, workers):
    torch.manual_seed(0)
    loader = DataLoader(Photos(photos), batch_size=BATCH, shuffle=True, drop_last=True,
                        num_workers=workers, persistent_workers=True)
    while True:
        yield from loader


def stoker_batches(shards):
    with stoker.Loader(shards, fields=FIELDS, batch_size=BATCH, shuffle=True, drop_last=True,
                       seed=0) as loader:
        while True:
            for batch in loader:
                yield batch["image"], batch["label"]


def held_out(photos):
    """The middle of each held-out picture, decoded by Pillow for both sides."""
    images = []
    for path, _ in photos:
        with Image.open(path) as file:
            image = file.convert("RGB")
        side = min(image.size)
        x, y = (image.width - side) // 2, (image.height - side) // 2
        images.append(to_tensor(image.crop((x, y, x + side, y + side)).resize(
            (SIZE, SIZE), Image.Resampling.BILINEAR)))
    return torch.stack(images), torch.tensor([label for _, label in photos])


# ---- the model -----------------------------------------------------------------------------------

def make_model():
    torch.manual_seed(1)
    layers, channels = [], 3
    for width in (12, 24, 48, 48):
        layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1, bias=False),
                   nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


@dataclass
class Result:
    name: str
    step: float                 # seconds
    waiting: float              # share of it
    accuracy: float
    first: float                # seconds to the first batch

    def __str__(self):
        return (f"   {self.name:<30}{self.step * 1e3:>9.1f} ms{self.waiting:>10.1%}"
                f"{self.accuracy:>10.1%}{self.first * 1e3:>12.0f} ms")


def train(name, batches, steps, test):
    """Train for `steps` steps after the first, which is not timed: it starts workers."""
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps + 1)
    bar, waited, start = Bar(name, steps), 0.0, time.perf_counter()
    first = begin = None
    for i in range(steps + 1):
        asked = time.perf_counter()
        images, labels = next(batches)
        waited += time.perf_counter() - asked
        first = first or time.perf_counter() - start
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if i == 0:
            begin, waited = time.perf_counter(), 0.0
        bar.update(i, f"loss {loss.item():.2f}")
    seconds = time.perf_counter() - begin
    bar.close()
    batches.close()
    model.eval()
    with torch.no_grad():
        accuracy = (model(test[0]).argmax(1) == test[1]).float().mean().item()
    return Result(name, seconds / steps, waited / seconds, accuracy, first)


def steps_per_second(photos, workers, test, steps=12):
    return 1 / train(f"trying num_workers={workers}", torch_batches(photos, workers), steps, test).step


def compare(train_photos, test_photos, shards):
    # The model gets half of the cores on both sides; the rest brings the data.
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // 2))
    test = held_out(test_photos)
    rates = {w: steps_per_second(train_photos, w, test) for w in WORKERS}
    workers = max(rates, key=rates.get)
    steps = max(20, int(SECONDS * rates[workers]))
    print(f"   {steps} steps of {BATCH} pictures of {SIZE}x{SIZE}; DataLoader's best num_workers of "
          f"{', '.join(map(str, WORKERS))} is {workers}")
    print(f"   {'':<30}{'step':>12}{'waiting':>10}{'accuracy':>10}{'first batch':>15}")
    name = f"DataLoader + Pillow, {workers} workers"
    before = train(name, torch_batches(train_photos, workers), steps, test)
    print(before, flush=True)
    after = train("Stoker", stoker_batches(shards), steps, test)
    print(after)
    print(f"   Stoker's step takes {after.step / before.step:.2f} of the time; accuracies differ by "
          f"{abs(after.accuracy - before.accuracy):.1%} (noise of {len(test_photos)} pictures: "
          f"{accuracy_noise(before.accuracy, after.accuracy, len(test_photos)):.1%})")


def accuracy_noise(a, b, n):
    """Two standard deviations of the difference of two accuracies over n pictures."""
    p = min(max((a + b) / 2, 1 / n), 1 - 1 / n)
    return 2 * math.sqrt(2 * p * (1 - p) / n)
