#!/bin/bash
# dry_workspaces.sh TREE OUT - reads cuDNN's workspaces off a GPU: OUT/workspaces.tsv.gz has what PyTorch asked cuDNN in some
# hundred thousand convolutions, and in normalizations, recurrent layers and attention, and what it said.
# scripts/dnn_rules.py makes dry/dnn/convolutions.def of it, for the version and card that it was run with.
#
# TREE is not looked at.  Needs PyTorch with torchvision ($TEST_PYTHON or python3) and gcc.  DRY_WORKSPACES_SHARES
# processes (12) play cases for DRY_WORKSPACES_SECONDS (100), the most important first; the whole takes half a minute
# more.  Exit 77 without a GPU.
set -u
out=${2:?OUT: a folder} here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out" && out=$(realpath "$out")
python=${TEST_PYTHON:-python3} shares=${DRY_WORKSPACES_SHARES:-12} seconds=${DRY_WORKSPACES_SECONDS:-100}
dnn=$here/../../dry/dnn
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
"$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || { echo "SKIP: no GPU or no PyTorch"; exit 77; }
gcc -O1 -shared -fPIC -D_GNU_SOURCE -fvisibility=hidden -I"$dnn/.." -I"$dnn" -o "$work/trace.so" "$here/dry_workspaces.c" \
    "$dnn/backend.c" "$dnn/graph.c" "$dnn/types.c" -ldl -lpthread || exit 1
CUDA_VISIBLE_DEVICES='' "$python" -W ignore "$here/dry_workspaces.py" cases "$work/cases" &
making=$!
DRY_WORKSPACES_LOG=$work/log.own LD_PRELOAD=$work/trace.so${LD_PRELOAD:+:$LD_PRELOAD} timeout 60 \
    "$python" -W ignore "$here/dry_workspaces.py" own >"$work/said.own" 2>&1 || tail -n 5 "$work/said.own"
wait $making || exit 1

export CUDA_MODULE_LOADING=LAZY OMP_NUM_THREADS=1
for ((i = 0; i < shares; i++)); do
    DRY_WORKSPACES_LOG=$work/log.$i LD_PRELOAD=$work/trace.so${LD_PRELOAD:+:$LD_PRELOAD} timeout $((seconds + 40)) \
        "$python" -W ignore "$here/dry_workspaces.py" play "$work/cases" "$i" "$shares" "$seconds" >"$work/said.$i" 2>&1 &
done
wait
tail -qn 1 "$work"/said.*
"$python" "$here/dry_workspaces.py" table "$work/workspaces.tsv" "$work"/log.* && gzip -9c "$work/workspaces.tsv" >"$out/workspaces.tsv.gz"
