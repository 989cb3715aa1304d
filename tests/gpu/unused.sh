#!/bin/bash
# unused.sh TREE - what is reserved and not allocated, taken apart, against PyTorch's own snapshot of the same moment (unused.py),
# with native and expandable segments. A minute. RECORDER=fit: dry runs, in which no block waits.
set -u
tree=$(realpath "${1:?TREE: an installed tree}") here=$(cd "$(dirname "$0")" && pwd)
python=${TEST_PYTHON:-python3} V=$tree/bin/vramscope recorder=${RECORDER:-run}
gpus=$("$python" -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null || echo 0)
[ "$gpus" -ge 1 ] || [ "$recorder" = fit ] || { echo "SKIP: no GPU or no PyTorch"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
for conf in "" expandable_segments:True; do
    for case in stream graph mempool all; do
        db=$dir/$case.db
        rm -f "$db"
        PYTORCH_CUDA_ALLOC_CONF=$conf timeout 120 "$V" "$recorder" -o "$db" -- "$python" "$here/unused.py" $case >"$dir/out" 2>&1
        sed -n "s/^facts //p" "$dir/out" >"$dir/facts.json"
        "$V" peak --json "$db" >"$dir/peak.json" && "$V" peak "$db" >"$dir/peak.txt"
        why=$(python3 - "$dir/facts.json" "$dir/peak.json" "$dir/peak.txt" $case <<'PY'
import json
import sys

facts, peak = (json.load(open(name)) for name in sys.argv[1:3])
text, case = open(sys.argv[3]).read(), sys.argv[4]
u = peak["files"][0]["devices"][0]["not_allocated"]
got = {k: sum(r["size_bytes"] for r in u["rows"] if r["kind"] == k) for k in ("cached", "waiting", "private pool")}
lines = {r["kind"]: r["line"] for r in u["rows"] if r["line"]}
problems = [f"{k}: {got[k]}, PyTorch has {facts[k]}" for k in got if got[k] != facts[k]]
problems += [f"no line of {k}" for k in ("waiting", "private pool") if facts[k] and "unused.py" not in lines.get(k, "")]
problems += ["it does not add up"] * (sum(r["size_bytes"] for r in u["rows"]) != u["not_allocated_bytes"])
problems += ["two captures are not listed"] * (case in ("graph", "all") and len(peak["files"][0]["devices"][0]["captures"]) != 2)
print("; ".join(problems) or f"ok {got}")
PY
        ) || why="nothing to compare: $(tail -n 3 "$dir/out")"
        case $why in
        ok*) echo "PASS  ${conf:-native} $case: ${why#ok }" && passed=$((passed + 1)) ;;
        *) echo "FAIL  ${conf:-native} $case: $why" && failed=$((failed + 1)) ;;
        esac
    done
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
