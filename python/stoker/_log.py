# SPDX-License-Identifier: Apache-2.0
"""Lines of the C library as records of the logger "stoker"; called by the extension."""

from __future__ import annotations


def emit(level: int, line: str) -> None:
    import logging      # here: importing stoker costs less than importing logging
    names = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
    logging.getLogger("stoker").log(names[level], "%s", line)
