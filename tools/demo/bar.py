# SPDX-License-Identifier: Apache-2.0
"""A progress bar: redrawn in place on a terminal, silent elsewhere."""

import sys
import time


class Bar:
    WIDTH = 32

    def __init__(self, title, total):
        self.title, self.total = title, max(1, total)
        self.start, self.drawn = time.monotonic(), 0.0
        self.on = sys.stderr.isatty()

    def update(self, done, note=""):
        now = time.monotonic()
        if not self.on or (now - self.drawn < 0.1 and done < self.total):
            return
        self.drawn = now
        full = self.WIDTH * done // self.total
        sys.stderr.write(f"\r{self.title} [{'#' * full}{'.' * (self.WIDTH - full)}] "
                         f"{done}/{self.total} {note}\033[K")

    def close(self):
        if self.on:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
