# SPDX-License-Identifier: Apache-2.0
"""Seven runs, one of each variant and one under torchrun, that are killed and resumed on 4, 3, 5 and 1 ranks; `make soak` has two hundred."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import killed  # noqa: E402

if not killed.CLI.exists():
    pytest.skip(f"{killed.CLI} is not built", allow_module_level=True)

SEED = 20
NAMES = sorted(killed.VARIANTS)
settings = {}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("killed")


def setting(variant, folder):
    if variant not in settings:
        settings[variant] = killed.Setting(variant, folder / "data")
    return settings[variant]


@pytest.mark.parametrize("seed", range(SEED, SEED + len(NAMES)))
def test_ranks_by_environment(seed, folder):
    variant = NAMES[seed % len(NAMES)]
    print(f"seed {seed}, {variant}")
    assert killed.run(setting(variant, folder), seed, folder / f"run-{seed}") >= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed, lives", [(SEED + 8, 2)])
def test_torchrun_and_gloo(seed, lives, folder):
    """Of the others `make soak` has all under torchrun: each rank of each life imports torch."""
    pytest.importorskip("torch.distributed")
    variant = NAMES[seed % len(NAMES)]
    print(f"seed {seed}, {variant}")
    assert killed.run(setting(variant, folder), seed, folder / f"run-{seed}", lives) >= 1


def test_what_is_wrong_is_found(folder):
    """The checks themselves: a sample too many, a sample less, other pixels."""
    good = setting("plain", folder)
    done = folder / f"run-{next(s for s in range(SEED, SEED + len(NAMES)) if NAMES[s % len(NAMES)] == 'plain')}"
    if not done.exists():
        pytest.skip("needs a run before it")
    killed.check_ledger(good, done)
    newest = max((done / "ledger").glob("*.stkl"), key=lambda p: p.stat().st_mtime_ns)
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-8])              # its last step is torn now
    with pytest.raises(AssertionError):
        killed.check_ledger(good, done)
    newest.write_bytes(whole)
    pixels = done / "pixels-3-0"
    text = pixels.read_text()
    pixels.write_text(text[:-4] + "xyz\n")
    with pytest.raises(AssertionError, match="other pixels"):
        killed.check_pixels(good, done)
    pixels.write_text(text)
    killed.check_pixels(good, done)
