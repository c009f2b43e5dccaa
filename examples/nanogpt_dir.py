# SPDX-License-Identifier: Apache-2.0
"""Load a nanoGPT data directory (train.bin, val.bin, perhaps meta.pkl) as it is.

python nanogpt_dir.py data/shakespeare_char

get_batch() of nanoGPT's train.py becomes `next(batches)`: random windows, targets one token later,
made ahead by threads; and the loader's state_dict() resumes a run where it stood.
"""
import pathlib
import sys

import stoker


def batches(path: pathlib.Path, block: int, batch: int, seed: int = 1337):
    """Endless (x, y), as get_batch() gives them."""
    loader = stoker.Loader(path, batch_size=batch, seed=seed, drop_last=True, fields={
        "x": f"tokens(block={block}, random=true)",
        "y": f"tokens(block={block}, random=true, shift=1)"})
    while True:
        for b in loader:
            yield b["x"], b["y"]


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    block, batch = 256, 64
    for split in ("train", "val"):
        tokens = stoker.open(folder / f"{split}.bin")
        x, y = next(batches(folder / f"{split}.bin", block, min(batch, len(tokens) // block)))
        assert (x[:, 1:] == y[:, :-1]).all()
        print(f"{split}: {len(tokens):,} tokens, batches of {tuple(x.shape)} {x.dtype}, largest token {int(x.max())}")


if __name__ == "__main__":
    main()
