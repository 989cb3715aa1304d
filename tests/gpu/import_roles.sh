#!/bin/bash
# import_roles.sh TREE OUT [CASE...] - what an imported snapshot's call stacks and lifetimes say of its blocks, against PyTorch's word
# (import_roles.py), for each way to record it. Needs torchvision and transformers; two minutes.
. "$(dirname "$0")/gpu.bash"
need
shift 2
cases=("$@")
[ ${#cases[@]} -gt 0 ] || cases=(llama cnn checkpoint accumulate perceptron amp frozen resnet lstm vit fused refused generate adversaries)
for case in "${cases[@]}"; do
    timeout 120 "$V" run --access -q -o "$work/run.db" -- "$python" "$here/import_roles.py" train "$case" "$work/run" >"$work/log" 2>&1 ||
        { echo "FAIL: $case ended with $?" && tail -n 5 "$work/log" && failed=$((failed + 1)) && continue; }
    for how in ring=0 python late=0.4 python-ring=0.4; do
        "$python" "$here/import_roles.py" cut "$work/run.pickle" "$work/cut.pickle" $how
        "$V" import -o "$work/import.db" "$work/cut.pickle" >/dev/null
        "$python" "$here/import_roles.py" check "$case:$how" "$work/run.db" "$work/run.json" "$work/import.db"
        rm -f "$work/import.db"
    done | tee -a "$out/import_roles.txt"
    rm -f "$work"/run.*
done
grep -q . "$out/import_roles.txt" || exit 1
passed=$(grep -c '^PASS' "$out/import_roles.txt") failed=$((failed + $(grep -c '^FAIL' "$out/import_roles.txt")))
counted
