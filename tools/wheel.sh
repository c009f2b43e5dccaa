#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make wheel: an abi3 wheel with its libraries inside, in dist/, tried in a fresh venv.
#
# Where all is committed, an sdist comes first and the wheel is built of it, so that nothing of the tree is missing there.
# auditwheel copies what libstoker leans on (libjpeg and others) into the wheel and names it by the
# oldest glibc that fits.  It is made for Linux; other systems have no wheel.  The trial imports it,
# loads a small data set and runs the command, with nothing on the path but the venv.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
if [ -z "${PYTHON:-}" ]; then tools/setup.sh --build; fi
out=${WHEEL_DIR:-dist}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Run a command quietly; show the end of what it said only when it fails.
quietly() {
    "$@" >"$work/log" 2>&1 && return
    tail -n 30 "$work/log" >&2
    echo "wheel: failed: $*" >&2
    exit 1
}

quietly "$python" -m venv "$work/build"
quietly "$work/build/bin/python" -m pip install -q --disable-pip-version-check \
    -r tools/requirements/build.txt -r tools/requirements/wheel.txt
PATH=$work/build/bin:$PATH
mkdir -p "$out" "$work/sdist" "$work/plain"
source=. sdist=""
if [ -z "$(git status --porcelain 2>&1)" ]; then
    quietly python -c 'import mesonpy, sys; mesonpy.build_sdist(sys.argv[1])' "$work/sdist"
    sdist=$(echo "$work"/sdist/stoker-*.tar.gz)
    rm -f "$out"/stoker-*.tar.gz
    cp "$sdist" "$out/"
    tar -C "$work" -xf "$sdist"
    source=$work/$(basename "$sdist" .tar.gz)
else
    echo "wheel: not all is committed, so there is no sdist; built of the tree as it is"
fi
# By meson-python itself: the pip of Debian 12 takes no list of settings.
quietly python -c 'import mesonpy, os, sys
os.chdir(sys.argv[1])
mesonpy.build_wheel(sys.argv[2], {"setup-args": ["-Dbuildtype=release", "-Ddebug=false"]})' "$source" "$work/plain"
# No --plat: the oldest tag that the symbols in use allow.
quietly auditwheel repair --strip -w "$work/whole" "$work"/plain/*.whl
rm -f "$out"/stoker-*.whl
cp "$work"/whole/*.whl "$out/"
wheel=$(echo "$out"/stoker-*.whl)

quietly "$python" -m venv "$work/trial"
quietly "$work/trial/bin/python" -m pip install -q --disable-pip-version-check "$wheel"
cp tools/wheel_trial.py "$work/trial.py"
(cd "$work" && env -i HOME="$work" PATH="$work/trial/bin" LANG=C.UTF-8 python -I trial.py)
echo "wheel: $wheel, $(du -k "$wheel" | cut -f 1) KB${sdist:+, of $(basename "$sdist")}"
