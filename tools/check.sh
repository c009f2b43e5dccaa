#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make check: the unit tests, and the tests and lint of what changed.  BASE=main: since the branch left main.
set -eu
cd "$(dirname "$0")/.."
if [ ! -x .venv/bin/python ] || [ ! -f build/build.ninja ]; then tools/setup.sh; fi
exec .venv/bin/python tools/check.py "${BASE:-HEAD}"
