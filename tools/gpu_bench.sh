#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make gpu-bench: the GPU's numbers, on the machine that has it: tables, and JSON in bench/results/gpu-WHAT-NAME.json.
#   PYTHON=python3     the interpreter that holds torch, torchvision and Pillow; what is built is taken from build/
#   DATA=folder        of JPEGs; WORK=folder for what is made of them (GIB=4 of shards, MB=2048 of tokens and of rows)
#   ONLY="images sizes dino tokens train share video train_video"   which benches (ARGS="--only patches": of sizes, those of patches); NAME=latest   of the results; DRY=1: tries the scripts without a GPU
#   video and train_video need no DATA, but ffmpeg, or WORK/video filled by bench/gpu/videos.py on another machine; PyNvVideoCodec and torchcodec where installed
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
work=${WORK:-build/gpu-bench}
name=${NAME:-latest}
gib=${GIB:-4}
mb=${MB:-2048}
dry=
[ "${DRY:-0}" = 1 ] && dry=--dry
only=${ONLY:-images sizes dino tokens train share video train_video}
photos=0
for what in $only; do
    case $what in video | train_video) ;; *) photos=1 ;; esac
done
if [ $photos = 1 ] && [ -z "${DATA:-}" ] && [ ! -e "$work/shards/shards.json" ]; then
    echo "gpu-bench: DATA=folder of JPEGs is missing" >&2
    exit 2
fi
export PYTHONPATH="$PWD/build/python:$PWD/build/gpu-python${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$work"
[ $photos = 0 ] || "$python" bench/gpu/shards.py --data "${DATA:-.}" --out "$work/shards" --gib "$gib"
status=0
for what in $only; do
    case $what in
        tokens) "$python" bench/gpu/tokens.py --work "$work/tokens" --mb "$mb" --name "$name" $dry ${ARGS:-} || status=1 ;;
        video | train_video) "$python" "bench/gpu/$what.py" --work "$work/video" --name "$name" $dry ${ARGS:-} || status=1 ;;
        *) "$python" "bench/gpu/$what.py" --shards "$work/shards" --name "$name" $dry ${ARGS:-} || status=1 ;;
    esac
done
exit $status
