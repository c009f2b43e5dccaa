#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write cuts.jsonl.gz and loaded.json beside this script: what lhotse writes of two recordings, and sums of the samples that it loads.

Needs lhotse, soundfile and torch, in an environment of its own:

    python tests/sound/golden/make_lhotse.py
"""

import hashlib
import json
import os
import pathlib
import struct
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[2] / "fuzz" / "corpus"))
from make_sound import wav  # noqa: E402


def recordings():
    """Of one channel and of two, 8 kHz, 1.5 seconds, of whole numbers alone; as WAV files."""
    made = {}
    for name, channels in (("one", 1), ("call", 2)):
        values = [(i * i * 7919 + c * i * 31337 >> 3) % 20000 - 10000 for i in range(12000) for c in range(channels)]
        made[f"{name}.wav"] = wav(struct.pack(f"<{len(values)}h", *values), channels=channels)
    return made


def sum_of(samples):
    """Of float samples that are 16-bit numbers."""
    return hashlib.sha256(np.round(np.asarray(samples) * 32768).astype("<i2").tobytes()).hexdigest()


def main():
    import lhotse
    target = HERE / "cuts.jsonl.gz"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, data in recordings().items():
            pathlib.Path(name).write_bytes(data)
        audio = lhotse.RecordingSet.from_recordings(lhotse.Recording.from_file(name) for name in recordings())
        said = [("one", 0, 0.25, 0.5, "ein Satz – mit Strich"), ("one", 0, 1.0, 0.4, 'a "second"'), ("call", 0, 0.125, 0.75, "hello"),
                ("call", 1, 0.5, 0.875, "hello, who is it?")]
        segments = lhotse.SupervisionSet.from_segments(
            lhotse.SupervisionSegment(id=f"{r}-{i}", recording_id=r, start=start, duration=seconds, channel=c, text=text, speaker=f"{r}{c}", language="en")
            for i, (r, c, start, seconds, text) in enumerate(said))
        cuts = lhotse.CutSet.from_manifests(recordings=audio, supervisions=segments).trim_to_supervisions(keep_overlapping=False).to_eager()
        cuts.to_file(target)
        loaded = [{"id": c.id, "type": type(c).__name__, "channel": c.channel, "text": c.supervisions[0].text, "sum": sum_of(c.load_audio()[0])} for c in cuts]
    (HERE / "loaded.json").write_text(json.dumps({"lhotse": lhotse.__version__, "cuts": loaded}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
