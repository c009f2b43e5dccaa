# SPDX-License-Identifier: Apache-2.0
"""Keep every sample of class 1 and one in ten of the others, chosen by SQL over the index.

python select_sql.py 'train-{000..099}.tar'
"""
import sys

import duckdb

import stoker

# A tenth by the order of hashes: spread over all shards, and the same tenth every time.
KEEP = """
    SELECT sample FROM (
        SELECT sample, cls, row_number() OVER (PARTITION BY cls = 1 ORDER BY md5(key)) AS place FROM samples)
    WHERE cls = 1 OR place % 10 = 1
    ORDER BY sample
"""


def choose(samples: stoker.Dataset):
    """The index as a table named `samples`: no shard is read.  Gives a table with the column `sample`."""
    return duckdb.sql(KEEP).to_arrow_table()


def main() -> None:
    samples = stoker.open(sys.argv[1], columns=["cls"])  # puts the labels into the index, once
    chosen = choose(samples)
    print(f"{chosen.num_rows} of {len(samples)} samples")
    positive = rows = 0
    with stoker.Loader(samples, {"label": "from(cls) | int"}, batch_size=64, shuffle=True, select=chosen) as loader:
        for batch in loader:
            rows += len(batch["label"])
            positive += int((batch["label"] == 1).sum())
    print(f"an epoch has {rows} rows, {positive} of them positive")


if __name__ == "__main__":
    main()
