#!/bin/bash
# What `whatif --edit` predicts of a recording of real PyTorch is what was allocated once the change is made; what a recording lacks is one
# line.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch

record() { # NAME WORDS...: trains; without workspaces, which would be most of it
    local name=$1
    shift
    LD_PRELOAD=$stand_ins LD_LIBRARY_PATH=$BUILD/sim:$BUILD/dry SIMCUDA_DRY=1 CUBLAS_WORKSPACE_CONFIG=:16:1 timeout 120 "$V" run --simulated -q -o "$dir/$name.db" -- "$python" "$here/whatif_edits.py" "$@" >"$dir/out" 2>"$dir/err" ||
        fail "$name: exit status $?: $(cat "$dir/err")"
}
record base &
record changed checkpoint loop &
wait
"$V" whatif --json -e checkpoint=1 -e foreach=no "$dir/base.db" >"$dir/said.json" || fail "whatif: $(cat "$dir/said.json")"
"$V" whatif --json "$dir/base.db" >"$dir/all.json" || fail "whatif of all: $(cat "$dir/all.json")"
python3 - "$dir" <<'PY' || fail "see above"
import json, sqlite3, sys
d = sys.argv[1]
taken = lambda name: sqlite3.connect(f"{d}/{name}.db").execute("SELECT peak_bytes FROM peak WHERE device = 0 AND kind = 'framework'").fetchone()[0]
base, said = json.load(open(d + "/said.json"))["devices"][0]["edits"]
of = lambda row: next(p for p in row["policies"] if p["policy"] == "live")
low, high = of(said)["allocated_low_bytes"], of(said)["allocated_high_bytes"]
before, after = taken("base"), taken("changed")
print(f"before {before}, changed {after}, said {low} to {high}")
bad = []
if abs(of(base)["allocated_high_bytes"] - before) > 4096:  # blocks are rounded to 512 bytes
    bad.append(f"as recorded it is {of(base)['allocated_high_bytes']}")
if after > 0.8 * before:
    bad.append("the change saves next to nothing: the test tests nothing")
if not 0.98 * low <= after <= 1.02 * high:
    bad.append("what was said is not what it took")
rows = json.load(open(d + "/all.json"))["devices"][0]["edits"]
refused = {r["edit"]: r["refused"] for r in rows if r["refused"]}
if "logits" not in (refused.get("loss=fused") or "") or any(r["policies"] for r in rows if r["refused"]):
    bad.append(f"refused: {refused}")
if {r["edit"] for r in rows} < {None, "foreach=no", "states=8bit", "checkpoint=1", "batch=0.5", "zero=1:8"}:
    bad.append("not all edits were tried")
policies = [p for r in rows for p in r["policies"]]
if any(p["reserved_low_bytes"] < p["allocated_low_bytes"] for p in policies):
    bad.append("less is reserved than allocated")
if any("optimizer" not in {phase["phase"] for phase in p["phases"]} for p in policies):
    bad.append("the optimizer's phase has nothing, though parameters live")
print("\n".join(bad))
raise SystemExit(bool(bad))
PY
"$V" whatif "$dir/base.db" >"$dir/text" || fail "whatif as text"
grep -q '^  loss=fused: nothing to change: ' "$dir/text" || fail "the refused edit: $(cat "$dir/text")"

one_line() { # TEXT ARGUMENTS...
    local text=$1
    shift
    timeout 300 "$V" whatif "$@" >"$dir/out" 2>"$dir/err"
    [ $? = 2 ] && [ "$(wc -l <"$dir/err")" = 1 ] && grep -qF -- "$text" "$dir/err" || fail "whatif $*: not one line '$text': $(cat "$dir/err")"
}
one_line "did you mean 'foreach'" -e forach=no "$dir/base.db"
one_line "there are loss, foreach" -e foo "$dir/base.db"
one_line "it can't go with states=8bit" -e states=8bit -e states=host "$dir/base.db"
one_line "takes" -e checkpoint=0 "$dir/base.db"
one_line "loss=fused" -e foreach=no -e loss=fused "$dir/base.db"
echo "a change of a program took what was said of it"
