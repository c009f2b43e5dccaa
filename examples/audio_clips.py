# SPDX-License-Identifier: Apache-2.0
"""A Python data set of audio clips: python audio_clips.py FOLDER

Any class with __len__ and __getitem__ gets Stoker's order, ranks, resume and shared memory.  Clips are .wav files of 16 bits; a second is
cut out of each at random, and quiet noise is added: numpy.random is seeded for each sample.
"""
import sys
import wave
from pathlib import Path

import numpy as np
import stoker

SECOND = 8000


class Clips:
    def __init__(self, folder):
        self.files = stoker.SharedList(sorted(str(p) for p in Path(folder).rglob("*.wav")))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        with wave.open(self.files[i]) as clip:
            start = np.random.randint(max(clip.getnframes() - SECOND, 0) + 1)
            clip.setpos(start)
            samples = np.frombuffer(clip.readframes(SECOND), "<i2").astype(np.float32) / 32768
        samples = np.pad(samples, (0, SECOND - len(samples)))
        return {"audio": samples + np.random.randn(SECOND).astype(np.float32) * 1e-3, "label": Path(self.files[i]).parent.name}


if __name__ == "__main__":
    loader = stoker.Loader(Clips(sys.argv[1]), batch_size=8, shuffle=True, seed=1, num_workers=2)
    batches = iter(loader)
    first = next(batches)
    state = loader.state_dict()                 # small; the same on every rank
    rest = [batch["audio"].clone() for batch in batches]
    loader.load_state_dict(state)
    again = [batch["audio"].clone() for batch in loader]
    assert all((a == b).all() for a, b in zip(rest, again, strict=True))
    print(f"{len(loader)} batches of {tuple(first['audio'].shape)}, {sorted(set(first['label']))}; resumed after the first: the same")
