#!/bin/bash
# types_written.sh - `whatif --edit=types=bf16` holds of models of Hugging Face's whose attention is written in Python.  Some ask a softmax for fp32,
# some do not, some make their queries fp32; no recording says which, so the interval has room for all three.  MODELS: these alone.
here=$(cd "$(dirname "$0")" && pwd)
python=${TEST_PYTHON:-python3}
"$python" -c 'import torch, transformers' 2>/dev/null || { echo "SKIPPED: $python has no torch with transformers (TEST_PYTHON names one that has)"; exit 77; }
. "$here/../e2e/lib/lib.bash"
"${CC:-cc}" -O1 -shared -fPIC -o "$dir/cpu_blocks.so" "$here/../e2e/frameworks/cpu_blocks.c" || fail "cpu_blocks.c"
V=$BUILD/bin/vramscope
failures=0
for model in ${MODELS:-bloom mpt bert llama gptj codegen}; do
    for what in base plain bf16; do
        LD_PRELOAD=$dir/cpu_blocks.so OMP_NUM_THREADS=2 timeout 600 "$V" run --simulated -q -o "$dir/$model-$what.db" -- "$python" "$here/types_written.py" "$model" $what \
            "$dir/$model.json" >"$dir/out" 2>"$dir/err" || fail "$model $what: $(tail -n 3 "$dir/err")"
    done
    python3 "$here/types_judge.py" "$model" "$dir/$model-base.db" "$dir/$model.json" "$dir/$model-bf16.db" "$V" "$dir/$model-plain.db" || failures=$((failures + 1))
done
[ $failures = 0 ] || fail "$failures models"
