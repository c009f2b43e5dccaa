#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make bench-jpeg DATA=FOLDER: our JPEG decoder against libjpeg-turbo, one thread.
#   NAME=jpeg   the results go to bench/results/NAME.txt
#   COUNT=1     instructions an image as well (callgrind, AVX2 at most; minutes), on COUNT_IMAGES=20
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${DATA:-}" ] || { echo "bench-jpeg: say DATA=folder of JPEGs" >&2; exit 2; }
[ -x build/bench/bench_jpeg ] || tools/setup.sh --bench
ninja -C build bench/bench_jpeg >/dev/null 2>&1 || [ -x build/bench/bench_jpeg ]
out="bench/results/${NAME:-jpeg}.txt"
{
    date -u +%F
    sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1
    build/bench/bench_jpeg "$DATA" --rounds "${ROUNDS:-9}"
} | tee "$out"
[ "${COUNT:-0}" = 1 ] || exit 0
images="${COUNT_IMAGES:-20}"

# Instructions of one side alone: those of the whole program less those of one that measures nothing.
count()
{
    STK_CPU=avx2 valgrind --tool=callgrind --callgrind-out-file=/dev/null build/bench/bench_jpeg "$DATA" \
        --only "$1" --images "$images" 2>&1 | sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

base="$(count nothing)"
for side in "turbo: whole RGB" "turbo: coefficients" "coefficients, seek points" "coefficients, none" \
    "crop RGBX, seek points" "crop RGBX, none" "row f16 224, seek points" "row f16 224, none" "build seek points"; do
    n="$(count "$side")"
    printf '%-34s %12d instructions/image\n' "$side" $(((n - base) / images))
done | tee -a "$out"
