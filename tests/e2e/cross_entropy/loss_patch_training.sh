#!/bin/bash
# vramscope.patch_loss on the CPU: fifty steps of eight models, and a Trainer, as without it.
set -u
: "${BUILD:?BUILD is the build directory}"
here=$(dirname "$(realpath "$0")")
python=${TEST_PYTHON:-python3}
"$python" -c 'import torch, transformers, accelerate' 2>/dev/null || { echo "skipped: no Python with PyTorch, Transformers and accelerate here (TEST_PYTHON names one)"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
dir=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-e2e.XXXXXX")
export TORCHINDUCTOR_CACHE_DIR=$dir/inductor # else it leaves a directory in TMPDIR
trap 'rm -rf "$dir"' EXIT
LCE_LIBRARY=$BUILD/lib/liblinear_cross_entropy.so "$python" "$here/loss_patch_training.py" cpu
