#!/bin/bash
# predictions_zero.sh TREE OUT - what `vramscope whatif --edit zero=STAGE:RANKS` says of a recording on one GPU, held against as many
# GPUs.
#
# The stages are predicted first (OUT/zero.MODEL.json); then the model trains on RANKS GPUs (2), recorded: DDP alone,
# ZeroRedundancyOptimizer, fully_shard in two ways. MODELS: "llama" unless named; also qwen, mixtral, gemma, opt, olmo, phi,
# granitemoe.
. "$(dirname "$0")/gpu.bash"
ranks=${RANKS:-2}
read -ra models <<<"${MODELS:-${MODEL:-llama}}"
gpus=$("$python" -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null || echo 0)
[ "$gpus" -ge "$ranks" ] || { echo "SKIP: fewer than $ranks GPUs"; exit 77; }
export OMP_NUM_THREADS=2

predict() { # predict MODEL
    local w=$work/$1
    mkdir "$w"
    timeout 90 "$V" run -q -o "$w/$1.base.native.db" -- "$python" "$here/predictions_model.py" "$1" >"$w/$1.base.native.json" 2>"$w/base.err" ||
        { echo "bad $1:"; tail -n 3 "$w/base.err"; }
    for stage in 1 2 3; do
        "$V" whatif --json -e "zero=$stage:$ranks" "$w/$1.base.native.db" >"$w/$1.zero=$stage:$ranks.predicted" 2>"$w/$1.zero=$stage:$ranks.err"
    done
    "$python" "$here/predictions_table.py" gather "$w" "$out/zero.$1.json" >/dev/null
}
train() { # train MODEL STAGE
    local w=$work/$1
    timeout 110 "$V" run -q -o "$w/zero$2.%r.db" -- "$python" -m torch.distributed.run --standalone --nproc-per-node "$ranks" "$here/predictions_zero.py" "$2" "$1" \
        >"$w/zero$2.jsonl" 2>"$w/zero$2.err" || { echo "bad $1 stage $2:"; grep -hE 'Error' "$w/zero$2.err" | sort -u | head -n 4 | cut -c1-300; }
}
for model in "${models[@]}"; do predict "$model" & done
wait
for model in "${models[@]}"; do (cd "$out" && sha256sum "zero.$model.json"); done
for model in "${models[@]}"; do
    for stage in 0 1 2 3; do train "$model" $stage & done
done
wait
status=0
for model in "${models[@]}"; do
    echo "$model, $ranks ranks"
    grep -hE '^\{"stage"' "$work/$model"/zero?.jsonl >"$out/zero.$model.jsonl"
    "$python" "$here/predictions_table.py" zero "$out/zero.$model.json" "$out/zero.$model.jsonl" "$work/$model/$model.base.native.json" | tee "$out/zero.$model.md"
    [ "${PIPESTATUS[0]}" = 0 ] || status=1
    (cd "$work/$model" && tar cf - -- "$model.base.native.db" zero*.db) | xz -T8 -2 >"$out/zero.$model.txz" &
done
wait
exit "$status"
