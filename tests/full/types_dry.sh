#!/bin/bash
# types_dry.sh - what `whatif --edit=types=bf16`, alone and with what the loss computes in, says of dry runs in fp32 and under autocast, holds
# allocated of the same program in bf16.  Reserved is printed: its ends are replays, not bounds.
here=$(cd "$(dirname "$0")" && pwd)
python=${TEST_PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null || { echo "SKIPPED: $python has no torch (TEST_PYTHON names one that has)"; exit 77; }
. "$here/../e2e/lib/lib.bash"
V=$BUILD/bin/vramscope
models="wide:50257:2:512:4096 narrow:50257:2:512:4096"
! "$python" -c 'import transformers' 2>/dev/null || models+=" llama:32000:2:512:4096 qwen:100000:3:768:2048 gpt2:50257:3:512:4096"
failures=0
for model in $models; do
    IFS=: read -r kind vocab layers width tokens <<<"$model"
    for what in fp32 autocast bf16; do
        timeout 200 "$V" fit -o "$dir/$kind-$what.db" -- "$python" "$here/types_dry.py" "$kind" $what "$vocab" "$layers" "$width" "$tokens" >"$dir/out" 2>&1 ||
            fail "$kind $what: $(tail -n 3 "$dir/out")"
    done
    said=fp32
    [ "$kind" != narrow ] || said=bf16
    for what in fp32 autocast; do
        for edit in types=bf16 "types=bf16,loss=$said"; do
            "$V" whatif --json "$dir/$kind-$what.db" --edit="$edit" >"$dir/said.json" || fail "$kind $what $edit"
            "$python" - "$kind, $what, $edit" "$dir" "$kind" <<'EOF' || failures=$((failures + 1))
import json, sqlite3, sys
name, where, kind = sys.argv[1:]
true = dict(sqlite3.connect(f"{where}/{kind}-bf16.db").execute("SELECT kind, peak_bytes FROM peak WHERE device = 0"))
row = next(p for p in json.load(open(f"{where}/said.json"))["devices"][0]["edits"][-1]["policies"] if p["policy"] == "torch-native")
held = True
for what, figure in ("allocated", "framework"), ("reserved", "managed_reserved"):
    low, high, is_ = row[what + "_low_bytes"], row[what + "_high_bytes"], true[figure]
    beside = is_ / high - 1 if is_ > high else is_ / low - 1 if is_ < low else 0
    print(f"{name}: {what} {low >> 20} to {high >> 20} MiB, {100 * (high / low - 1):.0f} % wide; {is_ >> 20}" + (f", {100 * beside:+.1f} % beside" if beside else ""))
    held = held and (what == "reserved" or not beside)
sys.exit(not held)
EOF
        done
    done
done
[ $failures = 0 ] || fail "$failures do not hold"
