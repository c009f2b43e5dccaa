# SPDX-License-Identifier: Apache-2.0
"""An epoch of a data set as numbers and hashes; run as a program it prints them: URL CACHE."""
import hashlib
import sys

if __name__ == "__main__":
    sys.modules["torch"] = None         # it takes seconds to import, and is not needed here
import stoker   # noqa: E402

FIELDS = {"bin": "bytes", "cls": "int"}


def digests(loader):
    return [(int(i), hashlib.sha256(bytes(x)).hexdigest())
            for batch in loader for i, x in zip(batch.sample_ids, batch["bin"], strict=True)]


def epoch(url, store=None, **more):
    with stoker.Loader(str(url), FIELDS, **{"batch_size": 8, "shuffle": True, "seed": 3, "num_workers": 2, **more},
                       store=store) as loader:
        return digests(loader)


if __name__ == "__main__":
    print(epoch(sys.argv[1], stoker.Store(cache=sys.argv[2])))
