#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Token windows and rows of arrays against bare loops and against np.memmap + DataLoader.
#   THREADS=2 ROUNDS=7 DATA=folder for the made files (1 GB)
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh
data=${DATA:-build/bench-tokens}
mkdir -p "$data"
build/bench/bench_tokens "$data" "${THREADS:-2}" "${ROUNDS:-7}"
PYTHONPATH=build/python .venv/bin/python bench/tokens.py "$data/train.bin" "${ROUNDS:-7}"
