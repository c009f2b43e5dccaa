# SPDX-License-Identifier: Apache-2.0
"""Speech: waves and transcripts of any length, padded in a collate_fn that also draws a mask, with CTC loss."""
import random

import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset


class Speech(Dataset):
    def __len__(self):
        return 13

    def __getitem__(self, n):
        length = 40 + 7 * (n % 5)
        wave = torch.sin(torch.arange(length) * (0.1 + n / 50)) + 0.01 * torch.randn(length)
        return wave, 8000, "abcdefgh"[n % 4:n % 4 + 3 + n % 2], n


def collate(batch):
    spectra, labels, frames, sizes = [], [], [], []
    for wave, _, text, _ in batch:
        spectrum = wave.unfold(0, 8, 2).abs().log1p()
        start = random.randrange(len(spectrum) - 4)
        spectrum = spectrum.clone()
        spectrum[start:start + 3] = 0
        label = torch.tensor([1 + ord(c) - ord("a") for c in text])
        spectra.append(spectrum)
        labels.append(label)
        frames.append(len(spectrum))
        sizes.append(len(label))
    return (nn.utils.rnn.pad_sequence(spectra, batch_first=True), nn.utils.rnn.pad_sequence(labels, batch_first=True),
            torch.tensor(frames), torch.tensor(sizes))


torch.manual_seed(7)
random.seed(7)
train_loader = DataLoader(Speech(), batch_size=4, shuffle=True, collate_fn=collate, num_workers=2, timeout=60)
rnn, head = nn.LSTM(8, 16, batch_first=True, bidirectional=True), nn.Linear(32, 9)
optimizer = torch.optim.AdamW([*rnn.parameters(), *head.parameters()], 5e-3)
criterion = nn.CTCLoss(blank=0)
for batch_idx, (spectrograms, labels, input_lengths, label_lengths) in enumerate(train_loader):
    output = head(rnn(spectrograms)[0]).log_softmax(2).transpose(0, 1)
    loss = criterion(output, labels, input_lengths, label_lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(batch_idx, tuple(spectrograms.shape), loss.item().hex())
