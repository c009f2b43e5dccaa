#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make bench-ops, make bench-recipes: what each op costs, and whole recipes (bench_ops.sh recipes), against other libraries.  These are installed into a folder of their own, and left out where
# they can't be; AlbumentationsX is under the AGPL and is used here only.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
peers=build/bench-ops
if [ ! -d "$peers" ]; then
    .venv/bin/python -m pip install --disable-pip-version-check -q --target "$peers.part" opencv-python-headless albumentationsx \
        >"build/bench-ops.log" 2>&1 && mv "$peers.part" "$peers" ||
        echo "bench-ops: OpenCV and AlbumentationsX are left out: $(tail -n 1 build/bench-ops.log)"
fi
mkdir -p bench/results
NO_ALBUMENTATIONS_UPDATE=1 OMP_NUM_THREADS=1 PYTHONPATH=build/python:$peers \
    .venv/bin/python "bench/${1:-ops}.py" "${ROUNDS:-7}" | tee "bench/results/${NAME:-${1:-ops}-0.2}.txt"
