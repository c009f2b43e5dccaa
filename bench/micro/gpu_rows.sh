#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Instructions that the host spends on one picture which the GPU decodes, counted by callgrind on a GPU
# made of threads.  Only the worker is counted, so other threads and the machine's noise do not show.
#
#     bench/micro/gpu_rows.sh SHARDS [BUILD]
set -eu
shards=$1 build=${2:-build} out=$(mktemp)
trap 'rm -f "$out" "$out".text' EXIT
# io_uring waits inside valgrind's one lock, so reads that must wait go to threads.
STK_URING=0 STK_HOSTGPU_CLEAN=1 STK_CUDA_LIB=$PWD/$build/tests/gpu/host/libstoker_hostgpu.so \
    valgrind --tool=callgrind --callgrind-out-file="$out" --toggle-collect=stk_worker_main \
    "$build/bench/gpu_rows" "$shards" 2 >"$out".text 2>&1 || { cat "$out".text >&2; exit 1; }
awk '/^pictures/ { n = $2 + 0 } /refs:/ { gsub(",", "", $NF); i = $NF }
     END { printf "%d pictures, %d instructions each\n", n, i / n }' "$out".text
