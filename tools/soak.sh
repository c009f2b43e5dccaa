#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make soak: the long versions of what make test does for seconds.  Hours; its log is kept.
#
#   SOAK_MINUTES=60  each fuzz target, with libFuzzer where there is clang
#   SOAK_SEEDS=200   stress driver, under TSan
#   SOAK_KILLS=300   kill -9 and reopen, of an index build and of a loading process each
#   SOAK_ATTACKS=20000  arguments and states of every kind, and interrupts, each
#   SOAK_RUNS=200    training runs, each killed three times and resumed on other ranks
#   SOAK_FAULTS=1000 faults between a loader and a web server, over an epoch; 100 forks during transfers
#   SOAK_CASES=100  causes and severities for doctor and for watch, each
#   SOAK_DRAWS=100000  draws of random ops against torchvision's; SOAK_BOXED=10000 pictures with boxes under iou_crop
#   SOAK_SETUPS=500  workers, batch sizes, ranks and resumes of Python data sets that draw
#   SOAK_PAIRS=110   rounds of pictures with boxes, masks and keypoints: 24 for each chain
#   SOAK_VIDEOS=300  videos of random settings, every frame against FFmpeg's whole decode
#   SOAK_SIZES=1000000  sizes of pictures by each formula against its original; SOAK_ADAPTERS=1000 samples against timm's and transformers' batches
#   SOAK_POINTS=10000  seek points and parts of JPEGs, mutated; and as many JPEGs of a remote shard
#   SOAK_BITS=2000   sets of arguments of stoker.DataLoader against torch's
#   SOAK_SEED=...    where all seeds start; printed, by default the time
set -eu
cd "$(dirname "$0")/.."
minutes=${SOAK_MINUTES:-60} seeds=${SOAK_SEEDS:-200} kills=${SOAK_KILLS:-300} runs=${SOAK_RUNS:-200}
attacks=${SOAK_ATTACKS:-20000} cases=${SOAK_CASES:-100}
seed=${SOAK_SEED:-$(date +%s)}
tools/setup.sh --tests
PATH=$PWD/.venv/bin:$PATH

mkdir -p bench/results build/logs
log=bench/results/soak-$(date +%Y%m%d-%H%M%S).txt
exec > >(tee "$log") 2>&1
echo "soak of $(git rev-parse --short HEAD 2>/dev/null || echo 'a tree without git') on $(uname -srm)," \
    "$(nproc) cores; seed $seed, $minutes min a fuzz target, $seeds stress seeds, $kills kills, $runs runs"
failed=0

# One line for each part; the whole output only of one that failed.
part() {
    local name=$1 start=$SECONDS out=build/logs/soak-$1.log
    shift
    if "$@" >"$out" 2>&1; then
        echo "ok      $name  $((SECONDS - start)) s  $(tail -n 1 "$out" | cut -c 1-120)"
    else
        failed=$((failed + 1))
        echo "FAILED  $name  after $((SECONDS - start)) s: $*"
        tail -n 60 "$out" | sed 's/^/    | /'
    fi
}

build() {
    local compiler=$1 folder=$2
    shift 2
    if [ ! -f "$folder/build.ninja" ]; then
        CC=$compiler meson setup "$folder" --buildtype=debugoptimized -Db_lundef=false "$@" || return
    fi
    ninja -C "$folder"
}

# The programs in a folder whose names begin so; where there is none, a name whose run will fail.
programs() {
    find "$1" -maxdepth 1 -type f -executable -name "$2*" 2>/dev/null | sort | grep . ||
        echo "$1/$2-not-built"
}

fuzz() {
    local target=$1 name folders dictionary=()
    name=$(basename "$target")
    folders=("build-fuzz/found/$name")  # new inputs are written to the first
    mkdir -p "${folders[0]}"
    if [ -d "fuzz/corpus/${name#fuzz_}" ]; then folders+=("fuzz/corpus/${name#fuzz_}"); fi
    if [ -f "fuzz/corpus/${name#fuzz_}.dict" ]; then dictionary=("-dict=fuzz/corpus/${name#fuzz_}.dict"); fi
    "$target" "${dictionary[@]}" -max_total_time=$((minutes * 60)) -seed="$seed" -timeout=10 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="build-fuzz/bug-$name-" "${folders[@]}"
}

stress() {
    local i
    for ((i = 0; i < seeds; i++)); do
        if ! STK_STALL=$((seed + i)) "$1" $((seed + i)); then
            echo "stress failed at seed $((seed + i))"
            return 1
        fi
    done
    echo "$seeds seeds from $seed"
}

clang=$(compgen -c clang | grep -xE 'clang(-[0-9]+)?' | sort -V | head -n 1 || true)
if [ -n "$clang" ]; then
    part build-fuzz build "$clang" build-fuzz -Dfuzz=true -Db_sanitize=address,undefined
    for target in $(programs build-fuzz/fuzz fuzz_); do
        part "$(basename "$target")" fuzz "$target"
    done
    part build-msan build "$clang" build-msan -Dfuzz=true -Dfuzz_sanitizer=memory -Dpython=disabled
    for target in $(programs build-msan/fuzz fuzz_); do
        part "$(basename "$target")-msan" fuzz "$target"
    done
else
    echo "skipped fuzzing: there is no clang, so no libFuzzer"
fi

part build-tsan build "${clang:-cc}" build-tsan -Db_sanitize=thread
for driver in $(programs build-tsan/tests/stress stress); do
    part "$(basename "$driver")" stress "$driver"
done
part kills-index python tests/soak/kills.py --what index --kills "$kills" --seed "$seed"
part kills-load python tests/soak/kills.py --what load --kills "$kills" --seed "$seed"
part attacks env STOKER_ATTACKS="$attacks" STOKER_SEED="$seed" python -m pytest -q \
    python/tests/test_attack_arguments.py python/tests/test_attack_states.py
part packs env STOKER_KILLS=50 STOKER_PLANS=500 STOKER_SEED="$seed" PYTHONPATH="$PWD/build/python" python -m pytest -q \
    python/tests/test_prepare.py python/tests/test_plans.py -k "killed or partition"
part calls env STOKER_WAYS=all PYTHONPATH="$PWD/build/python" python -m pytest -q python/tests/test_call_chains.py \
    python/tests/test_call_like.py python/tests/test_call_packed.py
part peers env STOKER_PEERS=1 PYTHONPATH="$PWD/build/python" python -m pytest -q tests/bench/test_peers.py -k at_work
part packs-ray env STOKER_RAY_KILLS=50 STOKER_SEED="$seed" PYTHONPATH="$PWD/build/python" python -m pytest -q python/tests/test_ray.py
part points env STOKER_SOAK_POINTS="${SOAK_POINTS:-10000}" build/src/units jpeg_parts_test
part parts env STOKER_SOAK_FILES="${SOAK_POINTS:-10000}" STOKER_SEED="$seed" python -m pytest -q tests/stores/test_parts.py -k mutated
part sizes env SOAK_SIZES="${SOAK_SIZES:-1000000}" SOAK_SEED="$seed" PYTHONPATH="$PWD/build/python" python -m pytest -q tests/native/test_sizes.py
part adapters env SOAK_ADAPTERS="${SOAK_ADAPTERS:-1000}" SOAK_SEED="$seed" PYTHONPATH="$PWD/build/python" python -m pytest -q tests/native/test_adapters.py
part pairs env STOKER_PAIRS="${SOAK_PAIRS:-110}" PYTHONPATH="$PWD/build/python" python -m pytest -q python/tests/test_pairs.py
part draws env STOKER_DRAWS="${SOAK_DRAWS:-100000}" STOKER_BOXED="${SOAK_BOXED:-10000}" PYTHONPATH="$PWD/build/python" python -m pytest -q \
    tests/recipes/test_torchvision.py tests/recipes/test_iou_crop.py -k "drawn_as_torchvisions or kept_is"
part interrupts env STOKER_INTERRUPTS="$attacks" STOKER_SEED="$seed" python -m pytest -q python/tests/test_interrupts.py \
    python/tests/test_python_interrupts.py
part seeds env STOKER_SETUPS="${SOAK_SETUPS:-500}" STOKER_SEED="$seed" PYTHONPATH="$PWD/build/python" python -m pytest -q \
    python/tests/test_python_seeds.py
if python -c 'import torch.distributed' 2>/dev/null; then under=20; else under=0; fi
part killed-runs python tests/resume/killed.py --runs "$runs" --torchrun $((under < runs ? under : runs)) --seed "$seed"
part python-workers env STOKER_SOAK_KILLS=20 PYTHONPATH="$PWD/build/python" python -m pytest -q \
    python/tests/test_python_workers.py -k no_orphans_when
part memory-limits env SOAK_LIMITS=1 PYTHONPATH="$PWD/build/python" python -m pytest -q python/tests/test_memory.py
part store-faults env STOKER_FAULTS="${SOAK_FAULTS:-1000}" STOKER_FORKS=100 python -m pytest -q tests/stores/test_stores.py
part store-kills env STOKER_KILLS="${SOAK_KILLS:-100}" python -m pytest -q tests/stores/test_cache.py tests/stores/test_map_remote.py -k killed
majors() { # libavcodec 60, 61 and 62, of PyAV's wheels
    local version folder all=""
    for version in 12.3.0 13.1.0 15.1.0 16.0.1 18.1.0; do
        folder=build/soak-av-$version
        [ -d "$folder" ] || python -m pip install -q --no-deps --target "$folder" "av==$version" || return
        all=$all:$(find "$PWD/$folder/av.libs" -name 'libavcodec*')
    done
    STOKER_LIBAVS=$all python -m pytest -q tests/video/test_libav_majors.py
}
part libav-majors majors
part videos env SOAK_VIDEOS="${SOAK_VIDEOS:-300}" SOAK_SEED="$seed" python -m pytest -q tests/video/test_other_programs.py -k made_files
part blob-pages env STOKER_BLOBS=5100 PYTHONPATH="$PWD/build/python" python -m pytest -q tests/stores/test_azure.py -k many_pages
part doctor-cases build/tests/seams/doctor_cases 1000 $((1000 + cases)) --gains
if python -c 'import torch' 2>/dev/null; then
    part torch-bits env PYTHONPATH="$PWD/build/python" python -W ignore python/tests/torch_bits.py "$seed" $((seed + ${SOAK_BITS:-2000}))
    part data-loader env STOKER_INTERRUPTS="$attacks" PYTHONPATH="$PWD/build/python" python -m pytest -q \
        python/tests/test_dataloader_states.py
    part watch-cases python -W ignore tests/soak/watch_cases.py 1000 $((1000 + cases))
fi

echo "soak: $failed parts failed; log: $log"
[ $failed = 0 ]
