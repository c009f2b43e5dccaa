#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make bench-peers: Stoker and other loaders on the same photos; DATA= names a folder of JPEGs or shards, ONLY=stoker_tar,dataloader
# some of the scripts in bench/peers, NAME= the result.
#
# Two peers need libraries that are no Python packages: SPDL decodes by FFmpeg, FFCV is built against
# OpenCV and TurboJPEG.  They are installed where we may; without them those peers are listed as absent.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh
libraries="ffmpeg libopencv-dev libturbojpeg0-dev"
as_root=""
if [ "$(id -u)" != 0 ]; then as_root="sudo -n"; fi
# shellcheck disable=SC2086  # a list of names
if command -v apt-get >/dev/null && ! dpkg -s $libraries >/dev/null 2>&1; then
    echo "bench-peers: installing $libraries"
    { $as_root apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends $libraries; } >/dev/null 2>&1 ||
        echo "bench-peers: could not; peers that need them will be absent"
fi
only=""
for name in $(tr , ' ' <<<"${ONLY:-}"); do only+=" --only $name"; done
# shellcheck disable=SC2086  # a list of words
exec .venv/bin/python bench/peers/run.py ${DATA:+--data "$DATA"} ${NAME:+--name "$NAME"} $only "$@"
