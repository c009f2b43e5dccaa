#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles pic_sync.cu where nvcc is there, and runs it over JPEG files if any are named:
#     pic_sync_cuda.sh [-n copies] FILE...
# 77: no nvcc, or files and no GPU.
set -eu
if ! command -v nvcc >/dev/null 2>&1; then
    echo "skipped: no nvcc here to compile pic_sync.cuh with"
    exit 77
fi
top="$(cd "$(dirname "$0")/../../.." && pwd)"
out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
for c in codec/jpeg_head base/err base/secrets base/utf8; do
    cc -O2 -std=gnu17 -D_GNU_SOURCE -I "$top/include" -I "$top/src" -c -o "$out/$(basename $c).o" "$top/src/$c.c"
done
nvcc -O3 -arch="${STK_CUDA_ARCH:-sm_90}" -Werror all-warnings -I "$top" -I "$top/include" -I "$top/src" \
    -o "$out/pic_sync" "$top/tests/gpu/host/pic_sync.cu" "$out/jpeg_head.o" "$out/err.o" "$out/secrets.o" "$out/utf8.o"
echo "pic_sync.cuh compiles for a GPU"
if [ $# -gt 0 ]; then
    "$out/pic_sync" "$@"
fi
