#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles jpeg_core.cu where nvcc is there; 77: it is not.
set -eu
if ! command -v nvcc >/dev/null 2>&1; then
    echo "skipped: no nvcc here to compile jpeg_core.h for a GPU with"
    exit 77
fi
here="$(cd "$(dirname "$0")" && pwd)"
out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
nvcc -c -Werror all-warnings -I "$here/../../src" -o "$out/jpeg_core.o" "$here/jpeg_core.cu"
echo "jpeg_core.h compiles for a GPU"
