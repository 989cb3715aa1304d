#!/bin/bash
# loss_patch.sh TREE OUT - vramscope.patch_loss on a GPU: eight Hugging Face models train fifty steps with it and twice without; peaks
# before and after against the bound of the report; the tests of the operator and of the patch, with two GPUs under DDP, FSDP1 and
# FSDP2 too.
#
# LOSS_PATCH_PARTS (tests losses memory), LOSS_PATCH_MODELS: these alone. Needs transformers, TREE's kernels and 60 GiB (120: faster);
# two minutes. LOSS_PATCH_TRY=1 tries the losses on the CPU.
python=python3
. "$(dirname "$0")/gpu.bash"
try=${LOSS_PATCH_TRY:-}
parts=" ${LOSS_PATCH_PARTS:-${try:+losses}} "
[ "$parts" = "  " ] && parts=" tests losses memory "
[ -n "$try" ] || need
python3 -c 'import transformers' 2>/dev/null || {
    echo "skipped: no transformers for python3"
    exit 77
}
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 BINDING=$tree/share/vramscope/python TORCHINDUCTOR_CACHE_DIR=$work/inductor
export PYTHONPATH=$BINDING${PYTHONPATH:+:$PYTHONPATH} OMP_NUM_THREADS=2 here work tree
has() { case $parts in *" $1 "*) ;; *) return 1 ;; esac; }
export LOSS_PATCH_MODELS=${LOSS_PATCH_MODELS:-Gemma3 Gemma2 Gemma Llama Qwen3 Qwen2 GPT2 Mistral} # the largest first
gpus=$(python3 -c 'import torch; print(torch.cuda.device_count())')
large=$([ -z "$try" ] && python3 -c 'import torch; print(int(torch.cuda.mem_get_info()[0] > 100 << 30))')
IFS=, read -r -a visible <<<"${CUDA_VISIBLE_DEVICES:-0,1}" # of these the first, or the first two
export first=${visible[0]:-0}
jobs=3
[ "$large" = 1 ] && jobs=6

# one WHAT ARGUMENTS...: a part of loss_patch_models.py; the recorded ones under vramscope
one() {
    local what=$1 name=$work/${2:-}-${3:-}
    case $what in
    losses) CUDA_VISIBLE_DEVICES=$first timeout --kill-after=5 140 python3 "$here/loss_patch_models.py" losses "$2" "$work/$2-losses.json" >"$work/$2-losses.log" 2>&1 ;;
    memory)
        CUDA_VISIBLE_DEVICES=$first timeout --kill-after=5 110 "$tree/bin/vramscope" run -o "$name.db" -- \
            python3 "$here/loss_patch_models.py" memory "$2" "$3" "$name.json" >"$name.log" 2>&1 &&
            "$tree/bin/vramscope" report --json "$name.db" >"$name-report.json" 2>>"$name.log"
        ;;
    esac
    echo "$* ended with $? after $SECONDS s" >>"$work/ends"
}
# test_of FILE [GPUS]: a file of tests/e2e/cross_entropy on the GPU
test_of() {
    CUDA_VISIBLE_DEVICES=${2:-$first} timeout --kill-after=5 110 python3 "$here/../e2e/cross_entropy/$1.py" cuda >"$work/$1.log" 2>&1
    echo $? >"$work/$1.status"
}
export -f one
tests="cross_entropy_binding cross_entropy_operator loss_patch loss_patch_training"
if has tests; then
    python3 -c 'import peft' 2>/dev/null || echo "no peft for python3: the tests of loss_patch.py that need it will fail"
    for name in $tests; do test_of "$name" & done
    if [ "$gpus" -ge 2 ]; then
        for name in cross_entropy_ranks loss_patch_ranks; do test_of "$name" "$first,${visible[1]}" & done
        tests="$tests cross_entropy_ranks loss_patch_ranks"
    else
        echo "skipped: DDP, FSDP1 and FSDP2 (two GPUs are needed, $gpus here)"
    fi
fi
{
    has memory && for name in $LOSS_PATCH_MODELS; do printf 'memory %s eager\nmemory %s patched\n' "$name" "$name"; done
    has losses && for name in $LOSS_PATCH_MODELS; do echo "losses $name"; done
} | xargs -P "$jobs" -L 1 bash -c 'one "$@"' one
wait

verdict() {
    local status=0 name
    # shellcheck disable=SC2086 # words
    python3 "$here/loss_patch_models.py" table "$work" $parts || status=1
    has tests || tests=
    for name in $tests; do
        if [ "$(cat "$work/$name.status")" = 0 ]; then
            echo "ok   $name.py on the GPU: $(tail -n 1 "$work/$name.log")"
        else
            echo "FAIL $name.py on the GPU (status $(cat "$work/$name.status"))"
            grep -A 30 '^FAIL' "$work/$name.log" | tail -n 80
            tail -n 3 "$work/$name.log"
            status=1
        fi
    done
    return $status
}
verdict >"$out/loss_patch.txt" 2>&1 || failed=1
cat "$out/loss_patch.txt"
for log in "$work"/*-losses.log "$work"/*-eager.log "$work"/*-patched.log; do
    [ -e "$log" ] && grep -q 'Error' "$log" && { echo "--- $(basename "$log")" && tail -n 6 "$log"; }
done
grep -v 'ended with 0 ' "$work/ends" 2>/dev/null
(cd "$work" && tar -czf "$out/loss_patch.tgz" -- *.json *.log ends 2>/dev/null)
echo "after $SECONDS s: $([ "$failed" = 0 ] && echo passed || echo FAILED)"
exit "$failed"
