#!/bin/bash
# predictions_zero.sh TREE OUT - what `vramscope whatif --edit zero=STAGE:2` says of a recording on one GPU, held against two GPUs.
#
# A model (MODEL: llama, qwen, mixtral or gemma) is recorded on one GPU, as predictions.sh does it.  Of that recording the stages 1, 2 and 3 over two ranks are predicted, and written to OUT/zero.json.  Only then it is
# trained on two GPUs: DDP alone (no edit: what DDP itself takes), ZeroRedundancyOptimizer, and fully_shard with what was gathered kept over forward, or not; recorded, each rank.
#
# TREE: an installed vramscope.  OUT: the predictions, the peaks (zero.jsonl), the table and the recordings (zero.txz).  Needs two GPUs and PyTorch with transformers; about a minute.
# Ends with "N within, N outside"; exit 77 without two GPUs.
set -u
tree=$(realpath "${1:?TREE: an installed tree}") out=${2:?OUT: a folder} here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out" && out=$(realpath "$out")
model=${MODEL:-llama} python=${TEST_PYTHON:-python3} V=$tree/bin/vramscope
gpus=$("$python" -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null || echo 0)
[ "$gpus" -ge 2 ] || { echo "SKIP: fewer than two GPUs"; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=2
timeout 60 "$V" run -q -o "$work/$model.base.native.db" -- "$python" "$here/predictions_model.py" "$model" >"$work/$model.base.native.json" 2>"$work/base.err" ||
    tail -n 3 "$work/base.err"
for stage in 1 2 3; do
    "$V" whatif --json -e "zero=$stage:2" "$work/$model.base.native.db" >"$work/$model.zero=$stage:2.predicted" 2>"$work/$model.zero=$stage:2.err"
done
"$python" "$here/predictions_table.py" gather "$work" "$out/zero.json"
sha256sum "$out/zero.json"
for stage in 0 1 2 3; do
    timeout 70 "$V" run -q -o "$work/zero$stage.%r.db" -- "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$here/predictions_zero.py" "$stage" "$model" \
        >"$work/zero$stage.jsonl" 2>"$work/zero$stage.err" || { echo "bad stage $stage:"; tail -n 6 "$work/zero$stage.err" | cut -c1-300; } &
done
wait
grep -hE '^\{"stage"' "$work"/zero?.jsonl >"$out/zero.jsonl"
"$python" "$here/predictions_table.py" zero "$out/zero.json" "$out/zero.jsonl" "$work/$model.base.native.json" | tee "$out/zero.md"
status=${PIPESTATUS[0]}
(cd "$work" && tar cf - -- "$model.base.native.db" zero*.db) | xz -T8 -4 >"$out/zero.txz"
exit "$status"
