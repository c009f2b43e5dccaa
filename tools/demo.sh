#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make demo: from nothing to a trained model, in a few minutes.  The steps are in tools/demo/.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh
if [ "${TORCH:-1}" = 0 ]; then export PYTHONPATH=$PWD/tools/notorch; fi
exec .venv/bin/python tools/demo "$@"
