#!/bin/bash
# types_predicted.sh - `whatif --edit=types=bf16` of three real PyTorch programs, in fp32 and under autocast, holds their peak in bf16, or is refused
# where too few types are known.  On the CPU, whose blocks have no types: the program writes them down.
here=$(cd "$(dirname "$0")" && pwd)
python=${TEST_PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null || { echo "SKIPPED: $python has no torch (TEST_PYTHON names one that has)"; exit 77; }
. "$here/../e2e/lib/lib.bash"
"${CC:-cc}" -O1 -shared -fPIC -o "$dir/cpu_blocks.so" "$here/../e2e/frameworks/cpu_blocks.c" || fail "cpu_blocks.c"
V=$BUILD/bin/vramscope

record() { # MODEL WHAT
    LD_PRELOAD=$dir/cpu_blocks.so timeout 600 "$V" run --simulated -q -o "$dir/$1-$2.db" -- "$python" "$here/types_program.py" "$1" "$2" "$dir/$1-$2.json" \
        >"$dir/out" 2>"$dir/err" || fail "$1 $2: $(cat "$dir/err")"
}
failures=0
for model in gpt cnn mlp; do
    record $model bf16
    for what in base autocast; do
        record $model $what
        python3 "$here/types_judge.py" "$model, $what" "$dir/$model-$what.db" "$dir/$model-$what.json" "$dir/$model-bf16.db" "$V" || failures=$((failures + 1))
    done
done
[ $failures = 0 ] || fail "$failures of 6"
