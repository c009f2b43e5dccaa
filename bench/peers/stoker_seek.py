# SPDX-License-Identifier: Apache-2.0
"""Stoker over the same shards with JPEG seek points in the index."""

import os
import sys

import common
import stoker_tar

TITLE, MODULES, PACKAGES = "Stoker, seek points", ("torch", "stoker"), ()
SETTINGS = ({},)
NOTE = "the same shards, indexed by `stoker index --jpeg`"
versions = stoker_tar.versions


def linked(data):
    """The shards in a folder of their own, since an index lies beside its shards; links, not copies."""
    def write(folder):
        folder.mkdir()
        for shard in sorted(data.shards().glob("*.tar")):
            os.link(shard, folder / shard.name)
    return data.once("tar-seek", write)


def prepare(data):
    if "--jpeg" not in stoker_tar.command("index", "--help"):
        raise common.Absent("`stoker index` of this build has no --jpeg")
    stoker_tar.command("index", "--jpeg", linked(data))      # every time: a newer build may want another index


def batches(data, **options):
    yield from stoker_tar.load(linked(data), **options)


if __name__ == "__main__":
    common.main(sys.modules[__name__])
