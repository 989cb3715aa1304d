#!/bin/bash
# estimate.sh TREE OUT - vramscope estimate beside recordings of Hugging Face models: Llama (plain, checkpointed, short), GPT-2, Qwen2, in bf16 with
# PyTorch's AdamW. A table of estimate, measured and difference for every phase and row goes to OUT/estimate.md; what is exact by formula (parameters,
# gradients, optimizer states at the peak) is held to 5 %: PyTorch's blocks may be 1 MiB larger than their tensors.
#
# TREE: an installed vramscope.  Needs a GPU, PyTorch ($TEST_PYTHON or python3) and the package transformers.  Takes about 90 s.
# Ends with "N passed, N failed"; exit 77 without a GPU.
set -u
tree=$(realpath "${1:?TREE: an installed tree}") out=${2:?OUT: a folder} here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out" && out=$(realpath "$out")
python=${TEST_PYTHON:-python3} V=$tree/bin/vramscope
"$python" -c 'import torch, transformers, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || { echo "SKIP: no GPU, no PyTorch or no transformers"; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
passed=0 failed=0
printf '| model | figure | estimate, GiB | measured, GiB | difference |\n| --- | --- | --- | --- | --- |\n' >"$out/estimate.md"
for case in ${CASES:-llama llama-recompute llama-short gpt2 qwen2}; do
    timeout 60 "$V" run -q -o "$work/$case.db" -- "$python" "$here/estimate.py" train "$case" 4 "$work/$case" >"$work/log" 2>&1 ||
        { echo "FAIL: $case ended with $?"; tail -n 5 "$work/log"; }
    if "$python" "$here/estimate.py" check "$case" "$work/$case" "$work/$case.db" "$V" "$out/estimate.md"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
    "$V" report --all "$work/$case.db" 2>&1 | head -n 30 >"$out/$case.txt"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
