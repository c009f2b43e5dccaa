#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make docs: the site, in build/site.  MkDocs is installed into a folder of its own.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh
sum=$(sha256sum <tools/requirements/docs.txt)
if [ "$(cat .venv/stamp-docs 2>/dev/null)" != "$sum" ]; then
    .venv/bin/python -m pip install --disable-pip-version-check -q --no-compile --upgrade --target .venv/docs -r tools/requirements/docs.txt 2>/dev/null
    echo "$sum" >.venv/stamp-docs
fi
PYTHONPATH=.venv/docs .venv/bin/python tools/docs.py
echo "docs: build/site/index.html"
