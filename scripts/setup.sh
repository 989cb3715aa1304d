#!/bin/bash
# setup.sh - installs what building vramscope needs and this machine lacks (Debian and Ubuntu).
#
#   scripts/setup.sh [build|test]      test adds what tests/run.sh needs: clang, clang-format, mandoc
#
# Prints one line on stdout: CUDA_INCLUDE_DIR=DIR, for cmake -DCUDA_INCLUDE_DIR=DIR.  Only CUDA's headers are needed,
# no toolkit and no driver: where no toolkit is found they come from the wheels that NVIDIA publishes on PyPI, into
# build/deps.  Takes a fraction of a second when everything is there, and may be run any number of times.
set -euo pipefail
cd "$(dirname "$0")/.."

want=${1:-build}
deps=$PWD/build/deps

packages=(build-essential cmake ninja-build libsqlite3-dev sqlite3 libunwind-dev liblzma-dev patchelf
    libdw-dev libelf-dev zlib1g-dev libbz2-dev libcmocka-dev gnuplot-nox fonts-dejavu-core
    python3 python3-pip ca-certificates)
case $want in
build) ;;
test) packages+=(clang clang-format mandoc shellcheck) ;;
*)
    echo "setup.sh: $want: unknown; say build or test" >&2
    exit 2
    ;;
esac

say() { echo "setup: $*" >&2; }

die() {
    echo "setup: $*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "installing packages wants root and there is no sudo; as root: apt-get install ${missing[*]}"
    fi
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
        >>"$deps/apt.log" 2>&1
}

# Whether apt knows every package of the list: otherwise its lists are missing or old.
apt_knows() {
    local name
    for name in "$@"; do
        [ -n "$(apt-cache policy "$name" 2>/dev/null)" ] || return 1
    done
}

install_packages() {
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "no apt here: have these, under your system's names: ${packages[*]}"
        return
    fi
    missing=()
    local installed name
    installed=" $(dpkg-query -W -f '${Package} ${db:Status-Status}\n' 2>/dev/null | sed -n 's/ installed$//p' | tr '\n' ' ') "
    for name in "${packages[@]}"; do
        [[ $installed == *" $name "* ]] || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    : >"$deps/apt.log"
    if apt_knows "${missing[@]}" && apt_install "${missing[@]}"; then
        return
    fi
    as_root apt-get update -qq >>"$deps/apt.log" 2>&1 || say "apt-get update failed; going on with the lists that are here"
    apt_install "${missing[@]}" || {
        tail -n 15 "$deps/apt.log" >&2
        die "apt-get could not install ${missing[*]}; the end of $deps/apt.log is above"
    }
}

# The include directory of an installed CUDA toolkit of 13.0 or later, which the simulated driver wants, that has NVTX 3 too.
installed_headers() {
    local dir
    for dir in "${CUDA_HOME:-/nonexistent}/include" /usr/local/cuda/include /usr/include; do
        if [ -f "$dir/cuda.h" ] && [ -f "$dir/nvtx3/nvToolsExt.h" ] &&
            [ "$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$dir/cuda.h")" -ge 13000 ]; then
            echo "$dir"
            return
        fi
    done
    return 1
}

wheel_headers() {
    local include=$deps/cuda/include
    if [ ! -f "$include/.complete" ]; then
        say "no CUDA toolkit: fetching the CUDA 13.0 headers from PyPI"
        rm -rf "$deps/wheels" "$deps/cuda"
        mkdir -p "$deps/wheels" "$include"
        python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
            --dest "$deps/wheels" 'nvidia-cuda-runtime==13.0.*' 'nvidia-nvtx==13.0.*' >"$deps/pip.log" 2>&1 || {
            tail -n 5 "$deps/pip.log" >&2
            die "pip could not fetch nvidia-cuda-runtime and nvidia-nvtx; install a CUDA toolkit or set CUDA_HOME"
        }
        for wheel in "$deps"/wheels/*.whl; do
            python3 -m zipfile -e "$wheel" "$deps/wheels/unpacked"
        done
        cp -r "$deps"/wheels/unpacked/nvidia/cu13/include/. "$include/"
        rm -rf "$deps/wheels"
        if [ ! -f "$include/cuda.h" ] || [ ! -d "$include/nvtx3" ]; then
            die "the wheels hold no cuda.h or no nvtx3; install a CUDA toolkit or set CUDA_HOME"
        fi
        touch "$include/.complete"
    fi
    echo "$include"
}

mkdir -p "$deps"
install_packages
include=$(installed_headers) || include=$(wheel_headers)
echo "CUDA_INCLUDE_DIR=$include"
