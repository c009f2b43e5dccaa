#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make gpu-test: everything that needs a GPU, on the machine that has it.  PYTHON names the interpreter that holds torch; what
# is built is taken from build/.  pytest is looked for there, then in build/gpu-python (pip install --target).
#   PROGRAMS="..."   test programs to run first (GPU_PROGRAMS of the Makefile); 77: it cannot run here
#   STOKER_LIBAVCODEC=FILE   libavcodec, where it is not where the system keeps it: tests of videos then fail without it
#   SANITIZE=1       also under compute-sanitizer, memcheck and racecheck
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
status=0
for program in ${PROGRAMS:-}; do
    echo "== $program"
    "$program" || [ $? -eq 77 ] || status=1
    case $program in *.sh) continue ;; esac
    [ "${SANITIZE:-0}" = 1 ] || continue
    for tool in memcheck racecheck; do
        echo "== $tool $program"
        compute-sanitizer --tool "$tool" --error-exitcode 9 "$program" || [ $? -eq 77 ] || status=1
    done
done
# The CPU's side of videos is libavcodec: of the machine, or of PyAV's wheel (pip install --target build/gpu-python av).
if [ -z "${STOKER_LIBAVCODEC:-}" ]; then
    for library in "$PWD"/build/gpu-python/av.libs/libavcodec-*.so.*; do
        [ ! -e "$library" ] || export STOKER_LIBAVCODEC="$library"
    done
fi
export PYTHONPATH="$PWD/build/python:$PWD/build/gpu-python${PYTHONPATH:+:$PYTHONPATH}"
export STOKER_CLI="$PWD/build/cli/stoker"
"$python" -c 'import pytest' 2>/dev/null || {
    echo "gpu-test: $python has no pytest: pip install --target build/gpu-python pytest" >&2
    exit 1
}
"$python" -m pytest -q -p no:cacheprovider tests/gpu/real "$@" || status=1
exit $status
