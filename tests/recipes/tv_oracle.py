# SPDX-License-Identifier: Apache-2.0
"""torchvision as the oracle of ops, where it is installed (tools/requirements/oracles.txt).

Its wheel is linked against CUDA, so its compiled ops do not load beside a CPU build of torch, and `import torchvision` fails
while it registers shapes for them.  Without those registrations the transforms work, on tensors and pictures; nms, roi_align and
torchvision.io do not."""

import sys
import warnings
from pathlib import Path

import pytest

FOLDER = Path(sys.prefix) / "oracles"


def soften(torch):
    """Shapes that cannot be registered are left out.  Answers torch's own function, to be put back."""
    real = torch.library.register_fake

    def soft(op, *args, **kwargs):
        register = real(op, *args, **kwargs)

        def decorate(function):
            try:
                return register(function)
            except RuntimeError:
                return function
        return decorate

    torch.library.register_fake = soft
    return real


def load():
    """torchvision.transforms.v2, or the test that asks for it is skipped."""
    torch = pytest.importorskip("torch", reason="torch is not installed: TORCH=0?")
    real = soften(torch)
    sys.path.append(str(FOLDER))        # here only: others that find it there would fail on it
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pytest.importorskip("torchvision.transforms.v2", reason="torchvision 0.28.0 is not installed: make setup")
    finally:
        sys.path.remove(str(FOLDER))
        torch.library.register_fake = real
