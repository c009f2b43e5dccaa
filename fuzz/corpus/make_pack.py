#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the seeds of fuzz_pack: notes that `stoker pack` keeps of itself, sound and torn."""

from pathlib import Path

HEAD = '{"fingerprint": "00000000000000ab"}\n'
SEEDS = {
    "sound": HEAD + '{"shard": 0, "size": 1024}\n{"shard": 4, "size": 99}\n',
    "torn": HEAD + '{"shard": 0, "size": 1024}\n{"shard": 1, "si',
    "other": HEAD.replace("ab", "ac") + '{"shard": 0, "size": 1024}\n',
    "beyond": HEAD + '{"shard": 5, "size": 1}\n{"shard": 18446744073709551615, "size": 1}\n',
    "nonsense": "[]\n\n{\n",
    "empty": "",
}

if __name__ == "__main__":
    folder = Path(__file__).parent / "pack"
    folder.mkdir(exist_ok=True)
    for name, text in SEEDS.items():
        (folder / name).write_text(text)
