#!/bin/bash
# dry_workspaces.sh TREE OUT - reads cuDNN's workspaces off a GPU, for its version and that card.  OUT/workspaces.tsv.gz
# has what PyTorch asked cuDNN in layers that were run (convolutions, normalizations, recurrent ones, attention), and
# what it said.  OUT/answers.*.gz have what cuDNN says of convolutions that are asked about only.  scripts/dnn_rules.py
# makes dry/dnn/convolutions.def of both.
#
# TREE is not looked at.  Needs PyTorch with torchvision, transformers where they are ($TEST_PYTHON or python3) and gcc.
# DRY_WORKSPACES_SHARES processes (one a processor) play cases for DRY_WORKSPACES_SECONDS (100; 0: none), then ask about
# layers for DRY_WORKSPACES_ASK (300), the most important first.  DRY_WORKSPACES_LAYERS: a file of these, may be .gz;
# else they are made, which takes minutes.  Answers are written as they come.  Exit 77 without a GPU.
#
# More layers for the version that is known, in 400 s of an H200 with 16 processors: here
#     tests/gpu/dry_workspaces_layers.py layers build/layers 1600000 workspaces.tsv.gz; gzip -9 build/layers
# there, with build/layers.gz carried along,
#     DRY_WORKSPACES_SECONDS=0 DRY_WORKSPACES_LAYERS=build/layers.gz DRY_WORKSPACES_ASK=340 timeout -s INT 400 tests/gpu/dry_workspaces.sh . $OUT
# and here again
#     gunzip -k build/layers.gz; tests/gpu/dry_workspaces_layers.py answers more.tsv.gz build/layers $OUT/answers.*.gz
#     tests/gpu/dry_workspaces_layers.py compare more.tsv.gz workspaces.tsv.gz; scripts/dnn_rules.py workspaces.tsv.gz more.tsv.gz dry/dnn/convolutions.def
set -u
out=${2:?OUT: a folder} here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out" && out=$(realpath "$out")
python=${TEST_PYTHON:-python3} shares=${DRY_WORKSPACES_SHARES:-$(nproc)} seconds=${DRY_WORKSPACES_SECONDS:-100}
dnn=$here/../../dry/dnn layers=${DRY_WORKSPACES_LAYERS:-}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
gcc -O1 -std=gnu11 -o "$work/ask" "$here/dry_workspaces_ask.c" -ldl || exit 1
# Where PyTorch has its cuDNN, and what that loads.
"$python" -c 'import os, re, sys, torch
torch.cuda.is_available() or sys.exit(77)
torch.backends.cudnn.version()
torch.nn.functional.conv2d(torch.zeros(1, 1, 4, 4, device="cuda"), torch.zeros(1, 1, 3, 3, device="cuda"))
print(":".join(dict.fromkeys(os.path.dirname(p) for p in re.findall(r"/\S*/lib(?:cudnn|cublas|nvrtc|cudart)\S*", open("/proc/self/maps").read()))))
print("machine", f"cudnn={torch.backends.cudnn.version()} torch={torch.__version__} card={torch.cuda.get_device_name()}", file=sys.stderr)' >"$work/libraries" || { echo "SKIP: no GPU or no PyTorch"; exit 77; }
if [ "$seconds" != 0 ]; then
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
fi

case $layers in
'') CUDA_VISIBLE_DEVICES='' "$python" -W ignore "$here/dry_workspaces_layers.py" layers "$work/layers" 1600000 && layers=$work/layers && cp "$layers" "$out" || exit 1 ;;
*.gz) gzip -dc "$layers" >"$work/layers" && layers=$work/layers || exit 1 ;;
esac
libraries=$(cat "$work/libraries")
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# The device as cuDNN describes it, and whether cuDNN says the same of the description as of the device.
DRY_WORKSPACES_PROPERTIES=$out/properties.json DRY_WORKSPACES_DEVICE=1 timeout 60 "$work/ask" /dev/null 0 1 1
DRY_WORKSPACES_PROPERTIES=$out/properties.json CUDA_VISIBLE_DEVICES='' timeout 60 "$work/ask" "$layers" 0 1 5 2>&1 | gzip >"$out/deviceless.gz" &
alone=$!
# Several write into one pipe, a line at once: few files come back from elsewhere.  15 MiB of each are kept.
files=4 pids=() pipes=()
for ((j = 0; j < files; j++)); do
    exec {pipe}> >(trap '' INT; gzip | head -c 15728640 >"$out/answers.$j.gz")
    pipes+=("$pipe") pids+=($!)
done
asking=()
for ((i = 0; i < shares; i++)); do
    pipe=${pipes[i % files]}
    timeout $((${DRY_WORKSPACES_ASK:-300} + 20)) "$work/ask" "$layers" "$i" "$shares" "${DRY_WORKSPACES_ASK:-300}" 1>&"$pipe" 2>"$work/asked.$i" &
    asking+=($!)
done
trap 'kill "${asking[@]}" 2>/dev/null' INT TERM
for pid in "${asking[@]}"; do
    wait "$pid"
done
for pipe in "${pipes[@]}"; do
    exec {pipe}>&-
done
wait "${pids[@]}" "$alone"
cat "$work"/asked.*
