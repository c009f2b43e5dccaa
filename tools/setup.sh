#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make setup: system packages, .venv, the build, and stoker inside .venv.
#
# Every step first looks whether it is already done, so a second run costs well under a second and
# prints nothing.  Packages come from apt where we are root or may sudo without a password;
# elsewhere the set-up goes on with what is installed and names, in one line, what that leaves out.
#
#   TORCH=0  leaves torch out
#   --build  only what compiling needs: no build here, nothing that tests import
#   --bench  also valgrind, for instruction counts
#   --tests  also the servers that tests start (SERVICES=0 leaves them out)
set -eu
cd "$(dirname "$0")/.."

with_bench=0
with_tests=0
only_build=0
for arg in "$@"; do
    case $arg in
        --build) only_build=1 ;;
        --bench) with_bench=1 ;;
        --tests) with_tests=1 ;;
        *) echo "setup: unknown argument '$arg'; there are --build, --bench and --tests" >&2; exit 2 ;;
    esac
done
VENV=.venv
SCRATCH=$(mktemp -d)
building=""                             # the process that builds, while packages of Python are installed
trap '[ -z "$building" ] || kill "$building" 2>/dev/null || true; rm -rf "$SCRATCH"' EXIT
LOG=$SCRATCH/log
said=0

say() { said=1; echo "setup: $*"; }
die() { echo "setup: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Run a command quietly; show the end of what it said only when it fails.
quietly() {
    "$@" >"$LOG" 2>&1 && return
    tail -n 30 "$LOG" >&2
    die "failed: $*"
}

# ---- what is there ---------------------------------------------------------------------------

# A Python that can build us: 3.11 or newer, with headers and the module named in $2.
python_fits() {
    have "$1" && "$1" -c "import $2, os, sys, sysconfig
header = os.path.join(sysconfig.get_path('include'), 'Python.h')
sys.exit(not (sys.version_info >= (3, 11) and os.path.exists(header)))" >/dev/null 2>&1
}
find_python() {
    local p
    for p in python3 /usr/bin/python3 python3.{14,13,12,11}; do
        if python_fits "$p" ensurepip; then echo "$p"; return; fi
    done
    return 1
}
find_clang() {
    local c
    for c in clang clang-{20,19,18,17,16,15,14}; do
        if have "$c"; then echo "$c"; return; fi
    done
    return 1
}
# clang without its run-time library, a package of its own, compiles but does not link this.
clang_sanitizes() {
    local clang
    clang=$(find_clang) &&
        echo 'int main(void) { return 0; }' |
        "$clang" -fsanitize=thread -x c - -o "$SCRATCH/a.out" >/dev/null 2>&1
}
# Whether the C compiler finds the last of these headers; the others are those it leans on.
has_header() {
    have cc && printf '#include <%s>\n' "$@" | cc -E -x c - >/dev/null 2>&1
}
jpeg_package() {
    if grep -q '^ID=ubuntu' /etc/os-release 2>/dev/null
    then echo libjpeg-turbo8-dev; else echo libjpeg62-turbo-dev; fi
}

# One line for each thing that is missing: package|what is left out without it.
missing() {
    have cc         || echo "gcc|everything: there is no C compiler"
    python_fits "$VENV/bin/python" pip || find_python >/dev/null ||
        echo "python3|everything: Python 3.11 with venv and headers is needed"
    have c++        || echo "g++|the check of public headers as C++"
    have git        || echo "git|nothing but history: lint walks the folder"
    have pkg-config || echo "pkg-config|libraries that only pkg-config finds"
    has_header stddef.h stdio.h jpeglib.h || echo "$(jpeg_package)|JPEG decoding"
    has_header spng.h || echo "libspng-dev|PNG decoding"
    has_header webp/decode.h || echo "libwebp-dev|WebP decoding"
    has_header mpg123.h || echo "libmpg123-dev|MP3 decoding"
    has_header opus/opus.h || echo "libopus-dev|Opus decoding"
    has_header vorbis/codec.h || echo "libvorbis-dev|Vorbis decoding"
    has_header stddef.h liburing.h || echo "liburing-dev|io_uring for cold files"
    has_header zlib.h || echo "zlib1g-dev|.gz fields"
    has_header zstd.h || echo "libzstd-dev|.zst fields"
    has_header curl/curl.h && has_header openssl/evp.h && has_header stdlib.h expat.h ||
        echo "libcurl4-openssl-dev|remote data: http, s3, gs, az, hf"
    if [ $with_tests = 1 ]; then
        have ffmpeg || echo "ffmpeg|tests of videos: it makes them and is their oracle; its libavcodec decodes H.264, HEVC, VP9 and MPEG-4"
        have flac || echo "flac|tests of FLAC: it makes recordings of 4 to 32 bits and is their oracle"
        have mkvmerge || echo "mkvtoolnix|tests of Matroska files that ffmpeg did not write"
        { have gst-launch-1.0 && gst-inspect-1.0 --exists mp4mux && gst-inspect-1.0 --exists h264parse; } ||
            echo "gstreamer1.0-tools|tests of MP4 and Matroska files that ffmpeg did not write"
        compgen -c clang-tidy >/dev/null || echo "clang-tidy|its checks in make lint"
        have espeak-ng || echo "espeak-ng|the example that learns speech makes it by that"
        have x264 || echo "x264|tests of Matroska files that ffmpeg did not write"
    fi
    if [ $with_tests = 1 ] && [ "${SERVICES:-1}" != 0 ]; then
        { have swift-proxy-server && have memcached; } || echo "swift-proxy|tests against a real S3 server"
        have chromium || ! grep -q '^ID=debian' /etc/os-release || # Ubuntu's is a stub that fetches a snap
            echo "chromium|tests of pages in a browser"
        have lz4 || echo "lz4|tests of .lz4 fields"
        have nginx || [ -x /usr/sbin/nginx ] || echo "nginx-light|tests against a web server with TLS"
        { have node && have npm; } || echo "npm|tests against a server of Azure Blob"
    fi
    has_header libdeflate.h || echo "libdeflate-dev|nothing but time: gzip pages and chunks are unpacked by zlib"
    has_header stdint.h ffnvcodec/dynlink_nvcuvid.h || echo "libffmpeg-nvenc-dev|videos on the GPU: workers decode them"
    has_header stdint.h dav1d/dav1d.h || echo "libdav1d-dev|AV1 videos by dav1d: libavcodec's decoder is used where it has one"
    has_header lz4frame.h || echo "liblz4-dev|.lz4 fields and shards; tables packed with lz4"
    has_header xxhash.h || echo "libxxhash-dev|the check of xxh64 hashes in MDS indices"
    has_header brotli/decode.h || echo "libbrotli-dev|Parquet pages packed with brotli"
    has_header stdio.h bzlib.h || echo "libbz2-dev|MDS shards packed with bzip2"
    has_header szlib.h || echo "libaec-dev|HDF5 chunks packed with szip"
    has_header stdarg.h stddef.h stdint.h setjmp.h cmocka.h ||
        echo "libcmocka-dev|the C unit tests"
    have ccache     || echo "ccache|nothing but time: builds start from nothing after every clean"
    clang_sanitizes || echo "clang|libFuzzer; TSan then runs on gcc"
    if [ $with_bench = 1 ]; then
        have valgrind || echo "valgrind|instruction counts in the bench"
    fi
}

# ---- system packages -------------------------------------------------------------------------

# Some names stand for several packages.
expand_package() {
    local clang
    case $1 in
        gcc)      echo gcc libc6-dev ;;
        python3)  echo python3 python3-venv python3-dev ;;
        gstreamer1.0-tools) echo gstreamer1.0-tools gstreamer1.0-plugins-good gstreamer1.0-plugins-bad ;;
        valgrind) echo valgrind libc6-dbg ;;
        libcurl4-openssl-dev) echo libcurl4-openssl-dev libssl-dev libexpat1-dev ;;
        swift-proxy) echo swift-proxy swift-account swift-container swift-object memcached ;;
        clang)    # clang-14 on Debian 12, clang-18 on Ubuntu 24.04, with its run-time library
            clang=$(apt-cache depends clang | grep -o 'clang-[0-9]*' | head -n 1)
            echo "$clang lib${clang/clang/clang-rt}-dev" ;;
        clang-tidy)
            echo "$(apt-cache depends clang-tidy | grep -o 'clang-tidy-[0-9]*' | head -n 1)" ;;
        *)        echo "$1" ;;
    esac
}

# $1: "" or how to become root; then packages.
apt_install() {
    local as_root=$1
    shift
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >"$LOG" 2>&1
}

install_packages() {
    local as_root="" packages="" p
    have apt-get || return 1
    if [ "$(id -u)" != 0 ]; then
        { have sudo && sudo -n true 2>/dev/null; } || return 1
        as_root="sudo -n"
    fi
    say "looking up packages (apt-get update)"
    $as_root apt-get update -qq >"$LOG" 2>&1 || say "apt-get update: $(tail -n 1 "$LOG")"
    while IFS='|' read -r p _; do
        packages+=" $(expand_package "$p")"
    done <<<"$1"
    say "installing$packages"
    # shellcheck disable=SC2086  # a list of names
    apt_install "$as_root" $packages && return
    tail -n 5 "$LOG" >&2
    say "installing them one by one"      # one that is not to be had must not cost the others
    while IFS='|' read -r p _; do
        # shellcheck disable=SC2046  # a list of names
        apt_install "$as_root" $(expand_package "$p") || say "$p: $(tail -n 1 "$LOG")"
    done <<<"$1"
}

lines=$(missing)
packages_changed=0
if [ -n "$lines" ]; then
    if install_packages "$lines"; then packages_changed=1; fi
    hash -r
    lines=$(missing)
fi
if [ -n "$lines" ]; then
    say "not installed, so left out: $(sed 's/|\(.*\)/ (\1)/' <<<"$lines" | paste -sd , | sed 's/,/, /g')"
    if grep -q '|everything' <<<"$lines"; then
        die "cannot go on; as root: apt-get install gcc libc6-dev python3 python3-venv python3-dev"
    fi
fi

# ---- .venv -----------------------------------------------------------------------------------

if ! python_fits "$VENV/bin/python" pip; then
    python=$(find_python)
    say "making $VENV with $("$python" --version)"
    quietly "$python" -m venv --clear "$VENV"
fi

# Install one requirement file, with options of pip, unless its stamp says that just this text is installed.
install_requirements() {
    local file=tools/requirements/$1.txt stamp=$VENV/stamp-$1 sum
    shift
    sum=$(sha256sum <"$file")
    if [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ]; then return; fi
    say "installing $(grep -v '^#' "$file" | paste -sd ' ')"
    # Python compiles what it imports; most of 19,000 files never are.
    quietly "$VENV/bin/python" -m pip install --disable-pip-version-check -q --no-compile "$@" -r "$file"
    echo "$sum" >"$stamp"
}
install_requirements build
if [ $only_build = 1 ]; then exit 0; fi

# ---- the build, beside what is installed after it ----------------------------------------------

PATH=$PWD/$VENV/bin:$PATH
build() {
    if [ ! -f build/build.ninja ]; then
        # -g1: functions and lines, for stacks; a seventh less to compile than with variables
        meson setup build --buildtype=release -Ddebug=true -Dc_args=-g1
    elif [ $packages_changed = 1 ]; then
        meson setup --reconfigure --clearcache build
    fi && exec nice ninja -C build
}
if [ ! -f build/build.ninja ] || [ $packages_changed = 1 ] || ! ninja -C build -n | grep -q 'no work to do'; then
    say "building"
    build >"$SCRATCH/build" 2>&1 &
    building=$!
fi

# ---- what tests and examples import --------------------------------------------------------------

install_requirements test
if [ "$(cat "$VENV/stamp-optional" 2>/dev/null)" != "$(sha256sum <tools/requirements/optional.txt)" ]; then
    "$VENV/bin/python" -m pip install --disable-pip-version-check -q --no-compile --no-deps -r tools/requirements/optional.txt >/dev/null 2>&1 ||
        say "not there for this Python, so their tests skip: $(grep -v '^#' tools/requirements/optional.txt | paste -sd ' ')"
    sha256sum <tools/requirements/optional.txt >"$VENV/stamp-optional"
fi
if [ "${TORCH:-1}" != 0 ]; then
    install_requirements torch
    install_requirements frameworks --no-deps
    install_requirements oracles --no-deps --target "$VENV/oracles" --upgrade
fi
if [ "${TORCH:-1}" != 0 ] && ! (install_requirements transforms --no-deps --target "$VENV/transforms" --upgrade) 2>/dev/null; then
    say "timm and albumentations can't be installed, so left out: the tests that translate their recipes are skipped"
fi
if [ "${TORCH:-1}" != 0 ] && ! (install_requirements sound --no-deps --target "$VENV/sound" --upgrade) 2>/dev/null; then
    say "torchaudio, lhotse, NeMo and kaldi-native-fbank can't be installed, so left out: tests of features against them are skipped"
fi
rm -f "$VENV"/sound/torchaudio/lib/*.so
if ! (install_requirements ray --no-deps --target "$VENV/ray" --upgrade) 2>/dev/null; then
    say "Ray can't be installed, so left out: the tests of pack(engine=\"ray\") are skipped"
fi

azurite=$VENV/azurite/node_modules/.bin/azurite-blob
if [ $with_tests = 1 ] && [ "${SERVICES:-1}" != 0 ] && have npm && [ ! -x "$azurite" ]; then
    say "installing azurite"
    npm install --silent --no-fund --no-audit --prefix "$VENV/azurite" azurite@3 >"$LOG" 2>&1 ||
        say "Azurite can't be installed, so left out: the tests of Azure Blob are skipped"
fi

# ---- stoker inside .venv -----------------------------------------------------------------------

if [ -n "$building" ]; then
    wait "$building" || { tail -n 30 "$SCRATCH/build" >&2; die "failed: the build"; }
    building=""
fi
for made in build/cli/stoker build/python/stoker/__init__.py; do
    [ -e "$made" ] || die "the build made no $made; look at 'ninja -C build -v'"
done
site=$(echo "$VENV"/lib/python3.*/site-packages)
if [ "$(readlink "$VENV/bin/stoker" || true)" != ../../build/cli/stoker ] ||
   [ "$(cat "$site/stoker.pth" 2>/dev/null)" != "$PWD/build/python" ]; then
    ln -sfn ../../build/cli/stoker "$VENV/bin/stoker"
    echo "$PWD/build/python" >"$site/stoker.pth"
    say "stoker is in $VENV: 'source .venv/bin/activate', then 'stoker --help', 'import stoker'"
fi
if [ $said = 1 ]; then say "done"; fi
