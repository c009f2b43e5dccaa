# SPDX-License-Identifier: Apache-2.0
"""Stoker with image(exact=true): pixels equal to Pillow's; with seek points where the build has them."""

import sys

import common
import stoker_seek
import stoker_tar

TITLE, MODULES, PACKAGES = "Stoker, seek points, exact", ("torch", "stoker"), ()
SETTINGS = ({},)
NOTE = "`image(exact=true)`: pixels equal to Pillow's"
versions = stoker_tar.versions


def prepare(data):
    import stoker
    try:
        next(stoker_tar.load(data.shards(), "image(exact=true)"))
    except stoker.StokerError:
        raise common.Absent("`image` of this build has no exact") from None
    stoker_seek.prepare(data)


def batches(data, **options):
    yield from stoker_tar.load(stoker_seek.linked(data), "image(exact=true)", **options)


if __name__ == "__main__":
    common.main(sys.modules[__name__])
