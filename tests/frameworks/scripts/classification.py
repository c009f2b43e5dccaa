# SPDX-License-Identifier: Apache-2.0
"""After torchvision's references/classification/train.py: pictures, transforms with draws in the workers, SGD, an evaluation."""
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader
from torchvision.transforms import v2 as T


class Pictures(torch.utils.data.Dataset):
    def __init__(self, count, transform):
        self.pixels = np.random.RandomState(0).randint(0, 256, (count, 20, 24, 3), np.uint8)
        self.transform = transform

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, i):
        return self.transform(Image.fromarray(self.pixels[i])), i % 5


def train_one_epoch(model, criterion, optimizer, data_loader, epoch):
    model.train()
    for i, (image, target) in enumerate(data_loader):
        loss = criterion(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(epoch, i, loss.item().hex())


def evaluate(model, criterion, data_loader):
    model.eval()
    total = 0.0
    with torch.inference_mode():
        for image, target in data_loader:
            total += criterion(model(image), target).item() * image.shape[0]
    print("test", (total / len(data_loader.dataset)).hex())


def main():
    torch.manual_seed(1)
    to_float = [T.PILToTensor(), T.ToDtype(torch.float, scale=True), T.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))]
    dataset = Pictures(26, T.Compose([T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.ColorJitter(0.4), *to_float]))
    dataset_test = Pictures(10, T.Compose([T.Resize(16), T.CenterCrop(16), *to_float]))
    data_loader = DataLoader(dataset, batch_size=8, sampler=torch.utils.data.RandomSampler(dataset), num_workers=2, pin_memory=True)
    data_loader_test = DataLoader(dataset_test, batch_size=4, sampler=torch.utils.data.SequentialSampler(dataset_test), num_workers=1)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for epoch in range(2):
        train_one_epoch(model, criterion, optimizer, data_loader, epoch)
        evaluate(model, criterion, data_loader_test)


if __name__ == "__main__":
    main()
