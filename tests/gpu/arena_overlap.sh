#!/bin/bash
# arena_overlap.sh TREE OUT - kernels that overlap (programmatic dependent launch) on memory that is mapped twice.
#
# Compiles arena_overlap.cu on the GPU machine and runs it; TREE is not needed.  One GPU, some 20 seconds.
set -u
[ $# = 2 ] || { echo "usage: arena_overlap.sh TREE OUT" >&2 && exit 2; }
out=$2 nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
nvidia-smi -L > /dev/null 2>&1 || { echo "skipped: no GPU" && exit 77; }
[ -x "$nvcc" ] || { echo "skipped: no nvcc to compile the kernels with" && exit 77; }
mkdir -p "$out" || exit 1
"$nvcc" -O2 -arch=native "$(dirname "$0")/arena_overlap.cu" -lcuda -o "$out/arena_overlap" || exit 1
"$out/arena_overlap" 4000 2>&1 | tee "$out/arena_overlap.txt"
status=${PIPESTATUS[0]}
rm -f "$out/arena_overlap"
exit "$status"
