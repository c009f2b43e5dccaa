#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make test: set-up, then every suite.  The steps and the counting are in tools/run_tests.py.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh --tests
exec .venv/bin/python tools/run_tests.py "$@"
