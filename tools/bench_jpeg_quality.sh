#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make bench-jpeg-quality DATA=FOLDER: pixels of JPEG photos against Pillow's.
#   NAME=jpeg-quality   the results go to bench/results/NAME.txt
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${DATA:-}" ] || { echo "bench-jpeg-quality: say DATA=folder of JPEGs" >&2; exit 2; }
[ -d build/python/stoker ] || tools/setup.sh
python=.venv/bin/python
[ -x "$python" ] || python=python3
export PYTHONPATH="$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}"
{
    date -u +%F
    "$python" bench/jpeg_quality.py "$DATA" || echo "a bar was missed"
} | tee "bench/results/${NAME:-jpeg-quality}.txt"
! grep -q "a bar was missed" "bench/results/${NAME:-jpeg-quality}.txt"
