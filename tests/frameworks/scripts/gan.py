# SPDX-License-Identifier: Apache-2.0
"""A GAN on two domains: two loaders side by side, one of them endless, and noise that is drawn in the loop."""
import torch
from torch import nn
from torch.utils.data import DataLoader


class Domain(torch.utils.data.Dataset):
    def __init__(self, shift, count):
        self.shift, self.count = shift, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return torch.randn(8) * 0.1 + self.shift + i / self.count


def endless(loader):
    while True:
        yield from loader


torch.manual_seed(999)
real_a = DataLoader(Domain(1.0, 20), batch_size=4, shuffle=True, num_workers=1, drop_last=True)
real_b = DataLoader(Domain(-1.0, 10), batch_size=4, shuffle=True, num_workers=2, drop_last=True)
netG = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8))
netD = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
criterion = nn.BCEWithLogitsLoss()
optimizerD, optimizerG = torch.optim.Adam(netD.parameters(), 2e-3, (0.5, 0.999)), torch.optim.Adam(netG.parameters(), 2e-3, (0.5, 0.999))
for i, (a, b) in enumerate(zip(real_a, endless(real_b))):  # noqa: B905
    real_label, fake_label = torch.ones(len(a), 1), torch.zeros(len(a), 1)
    fake = netG(torch.cat([b, torch.randn(len(a), 4)], 1))
    optimizerD.zero_grad()
    errD = criterion(netD(a), real_label) + criterion(netD(fake.detach()), fake_label)
    errD.backward()
    optimizerD.step()
    optimizerG.zero_grad()
    errG = criterion(netD(fake), real_label)
    errG.backward()
    optimizerG.step()
    print(i, errD.item().hex(), errG.item().hex())
