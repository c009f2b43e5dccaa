# SPDX-License-Identifier: Apache-2.0
"""Lines of the C library as records of the logger "stoker"; called by the extension."""

from __future__ import annotations


def emit(level: int, line: str) -> None:
    """What a signal's handler raises in here goes on; what logging raises does not concern the caller."""
    import logging      # here: importing stoker costs less than importing logging
    names = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
    try:
        logging.getLogger("stoker").log(names[level], "%s", line)
    except Exception as e:
        from .errors import by_handler
        if by_handler(e):
            raise
        import traceback
        traceback.print_exc()
