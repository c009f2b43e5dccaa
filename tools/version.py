# SPDX-License-Identifier: Apache-2.0
"""Prints the version: STK_VERSION of include/stoker/base.h, the one place that has it."""

import re
from pathlib import Path

header = Path(__file__).resolve().parent.parent / "include/stoker/base.h"
print(re.search(r'^#define STK_VERSION "([^"]+)"', header.read_text(), re.M).group(1), end="")
