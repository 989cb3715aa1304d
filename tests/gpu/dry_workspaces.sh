#!/bin/bash
# dry_workspaces.sh TREE OUT - asks the GPU's cuDNN how much room convolutions want, as PyTorch asks it, and runs none.
#
# Asked are the 360 of tests/data/dnn_measured.txt, on their card and version of cuDNN (else exit 77), and each must be answered as
# there. DRY_WORKSPACES_LAYERS: a file of layers (see dry_workspaces_ask.c) to ask about instead, for DRY_WORKSPACES_ASK seconds
# (300). scripts/dnn_rules.py makes dry/dnn/convolutions.def of OUT/workspaces.tsv.gz. The lists for cuDNN 9.19 were written by
# tests/gpu/dry_workspaces_layers.py of tree f972a5ba.
. "$(dirname "$0")/gpu.bash"
"${CC:-gcc}" -O1 -std=gnu11 -o "$work/ask" "$here/dry_workspaces_ask.c" -ldl || exit 1
"$python" -W ignore "$here/dry_workspaces.py" libraries >"$work/libraries" || { echo "SKIP: no GPU or no PyTorch" && exit 77; }
{ read -r machine && read -r libraries; } <"$work/libraries"
layers=$work/layers
case ${DRY_WORKSPACES_LAYERS:-} in
'') [ "$machine" = "91900 NVIDIA H200" ] || { echo "SKIP: this is $machine, the list is of cuDNN 9.19.0 on an H200" && exit 77; }
    "$python" "$here/dry_workspaces.py" layers "$layers" ;;
*.gz) gzip -dc "$DRY_WORKSPACES_LAYERS" >"$layers" ;;
*) cp "$DRY_WORKSPACES_LAYERS" "$layers" ;;
esac || exit 1

shares=$(nproc) seconds=${DRY_WORKSPACES_ASK:-300} asking=()
for ((i = 0; i < shares; i++)); do
    LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout $((seconds + 20)) \
        "$work/ask" "$layers" "$i" "$shares" "$seconds" >"$work/answers.$i" 2>"$work/asked.$i" &
    asking+=($!)
done
trap 'kill "${asking[@]}" 2>/dev/null' INT TERM # what was answered until then is kept
wait "${asking[@]}"
cat "$work"/asked.*
"$python" "$here/dry_workspaces.py" answers "$out/workspaces.tsv.gz" "$layers" "$work"/answers.* || exit 1
[ -n "${DRY_WORKSPACES_LAYERS:-}" ] || "$python" "$here/dry_workspaces.py" compare "$out/workspaces.tsv.gz"
