# SPDX-License-Identifier: Apache-2.0
"""After torchvision's detection reference: pictures of several sizes and a list of target dicts, collated as tuples."""
import torch
from torch import nn
from torch.utils.data import DataLoader


class Boxes(torch.utils.data.Dataset):
    def __getitem__(self, idx):
        height, width = 12 + idx % 4, 10 + idx % 3
        image = torch.rand(3, height, width)
        n = int(torch.randint(0, 4, ()))
        corner = torch.rand(n, 2) * 5
        boxes = torch.cat([corner, corner + 1 + torch.rand(n, 2) * 4], 1)
        target = {"boxes": boxes, "labels": torch.ones((n,), dtype=torch.int64), "image_id": idx, "iscrowd": torch.zeros(n, dtype=torch.uint8),
                  "area": (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])}
        return image, target

    def __len__(self):
        return 12


def collate_fn(batch):
    return tuple(zip(*batch))  # noqa: B905


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.box, self.score = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 4), nn.Linear(8, 2)

    def forward(self, images, targets):
        losses = {"loss_box": 0.0, "loss_class": 0.0}
        for image, target in zip(images, targets):  # noqa: B905
            feature = self.body(image[None]).relu().mean((2, 3))
            found = torch.tensor([int(len(target["boxes"]) > 0)])
            losses["loss_class"] += nn.functional.cross_entropy(self.score(feature), found)
            if len(target["boxes"]):
                losses["loss_box"] += nn.functional.smooth_l1_loss(self.box(feature), target["boxes"].mean(0, keepdim=True))
        return losses


torch.manual_seed(0)
data_loader = DataLoader(Boxes(), batch_size=3, shuffle=True, num_workers=2, collate_fn=collate_fn)
model = Detector()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for images, targets in data_loader:
    images = [image.to("cpu") for image in images]
    targets = [{k: v.to("cpu") if isinstance(v, torch.Tensor) else v for k, v in t.items()} for t in targets]
    losses = sum(model(images, targets).values())
    optimizer.zero_grad()
    losses.backward()
    optimizer.step()
    print([t["image_id"] for t in targets], losses.item().hex())
