#!/bin/bash
# build.sh - configures and builds one preset with the CUDA headers that setup.sh found.
#
#   scripts/build.sh PRESET CUDA_INCLUDE_DIR [cmake option...]
#
# Quiet when it works; shows the end of the log when it does not.  BUILD_DIR builds elsewhere than build/PRESET,
# TARGETS (separated by blanks) not everything.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1 include=$2
shift 2
dir=${BUILD_DIR:-build/$preset}
targets=()
[ -z "${TARGETS:-}" ] || read -ra targets <<<"--target $TARGETS"
mkdir -p "$dir"
log=$dir/build.log
if ! { cmake --preset "$preset" -B "$dir" -DCUDA_INCLUDE_DIR="$include" "$@" && cmake --build "$dir" "${targets[@]}"; } >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "build.sh: building $preset failed; the end of $log is above" >&2
    exit 1
fi
