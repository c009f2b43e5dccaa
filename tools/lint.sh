#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make lint: needs nothing but a Python 3.11; the compilers are used where they are.
set -eu
cd "$(dirname "$0")/.."
if [ -x .venv/bin/python ]; then python=$PWD/.venv/bin/python; else python=python3; fi
"$python" tools/lint.py "$@"
[ $# = 0 ] || exit 0
if "$python" -c 'import mypy, torch' 2>/dev/null; then
    cd python && exec "$python" -m mypy --config-file ../pyproject.toml stoker tests/typed_loader.py
fi
echo "skipped: mypy ($("$python" -c 'import mypy' 2>/dev/null && echo torch || echo mypy) is not installed)"
