# SPDX-License-Identifier: Apache-2.0
"""Ours and Pillow's pixels of the same bytes, for the tests of every decoder."""

import io
import os
import subprocess
import warnings

import numpy as np
from PIL import Image

CLI = os.path.join(os.environ.get("STOKER_BUILD", "build"), "tests", "codec", "decode_cli")


def ours(decoder, data, region=()):
    """Pixels, or the error line."""
    run = subprocess.run([CLI, decoder, *map(str, region)], input=data, capture_output=True, timeout=60)
    if run.returncode == 1:
        return run.stderr.decode()
    assert run.returncode == 0, run.stderr
    head, _, pixels = run.stdout.partition(b"\n")
    w, h = map(int, head.split())
    return np.frombuffer(pixels, np.uint8).reshape(h, w, 3)


def pillow(data):
    """Pixels, or None where Pillow raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        except (OSError, SyntaxError, ValueError, EOFError):
            return None


def same(decoder, data, region=(), note=""):
    """Assert that both decode it, to the same pixels."""
    want = pillow(data)
    assert want is not None, f"{note}: Pillow raises"
    got = ours(decoder, data, region)
    assert not isinstance(got, str), f"{note}: {got}"
    if region:
        x, y, w, h = region
        want = want[y : y + h, x : x + w]
    np.testing.assert_array_equal(got, want, err_msg=note)


def refused(decoder, data, says, note=""):
    """Assert a clean one-line error that begins with `says`."""
    got = ours(decoder, data)
    assert isinstance(got, str), f"{note}: decoded"
    assert got.startswith(says) and got.count("\n") == 1, f"{note}: {got}"
