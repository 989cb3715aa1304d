#!/bin/bash
# estimate.sh TREE OUT - vramscope estimate beside recordings of Hugging Face models in bf16 (estimate.py): OUT/estimate.md. 90 s.
. "$(dirname "$0")/gpu.bash"
need transformers
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
counted
