# SPDX-License-Identifier: Apache-2.0
"""The command: python -m stoker, and `stoker` where the package was installed by pip.

The command is a C program inside the package, because a program in a wheel's bin folder could not
find the libraries that are in the wheel.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    program = Path(__file__).with_name("stoker-cli")
    if not program.exists():
        sys.exit(f"stoker: the command is not here ({program}): install the package again")
    os.environ.setdefault("STOKER_PYTHON", sys.executable)      # for commands that need Python: bench --against torch
    os.execv(program, ["stoker", *sys.argv[1:]])


if __name__ == "__main__":
    main()
