#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make bench: interleaved rounds against bare loops and peers; DATA= measures on given shards.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh --bench
exec .venv/bin/python bench/run.py ${DATA:+--data "$DATA"} "$@"
