# SPDX-License-Identifier: Apache-2.0
"""Runs scripts with torch's DataLoader and with Stoker's, both in this process, because importing torch takes the time.

For each script and each loader it notes the lines with losses, the warnings, what the random generators draw next, and
how many loops Stoker's loader began.  Only the line of the import differs between the two runs.
"""

import contextlib
import gc
import io
import json
import random
import re
import sys
import traceback
import warnings
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "scripts"
THEIRS = "from torch.utils.data import DataLoader\n"
OURS = "from stoker import DataLoader\n"
OPTIONAL = {"torchvision", "timm", "transformers", "lightning"}
PICTURES = re.compile(r"^(?:from|import) (?:torchvision|timm)\b", re.M)


def has_torch():
    """find_spec() finds a torch that TORCH=0 hides."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def find_torchvision():
    """torchvision and timm are in folders of their own (tests/recipes/tv_oracle.py)."""
    import torch
    sys.path[:0] = [str(FOLDER.parents[1] / "recipes")]
    import tv_oracle
    sys.path += [str(tv_oracle.FOLDER), str(Path(sys.prefix) / "transforms")]
    real = tv_oracle.soften(torch)
    try:
        with contextlib.suppress(ImportError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torchvision  # noqa: F401
    finally:
        torch.library.register_fake = real


def run(source, name):
    """One script, in a namespace of its own."""
    import numpy
    import stoker
    import torch
    torch.manual_seed(0), random.seed(0), numpy.random.seed(0)
    said, loops, error, real = io.StringIO(), [], "", stoker.DataLoader._get_iterator
    stoker.DataLoader._get_iterator = lambda self: loops.append(1) or real(self)
    try:
        with contextlib.redirect_stdout(said), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            exec(compile(source, f"{name}.py", "exec"), {"__name__": "__main__"})
    except ModuleNotFoundError as e:
        if e.name not in OPTIONAL:
            raise
        return {"missing": e.name}
    except Exception:
        error = traceback.format_exc()
    finally:
        stoker.DataLoader._get_iterator = real
    gc.collect()            # the namespace, and the loaders in it
    return {"losses": [line for line in said.getvalue().splitlines() if "0x" in line], "error": error, "loops": len(loops),
            "warned": [str(w.message) for w in warned if not issubclass(w.category, (DeprecationWarning, FutureWarning))],
            "next": [float(torch.rand(())), random.random(), numpy.random.rand()]}


def main(result):
    """Writes {name: [with torch's loader, with Stoker's]}.  Scripts with pictures are last: others shall not find torchvision."""
    sources = {path.stem: path.read_text() for path in FOLDER.glob("*.py")} if has_torch() else {}
    found = {}
    gc.freeze()             # collections look at the scripts' objects only
    for name, source in sorted(sources.items(), key=lambda item: (bool(PICTURES.search(item[1])), item)):
        assert source.count(THEIRS) == 1, f"{name}.py: not one line that imports DataLoader"
        if PICTURES.search(source) and "torchvision" not in sys.modules:
            find_torchvision()
        found[name] = [run(source, name), run(source.replace(THEIRS, OURS), name)]
    Path(result).write_text(json.dumps(found))
