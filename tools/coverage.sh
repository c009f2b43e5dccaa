#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make coverage: which lines and branches of C and Python the tests run, in bench/results/coverage-NAME.txt (last).
#   ONLY="units tests/cli python/tests/test_loader.py"   only these: C's unit tests, and some of Python's
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh --tests
sum=$(sha256sum <tools/requirements/coverage.txt)
if [ "$(cat .venv/stamp-coverage 2>/dev/null)" != "$sum" ]; then
    .venv/bin/python -m pip install --disable-pip-version-check -q --no-compile -r tools/requirements/coverage.txt 2>/dev/null
    echo "$sum" >.venv/stamp-coverage
fi
exec .venv/bin/python tools/count_coverage.py ${ONLY:-}
