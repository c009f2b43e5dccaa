# SPDX-License-Identifier: Apache-2.0
"""Ours and Pillow's pixels of the same bytes, for the tests of every decoder."""

import atexit
import io
import os
import subprocess
import threading
import warnings

import numpy as np
from PIL import Image

CLI = os.path.join(os.environ.get("STOKER_BUILD", "build"), "tests", "codec", "decode_cli")


decoders = {}


def start(decoder):
    """The process that decodes; one that ended (it crashed) is started again."""
    if decoder not in decoders or decoders[decoder].poll() is not None:
        decoders[decoder] = subprocess.Popen([CLI, decoder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        atexit.register(decoders[decoder].kill)
    return decoders[decoder]


def ours(decoder, data, region=()):
    """Pixels, or the error line."""
    child = start(decoder)
    hung = threading.Timer(60, child.kill)
    hung.start()
    try:
        child.stdin.write(b"%d %d %d %d %d\n" % (len(data), *(region or (0, 0, 0, 0))) + data)
        child.stdin.flush()
        word, _, rest = child.stdout.readline().partition(b" ")
        assert word in (b"ok", b"error"), f"the decoder ended: {child.wait()}"
        if word == b"error":
            return rest.decode()
        w, h = map(int, rest.split())
        return np.frombuffer(child.stdout.read(w * h * 3), np.uint8).reshape(h, w, 3)
    finally:
        hung.cancel()


def pillow(data):
    """Pixels, or None where Pillow raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            image = Image.open(io.BytesIO(data))
            if image.mode.startswith("I;16"):           # the high byte, as of color; convert() would cut off at 255
                return np.repeat((np.asarray(image) >> 8).astype(np.uint8)[..., None], 3, 2)
            return np.asarray(image.convert("RGB"))
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
