# SPDX-License-Identifier: Apache-2.0
"""Training scripts as people write them (scripts/): with Stoker's DataLoader imported in place of torch's, the same losses to the bit."""

import json
import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
RUN = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import both
both.main("found.json")
"""


def test_scripts_have_the_same_losses(new_lives):
    new_lives.run(RUN, [(1, None)])
    found = json.loads((new_lives.folder / "found.json").read_text())
    if not found:
        pytest.skip("without torch: `make setup` installs it (TORCH=0 leaves it out)")
    assert set(found) == {path.stem for path in (HERE / "scripts").glob("*.py")} and len(found) > 20
    missing = {name: runs[0]["missing"] for name, runs in found.items() if "missing" in runs[0]}
    wrong = []
    for name in found.keys() - missing.keys():
        torchs, ours = found[name]
        assert not torchs["error"], f"{name} with torch:\n{torchs['error']}"
        losses = re.findall(r"-?0x[01]\.[0-9a-f]+p[+-]\d+", "\n".join(torchs["losses"]))
        assert len(set(losses)) >= 3, f"{name} prints {losses}"
        assert torchs.pop("loops") == 0 and ours.pop("loops") > 0, f"{name}: not Stoker's loader"
        wrong += [f"{name}, {what}: torch {torchs[what]}, stoker {ours[what]}" for what in torchs if torchs[what] != ours[what]]
    assert not wrong, "\n".join(sorted(wrong))
    if missing:
        pytest.skip(f"equal, but for what is not installed: {missing}")
