#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tables against the libraries that people read them with; the result goes to bench/results/tables.txt.  Peers that can be
# installed are, without what they lean on, in a folder of their own: mosaicml-streaming wants an older NumPy than we test with.
set -euo pipefail
cd "$(dirname "$0")/.."
peers=.venv/peers
if [ ! -e $peers/stamp ]; then
    for name in pylance lance-namespace mosaicml-streaming catalogue; do
        .venv/bin/python -m pip install -q --no-deps --target $peers $name || echo "$name: not available, left out"
    done
    mkdir -p $peers && touch $peers/stamp
fi
PEERS=$peers PYTHONPATH=build/python .venv/bin/python bench/formats/tables.py "$@" 2>&1 | tee bench/results/tables.txt
