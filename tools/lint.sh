#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make lint: needs nothing but a Python 3.11; the compilers are used where they are.
set -eu
cd "$(dirname "$0")/.."
if [ -x .venv/bin/python ]; then python=.venv/bin/python; else python=python3; fi
exec "$python" tools/lint.py "$@"
