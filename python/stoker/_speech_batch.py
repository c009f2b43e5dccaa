# SPDX-License-Identifier: Apache-2.0
"""Batches of speech as the trainers of icefall (k2) and of NeMo take them."""

from __future__ import annotations

from typing import Any

from .batch import Batch
from .errors import invalid, shown


def k2_batch(batch: Batch, audio: str = "audio", text: str = "text") -> dict[str, Any]:
    """A batch as lhotse's K2SpeechRecognitionDataset answers it.

        for batch in map(stoker.k2_batch, loader):
            batch["inputs"]                                 # (rows, frames, bins), or (rows, samples)
            batch["supervisions"]["num_frames"]             # of samples: num_samples, start_sample

    audio, text: the outputs; the loader has collate="pad". Rows that stand in for bad ones are left out.
    """
    inputs, lengths, texts = _parts(batch, audio, text)
    unit = "frame" if inputs.ndim == 3 else "sample"
    said = {"text": [_text(t) for t in texts], "sequence_idx": _counted(lengths), f"start_{unit}": lengths * 0,
            f"num_{unit}s": lengths}
    return {"inputs": inputs, "supervisions": said}


def nemo_batch(batch: Batch, audio: str = "audio", tokens: str = "tokens") -> tuple[Any, Any, Any, Any]:
    """A batch as NeMo's models of speech to text take it: audio, its lengths, tokens, their lengths.

        for audio, audio_len, tokens, tokens_len in map(stoker.nemo_batch, loader): ...

    audio, tokens: the outputs, tokens of whole numbers; the loader has collate="pad". Rows that stand in for bad ones are left
    out.
    """
    inputs, lengths, numbers = _parts(batch, audio, tokens)
    if tokens not in batch.lengths:
        invalid(f"nemo_batch: {shown(tokens)} has no lengths: give tokens as whole numbers, and collate=\"pad\"")
    return inputs, lengths, numbers, batch.only_valid().lengths[tokens]


def _parts(batch: Batch, audio: str, other: str) -> tuple[Any, Any, Any]:
    rows = batch.only_valid()
    for name in (audio, other):
        if name not in rows:
            invalid(f"there is no output {shown(name)}: the outputs are {', '.join(map(str, rows))}")
    if audio not in rows.lengths:
        invalid(f"{shown(audio)} has no lengths: its rows are padded by collate=\"pad\"")
    lengths = rows.lengths[audio]
    return rows[audio], lengths if lengths.ndim == 1 else lengths[:, 0], rows[other]


def _counted(lengths: Any) -> Any:
    """0, 1, 2, ... of the lengths' type and place."""
    return (lengths * 0 + 1).cumsum(0) - 1


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else bytes(value).decode()
