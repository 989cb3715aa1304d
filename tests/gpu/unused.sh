#!/bin/bash
# unused.sh TREE OUT - what is reserved and not allocated, taken apart, against PyTorch's own snapshot of the same moment (unused.py),
# with native and expandable segments. A minute. RECORDER=fit: dry runs, in which no block waits.
. "$(dirname "$0")/gpu.bash"
recorder=${RECORDER:-run}
[ "$recorder" = fit ] || need
for conf in "" expandable_segments:True; do
    for case in stream graph mempool all; do
        db=$work/$case.db
        rm -f "$db"
        PYTORCH_CUDA_ALLOC_CONF=$conf timeout 120 "$V" "$recorder" -o "$db" -- "$python" "$here/unused.py" $case >"$work/out" 2>&1
        sed -n "s/^facts //p" "$work/out" >"$work/facts.json"
        "$V" peak --json "$db" >"$work/peak.json" && "$V" peak "$db" >"$work/peak.txt"
        why=$(python3 - "$work/facts.json" "$work/peak.json" "$work/peak.txt" $case <<'PY'
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
        ) || why="nothing to compare: $(tail -n 3 "$work/out")"
        case $why in
        ok*) pass "${conf:-native} $case: ${why#ok }" ;;
        *) fail "${conf:-native} $case: $why" ;;
        esac
    done
done
counted
