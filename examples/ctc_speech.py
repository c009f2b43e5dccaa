# SPDX-License-Identifier: Apache-2.0
"""Speech to letters: a small network trained by CTC on digits that espeak-ng speaks.  python ctc_speech.py [SHARDS] [EPOCHS]

SHARDS have members wav and txt.  Where there are none, 160 utterances are made first (Debian: apt install espeak-ng).
"""
import io
import random
import subprocess
import sys
import tarfile
from pathlib import Path

import stoker
import torch
from torch import nn

WORDS = "zero one two three four five six seven eight nine".split()
LETTERS = " " + "".join(sorted(set("".join(WORDS))))           # class 0 is CTC's blank, 1 the space


def speak(path, n=160):
    """Two or three digits each, by six voices at several speeds."""
    draw = random.Random(7)
    with tarfile.open(path, "w") as tar:
        for i in range(n):
            text = " ".join(draw.choices(WORDS, k=draw.choice((2, 3))))
            voice = f"en+{draw.choice('mf')}{draw.randrange(1, 4)}"
            wav = subprocess.run(["espeak-ng", "-v", voice, "-s", str(draw.randrange(140, 190)), "--stdout", text], check=True, capture_output=True).stdout
            for name, data in ((f"{i:04}.wav", wav), (f"{i:04}.txt", text.encode())):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.halve = nn.Sequential(nn.Conv1d(40, 96, 5, 2, 2), nn.ReLU())       # two frames become one
        self.listen = nn.GRU(96, 96, bidirectional=True, batch_first=True)
        self.spell = nn.Linear(192, 1 + len(LETTERS))

    def forward(self, frames):
        return self.spell(self.listen(self.halve(frames.transpose(1, 2)).transpose(1, 2))[0]).log_softmax(-1)


def main(shards="digits.tar", epochs=20):
    if not Path(shards).exists():
        speak(shards)
    loader = stoker.Loader(shards, {
        "audio": "from(wav) | sound(rate=16000) | speed(0.9, 1.1) | fbank(40) | spec_augment(time=10, freq=5) | to(f32)",
        "text": "from(txt) | text"}, max_seconds=24, collate="pad", shuffle=True, seed=3)
    torch.manual_seed(0)
    model, loss_of = Listener(), nn.CTCLoss(zero_infinity=True)
    train = torch.optim.Adam(model.parameters(), 3e-3)
    for epoch in range(int(epochs)):
        total = 0.0
        for batch in loader:
            frames, lengths = batch["audio"], batch.lengths["audio"][:, 0]      # (rows, frames, 40), and frames of each row
            texts = [[1 + LETTERS.index(c) for c in text] for text in batch["text"]]
            loss = loss_of(model((frames + 8) / 5).transpose(0, 1), torch.tensor(sum(texts, [])), (lengths + 1) // 2,
                           torch.tensor([len(t) for t in texts]))
            train.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            train.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}")
    found = model((frames[:1, :lengths[0]] + 8) / 5).argmax(-1)[0].unique_consecutive()
    print(f"'{batch['text'][0]}' is heard as '{''.join(LETTERS[k - 1] for k in found if k)}'")


if __name__ == "__main__":
    main(*sys.argv[1:])
