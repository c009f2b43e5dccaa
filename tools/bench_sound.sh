#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make bench-sound: Stoker and programs for sound in one process; ROUNDS=7, ONLY=whole,parts,resample,features,loader,plan.
#
# The peers are in a venv of their own, build/sound-peers (or PEERS=), so that .venv keeps its torch.  torchaudio's
# compiled extension is left out: it asks for CUDA, and nothing that is measured is in it.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh
for program in espeak-ng flac lame; do
    command -v "$program" >/dev/null || { echo "bench-sound: install $program (apt-get install espeak-ng flac lame)"; exit 1; }
done
peers=${PEERS:-build/sound-peers}
if ! [ -x "$peers/bin/python" ]; then
    python3 -m venv "$peers"
    "$peers/bin/pip" install -q soundfile soxr kaldi-native-fbank lhotse urllib3 pyarrow "$(.venv/bin/pip freeze | grep '^torch=')"
    "$peers/bin/pip" install -q --no-deps torchaudio "torchcodec==0.13.*"     # the one for this torch
    rm -f "$peers"/lib/python*/site-packages/torchaudio/lib/*.so
fi
PYTHONPATH=build/python exec "$peers/bin/python" bench/sound.py --rounds "${ROUNDS:-7}" ${ONLY:+--only "$ONLY"} \
    ${SAVE:+--save "$SAVE"}
