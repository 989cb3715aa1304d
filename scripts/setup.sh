#!/bin/bash
# setup.sh - installs what building vramscope needs and this machine lacks (Debian and Ubuntu).
#
#   scripts/setup.sh [build|test|full|gpu|package]
#       test      as build, and what tests/run.sh needs: clang, clang-format, mandoc, musl, the newest CUDA's headers (3 MB); Chromium (300 MB), if it
#                 can be had
#       full      as test, and what tests/run.sh full needs: a compiler for aarch64, lintian, debootstrap, Firefox and WebKitGTK
#       gpu       as build, and what the kernels need: nvcc (100 MB) and cuBLAS (400 MB); where they can't be had it says so and goes on
#       package   as gpu, and what scripts/deb.sh needs: dpkg-dev, file
#
# Prints one line on stdout: CUDA_INCLUDE_DIR=DIR, for cmake -DCUDA_INCLUDE_DIR=DIR.  Where no toolkit is found, CUDA's headers come from the
# wheels that NVIDIA publishes on PyPI, into build/deps.  May be run any number of times: a fraction of a second when everything is there.
set -euo pipefail
cd "$(dirname "$0")/.."

want=${1:-build}
browser=
deps=$PWD/build/deps

packages=(build-essential cmake ninja-build libsqlite3-dev sqlite3 libunwind-dev liblzma-dev patchelf
    libdw-dev libelf-dev zlib1g-dev libbz2-dev libjansson-dev libcmocka-dev gnuplot-nox fonts-dejavu-core
    python3 python3-pip ca-certificates)
case $want in
build | gpu) ;;
package) packages+=(dpkg-dev file fakeroot) ;;
test | full) packages+=(clang clang-format mandoc shellcheck musl-tools) ;;
*)
    echo "setup.sh: $want: unknown; say build, test, full, gpu or package" >&2
    exit 2
    ;;
esac

if [ "$want" = test ] || [ "$want" = full ]; then
    browser=chromium # for the test of vramscope view's page
fi
[ "$want" != full ] || packages+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross dpkg-dev file fakeroot lintian debootstrap unzip
    firefox-esr webkit2gtk-driver xvfb)

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

# patiently WHAT LOG COMMAND...: runs it into LOG, and says every ten seconds how far that is.
patiently() {
    local what=$1 log=$2 job next=$((SECONDS + 10)) begin=$SECONDS
    shift 2
    "$@" >>"$log" 2>&1 &
    job=$!
    while kill -0 $job 2>/dev/null; do
        sleep 0.2
        if [ "$SECONDS" -ge "$next" ]; then
            say "still $what, for $((SECONDS - begin)) s: $(tail -n 1 "$log" 2>/dev/null | cut -c -100)"
            next=$((SECONDS + 10))
        fi
    done
    wait $job
}

apt_install() {
    patiently installing "$deps/apt.log" as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
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
    patiently "reading the lists of packages" "$deps/apt.log" as_root apt-get update -qq || say "apt-get update failed; going on with the lists that are here"
    apt_install "${missing[@]}" || {
        tail -n 15 "$deps/apt.log" >&2
        die "apt-get could not install ${missing[*]}; the end of $deps/apt.log is above"
    }
}

# The include directory of an installed CUDA toolkit of 13.0 or later, which the simulated driver wants, that has the runtime's
# headers (those that lie in crt/, too) and NVTX 3.
installed_headers() {
    local dir
    for dir in "${CUDA_HOME:-/nonexistent}/include" /usr/local/cuda/include /usr/include; do
        if [ -f "$dir/cuda.h" ] && [ -f "$dir/cuda_runtime_api.h" ] && [ -f "$dir/crt/host_defines.h" ] && [ -f "$dir/nvtx3/nvToolsExt.h" ] &&
            [ "$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$dir/cuda.h")" -ge 13000 ]; then
            echo "$dir"
            return
        fi
    done
    return 1
}

# fetch_wheels INTO NAME...: their files, unpacked, into a directory.
fetch_wheels() {
    local into=$1
    shift
    rm -rf "$deps/wheels"
    mkdir -p "$deps/wheels" "$into"
    : >"$deps/pip.log"
    patiently fetching "$deps/pip.log" python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --dest "$deps/wheels" "$@" || return 1
    for wheel in "$deps"/wheels/*.whl; do
        python3 -m zipfile -e "$wheel" "$deps/wheels/unpacked" || return 1
    done
    cp -r "$deps"/wheels/unpacked/nvidia/cu*/. "$into/" || return 1
    rm -rf "$deps/wheels"
}

wheel_headers() {
    local include=$deps/cuda/include
    if [ ! -f "$include/.complete" ] || [ ! -f "$include/crt/host_defines.h" ]; then
        say "no CUDA toolkit: fetching the CUDA 13.0 headers from PyPI"
        rm -rf "$deps/cuda"
        fetch_wheels "$deps/cuda" 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-nvtx==13.0.*' || {
            tail -n 5 "$deps/pip.log" >&2
            die "pip could not fetch nvidia-cuda-runtime, nvidia-cuda-crt and nvidia-nvtx; install a CUDA toolkit or set CUDA_HOME"
        }
        if [ ! -f "$include/cuda.h" ] || [ ! -d "$include/nvtx3" ]; then
            die "the wheels hold no cuda.h or no nvtx3; install a CUDA toolkit or set CUDA_HOME"
        fi
        touch "$include/.complete"
    fi
    echo "$include"
}

# has_compiler INCLUDE: whether cmake will find an nvcc, and cuBLASLt's header beside the others.
has_compiler() {
    [ -f "$1/cublasLt.h" ] || return 1
    [ -x "$1/../bin/nvcc" ] || [ -x "${CUDA_HOME:-/nonexistent}/bin/nvcc" ] || [ -x /usr/local/cuda/bin/nvcc ] || command -v nvcc >/dev/null
}

# What the kernels need, beside the headers from PyPI.  A machine that cannot have it still builds everything else.
wheel_compiler() {
    local include=$deps/cuda/include
    say "no nvcc: fetching nvcc and cuBLAS 13.0 from PyPI, for the example's kernels"
    if fetch_wheels "$deps/cuda" 'nvidia-cuda-nvcc==13.0.*' 'nvidia-nvvm==13.0.*' 'nvidia-cuda-cccl==13.0.*' \
        'nvidia-cublas==13.0.*' 2>>"$deps/pip.log"; then
        chmod +x "$deps"/cuda/bin/* "$deps"/cuda/nvvm/bin/* 2>/dev/null || true
    fi
    if ! "$deps/cuda/bin/nvcc" --version >/dev/null 2>&1 || [ ! -f "$include/cublasLt.h" ]; then
        rm -rf "$deps/wheels" "$deps/cuda/bin" "$deps/cuda/nvvm"
        say "nvcc and cuBLAS could not be fetched (the reason is in $deps/pip.log): no kernels for a GPU will be built"
    fi
}

# The newest CUDA's headers, into build/deps/newest: nothing is built with them; a test holds the hooks' table against them.
newest_headers() {
    [ ! -d "$deps/newest" ] || return 0
    say "fetching the newest CUDA's headers from PyPI, for the test of the driver's table"
    rm -rf "$deps/newest.part"
    if fetch_wheels "$deps/newest.part" nvidia-cuda-runtime && [ -f "$deps/newest.part/include/cuda.h" ]; then
        mv "$deps/newest.part" "$deps/newest"
    else
        say "not fetched (the reason is in $deps/pip.log): whether the hooks know the newest CUDA stays untested"
    fi
}

# for_python DIRECTORY WHAT PACKAGE...: the packages for python3, into a directory of build/deps; without them WHAT is not tested.
for_python() {
    local into=$deps/$1 what=$2
    shift 2
    [ ! -d "$into" ] || return 0
    say "fetching $* from PyPI, for the tests"
    rm -rf "$into.part"
    if python3 -m pip install --quiet --disable-pip-version-check --target "$into.part" "$@" >"$deps/pip.log" 2>&1; then
        mv "$into.part" "$into"
    else
        say "not fetched (the reason is in $deps/pip.log): $what stays untested"
    fi
}

# Prometheus's programs without its package, which would start a server.
prometheus() {
    [ ! -d "$deps/prometheus" ] && command -v apt-get >/dev/null || return 0
    say "fetching Prometheus, for the test of vramscope top --prometheus"
    rm -rf "$deps/prometheus.part"
    mkdir -p "$deps/prometheus.part"
    if (cd "$deps/prometheus.part" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb) >"$deps/apt.log" 2>&1; then
        mv "$deps/prometheus.part" "$deps/prometheus"
    else
        say "not fetched (the reason is in $deps/apt.log): the figures for a monitor stay untested"
    fi
}

# clang's address sanitizer is a package of its own on some systems, and part of clang on others.
clang_sanitizes() { clang -fsanitize=address -x c -o /dev/null - <<<'int main(void) { return 0; }' 2>/dev/null; }

mkdir -p "$deps"
install_packages
if [[ $want = test || $want = full ]]; then
    for_python pytest "the pytest plugin" pytest pytest-xdist
    for_python mcp "vramscope mcp with a client" mcp
    for_python numpy "what the linear cross-entropy computes" numpy
    prometheus
    newest_headers
    if ! clang_sanitizes && command -v apt-get >/dev/null; then
        say "installing clang's sanitizers"
        apt_install libclang-rt-dev || say "they could not be installed: gcc's take their place in the tests"
    fi
fi
if [ -n "$browser" ] && command -v apt-get >/dev/null && ! command -v "$browser" >/dev/null; then
    say "installing $browser"
    apt_install "$browser" || say "$browser could not be installed: the page of vramscope view stays untested"
fi
include=$(installed_headers) || include=$(wheel_headers)
if [[ $want = gpu || $want = package ]] && ! has_compiler "$include"; then
    include=$(wheel_headers)
    has_compiler "$include" || wheel_compiler
fi
echo "CUDA_INCLUDE_DIR=$include"
