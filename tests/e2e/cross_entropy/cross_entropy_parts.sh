#!/bin/bash
# The linear cross-entropy in three PyTorch processes on the CPU that have a part of the vocabulary each.
set -u
: "${BUILD:?BUILD is the build directory}"
here=$(dirname "$(realpath "$0")")
python=${TEST_PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null || { echo "skipped: no Python with PyTorch here (TEST_PYTHON names one)"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
dir=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-e2e.XXXXXX")
export TORCHINDUCTOR_CACHE_DIR=$dir/inductor # else it leaves a directory in TMPDIR
trap 'rm -rf "$dir"' EXIT
RANKS=3 LCE_LIBRARY=$BUILD/lib/liblinear_cross_entropy.so "$python" "$here/cross_entropy_parts.py" cpu
