# SPDX-License-Identifier: Apache-2.0
"""Small shards for tests that go through the loader."""

import io
import os
import sys
import tarfile

sys.path.insert(0, os.path.join(os.environ.get("STOKER_BUILD", "build"), "python"))


def write(path, samples):
    """samples: dicts of field name to bytes."""
    with tarfile.open(path, "w") as tar:
        for i, fields in enumerate(samples):
            for name, data in fields.items():
                info = tarfile.TarInfo(f"{i:06d}.{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return str(path)


def rows(path, chain, **options):
    """Every row of one output, in order."""
    import stoker

    options = {"batch_size": 4, "collate": "list", "num_workers": 0} | options
    with stoker.Loader(path, fields={"x": chain}, **options) as loader:
        return [row for batch in loader for row in batch["x"]]
