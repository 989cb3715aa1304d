#!/bin/bash
# types_predicted.sh - `whatif --edit=types=bf16` of real PyTorch programs, in fp32 and under autocast, holds their peak in bf16, or is refused where
# too few types are known.  On the CPU, whose blocks have no types: the program writes them down.
#
# Models of Hugging Face's have their attention written in Python: some ask a softmax for fp32, some do not, some make their queries fp32; no recording
# says which, so the interval has room for all three.  MODELS: these alone.
. "$(dirname "$0")/../e2e/lib/lib.bash"
find_torch
"${CC:-cc}" -O1 -shared -fPIC -o "$dir/cpu_blocks.so" "$here/../e2e/frameworks/cpu_blocks.c" || fail "cpu_blocks.c"

record() { # MODEL WHAT
    LD_PRELOAD=$dir/cpu_blocks.so OMP_NUM_THREADS=2 timeout 600 "$V" run --simulated -q -o "$dir/$1-$2.db" -- "$python" "$here/types_program.py" "$1" "$2" \
        "$dir/$1-$2.json" >"$dir/out" 2>"$dir/err" || fail "$1 $2: $(tail -n 3 "$dir/err")"
}
failures=0
judge() { # MODEL WHAT [PLAIN.db]
    python3 "$here/types_judge.py" "$1, $2" "$dir/$1-$2.db" "$dir/$1-$2.json" "$dir/$1-bf16.db" "$V" "${@:3}" || failures=$((failures + 1))
}
models="gpt cnn mlp"
if has_modules "$python" transformers; then models+=" bloom mpt bert llama gptj codegen"; else echo "not tried: $python has no transformers"; fi
for model in ${MODELS:-$models}; do
    record $model bf16
    record $model base
    if [[ " gpt cnn mlp " == *" $model "* ]]; then
        record $model autocast
        judge $model base
        judge $model autocast
    else # the log's calls are in the stacks
        record $model plain
        judge $model base "$dir/$model-plain.db"
    fi
done
[ $failures = 0 ] || fail "$failures do not hold"
