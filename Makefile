# SPDX-License-Identifier: Apache-2.0
# The front door.  Meson builds (meson.build); each target here is one script under tools/.
#
#   TORCH=0   leave torch out of set-up, demo and tests
#   DATA=...  bench, bench-peers: shards or photos to measure on instead of made ones

TORCH ?= 1
DATA  ?=
SOAK_MINUTES ?= 60
export TORCH DATA SOAK_MINUTES

# What `make gpu-test` runs before pytest's tests/gpu/real: one program each, 0 is right and 77 "cannot run here".
GPU_PROGRAMS = tests/codec/jpeg_core_cuda.sh tests/gpu/host/pic_sync_cuda.sh \
               $(wildcard build/cuda/*_test build/src/cuda/*_test build/tests/gpu/real/*_test)

.PHONY: help setup demo test check bench bench-jpeg bench-jpeg-quality bench-ops bench-recipes bench-order bench-peers bench-sampling \
        bench-native bench-tokens bench-sound bench-pack bench-prepare bench-stores bench-ranges bench-video bench-all bench-formats bench-tables bench-python \
        gpu-bench gpu-test coverage lint soak docs wheel clean

help:
	@echo "make setup   install what is missing, build, put stoker into .venv"
	@echo "make demo    make photos, pack, index, load them, train from them (TORCH=0: no training)"
	@echo "make test    every test, the sanitizer suites and lint (TORCH=0: without torch)"
	@echo "make check   the minute between two edits: units, and the tests and lint of what changed (BASE=main: by the branch)"
	@echo "make bench   measure against bare loops and PyTorch's DataLoader (DATA=shards)"
	@echo "make bench-all  every figure of README and docs/measured.md in one table (ONLY=recipes,python; NAME=0.3)"
	@echo "make bench-peers  measure against other loaders, each in a venv of its own (DATA=folder of JPEGs ONLY=dataloader,stoker_tar)"
	@echo "make bench-jpeg  our JPEG decoder against libjpeg-turbo (DATA=folder; NAME=, COUNT=1)"
	@echo "make bench-recipes  a training recipe and DINO's chain against DataLoader, torchvision and AlbumentationsX (ROUNDS=7)"
	@echo "make bench-ops  each op against Pillow, OpenCV, AlbumentationsX and torchvision (ROUNDS=7 NAME=ops-0.2)"
	@echo "make bench-order  the cost of an index, and what block shuffle fetches and how well it mixes"
	@echo "make bench-native  pictures as patches per core against timm and transformers, and how full packed batches are (DATA=folder of JPEGs)"
	@echo "make bench-tokens  token windows and rows of arrays against bare loops (THREADS=2 ROUNDS=7 DATA=folder)"
	@echo "make bench-sound  decoders, parts, resampling, features and batches by seconds against other programs (ROUNDS=7 ONLY=features)"
	@echo "make bench-pack  rows and padding against the textbook's best-fit decreasing"
	@echo "make bench-prepare  planning 10 M samples, pack on Ray, resizing against img2dataset (RESIZER=its python, SECONDS=60)"
	@echo "make bench-stores  ranges over HTTP against a bare libcurl loop and other clients, photos, latency, hedging (ROUNDS=7)"
	@echo "make bench-video  clips of videos against a bare libavcodec loop, torchcodec, PyAV and decord2 (ROUNDS=3 CLIPS=24 PARTS= PEERS=python)"
	@echo "make bench-ranges  crops of pictures on a store, whole and by their points: bytes, requests, first batch (ROUNDS=5 DATA=photos)"
	@echo "make bench-formats  the same samples as files, tar, Parquet, Arrow, HDF5, MDS and arrays (ROUNDS=3 SCALE=1)"
	@echo "make bench-tables  tables against pyarrow, Lance, Hugging Face and mosaicml-streaming (ROUNDS=5 SCALE=1 DATA=photos PARTS=)"
	@echo "make bench-python  Python data sets against torch's DataLoader and a bare shared ring"
	@echo "make bench-sampling  what a draw by weight costs"
	@echo "make bench-jpeg-quality  how far pixels are from Pillow's (DATA=folder)"
	@echo "make gpu-test  what needs a GPU, on the machine that has one (PYTHON=python3 with torch; SANITIZE=1)"
	@echo "make gpu-bench  measure on a GPU: pictures, tokens, videos, training, a share of the chip (DATA=folder of JPEGs; ONLY=video)"
	@echo "make coverage  lines and branches of C and Python that the tests run (ONLY=\"units tests/cli\": of some tests; NAME=0.3)"
	@echo "make lint    sizes, include direction and the other rules of CONTRIBUTING.md"
	@echo "make soak    hours of fuzzing, stress and kills (SOAK_MINUTES=60 for each fuzz target)"
	@echo "make docs    the site with all pages, search and the reference, in build/site"
	@echo "make wheel   an abi3 wheel with its libraries inside, in dist/, tried in a fresh venv"
	@echo "make clean   remove what was built; .venv and demo-data stay"

setup:
	@tools/setup.sh

demo:
	@tools/demo.sh

test:
	@tools/test.sh

check:
	@tools/check.sh

bench:
	@tools/bench.sh

bench-ops:
	@tools/bench_ops.sh

bench-recipes:
	@tools/bench_ops.sh recipes

bench-order:
	@tools/bench_order.sh

bench-peers:
	@tools/bench_peers.sh

bench-jpeg:
	@tools/bench_jpeg.sh

bench-jpeg-quality:
	@tools/bench_jpeg_quality.sh

bench-tokens:
	@tools/bench_tokens.sh

bench-sound:
	@tools/bench_sound.sh

bench-native:
	@tools/setup.sh && PYTHONPATH=build/python .venv/bin/python bench/native.py $(if $(DATA),--data $(DATA))

bench-pack:
	@tools/setup.sh && PYTHONPATH=build/python .venv/bin/python bench/pack.py

bench-prepare:
	@tools/setup.sh && PYTHONPATH=build/python .venv/bin/python bench/prepare.py

bench-stores:
	@tools/setup.sh && .venv/bin/python bench/stores.py && .venv/bin/python bench/stores_epochs.py

bench-all:
	@tools/setup.sh && .venv/bin/python bench/all.py $(if $(ONLY),--only $(ONLY)) $(if $(NAME),--name $(NAME))

bench-video:
	@tools/bench_video.sh

bench-ranges:
	@tools/setup.sh && PYTHONPATH=build/python .venv/bin/python bench/ranges.py

bench-formats:
	@tools/setup.sh && PYTHONPATH=build/python .venv/bin/python bench/formats/formats.py $(or $(ROUNDS),3) $(or $(SCALE),1) docs/img/formats.svg
	@PYTHONPATH=build/python .venv/bin/python bench/formats/hdf5_rows.py $(or $(ROUNDS),7)

bench-tables:
	@tools/setup.sh && DATA="$(DATA)" tools/bench_tables.sh $(PARTS)

bench-python:
	@tools/setup.sh && PYTHONPATH=build/python .venv/bin/python bench/python_sets.py

bench-sampling:
	@tools/setup.sh && build/bench/sampling

gpu-bench:
	@tools/gpu_bench.sh

gpu-test:
	@PROGRAMS="$(GPU_PROGRAMS)" tools/gpu_test.sh

coverage:
	@tools/coverage.sh

lint:
	@tools/lint.sh

soak:
	@tools/soak.sh

docs:
	@tools/docs.sh

wheel:
	@tools/wheel.sh

clean:
	@rm -rf build build-asan build-tsan build-fuzz
