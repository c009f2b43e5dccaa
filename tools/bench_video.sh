#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make bench-video: clips of videos beside a bare loop over libavcodec and other libraries.  The bare loop is
# compiled against FFmpeg's headers, which nothing else needs.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
libraries="ffmpeg libavformat-dev libavcodec-dev libswscale-dev"
as_root=""
if [ "$(id -u)" != 0 ]; then as_root="sudo -n"; fi
# shellcheck disable=SC2086  # a list of names
if command -v apt-get >/dev/null && ! dpkg -s $libraries >/dev/null 2>&1; then
    echo "bench-video: installing $libraries"
    { $as_root apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $libraries; } >/dev/null 2>&1 ||
        echo "bench-video: could not; the bare loop is not built"
    PATH="$PWD/.venv/bin:$PATH" meson setup --reconfigure build >/dev/null
fi
PATH="$PWD/.venv/bin:$PATH" ninja -C build >/dev/null
mkdir -p bench/results
PYTHONPATH=build/python .venv/bin/python bench/video.py | tee "bench/results/${NAME:-video-0.3}.txt"
