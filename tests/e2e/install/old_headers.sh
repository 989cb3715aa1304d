#!/bin/bash
# CUDA headers that are too old, or none, end cmake with one line that says which, where, and what to do.
set -u
root=$(cd "$(dirname "$0")/../../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-e2e.XXXXXX")
trap 'rm -rf "$dir"' EXIT
command -v cmake >/dev/null || { echo "skipped: there is no cmake"; exit 77; }

refused() { # WHAT
    if cmake -S "$root" -B "$dir/build" -G Ninja -DCUDA_INCLUDE_DIR="$dir/include" >"$dir/log" 2>&1; then
        echo "FAIL: $1: cmake went on" && exit 1
    fi
    # cmake folds a long line
    tr -s '\n ' '  ' <"$dir/log" | grep -qF "$1" || { echo "FAIL: $1: not said:" && cat "$dir/log" && exit 1; }
    [ "$(grep -c '^CMake Error' "$dir/log")" = 1 ] || { echo "FAIL: $1: more than one error:" && cat "$dir/log" && exit 1; }
}

mkdir "$dir/include"
refused "no cuda.h in '$dir/include': run scripts/setup.sh"
echo '#define CUDA_VERSION 12020' >"$dir/include/cuda.h"
refused "the CUDA headers in '$dir/include' are too old (CUDA_VERSION 12020): have 12.3 or later"
echo "old headers are refused"
