#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make bench-order: what an index costs, what block shuffle fetches, how well it mixes; docs/order.md.
#
# Kept in bench/results/order.txt.  Costs are in processor time; the other two are exact counts.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -d build ] || tools/setup.sh
PATH="$PWD/.venv/bin:$PATH" ninja -C build bench/order_cost bench/block_fetch bench/block_mix >/dev/null
{
    for name in order_cost block_fetch block_mix; do
        echo "== $name"
        "build/bench/$name"
        echo
    done
} | tee bench/results/order.txt
