#!/bin/bash
# checkpoint=K of a model with stages recomputes every K-th block of all stages, and the operations between them as a block, as predicted.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch

record() { # NAME WORDS...: trains; without workspaces, which would be most of it
    local name=$1
    shift
    LD_PRELOAD=$stand_ins LD_LIBRARY_PATH=$BUILD/sim:$BUILD/dry SIMCUDA_DRY=1 CUBLAS_WORKSPACE_CONFIG=:16:1 timeout 280 "$V" run --simulated -q -o "$dir/$name.db" -- "$python" "$here/whatif_edits.py" stages "$@" >"$dir/out.$name" 2>"$dir/err.$name" ||
        fail "$name: exit status $?: $(cat "$dir/err.$name")"
}
both() { # NAME WORDS... -- NAME WORDS...: at a time
    local first=() one
    while [ "$1" != -- ]; do
        first+=("$1")
        shift
    done
    record "${first[@]}" &
    one=$!
    shift
    record "$@" && wait "$one" || exit 1
}
both base -- one every 1
both two every 2 -- whole every 1 whole
"$V" whatif --json -e checkpoint=1 "$dir/base.db" >"$dir/one.json" || fail "whatif: $(cat "$dir/one.json")"
"$V" whatif --json -e checkpoint=2 "$dir/base.db" >"$dir/two.json" || fail "whatif: $(cat "$dir/two.json")"
"$V" whatif --json -e 'checkpoint=1:Staged.features.*' "$dir/base.db" >"$dir/whole.json" || fail "whatif: $(cat "$dir/whole.json")"
"$V" whatif -e 'checkpoint=1:Staged.feature' "$dir/base.db" 2>"$dir/err"
[ $? = 2 ] && grep -q 'no module of the recording has the path Staged.feature: vramscope peak --by=layer shows them$' "$dir/err" || fail "a path that nothing has: $(cat "$dir/err")"
python3 - "$dir" <<'PY' || fail "see above"
import json, sqlite3, sys
d = sys.argv[1]
taken = lambda name: dict(sqlite3.connect(f"{d}/{name}.db").execute("SELECT phase, allocated_bytes FROM phase_peak WHERE device = 0"))
bad = []
layers = dict.fromkeys(("one", "two"), "of the 9 layers Staged.features.*, Staged.features.*.*, Staged.features.*.b*-* ")
layers["whole"] = "of the 4 layers Staged.features.* each "
def ends(name):
    row = json.load(open(f"{d}/{name}.json"))["devices"][0]["edits"][1]
    if not row["assumes"].startswith(layers[name]):
        bad.append(f"{name}: {row['assumes']}")
    phases = next(p for p in row["policies"] if p["policy"] == "live")["phases"]
    return {p["phase"]: (p["allocated_low_bytes"], p["allocated_high_bytes"]) for p in phases}
for name in ("one", "two", "whole"):
    said, after = ends(name), taken(name)
    for phase in ("forward", "backward"):
        low, high = said[phase]
        print(f"{name}, {phase}: recorded {taken('base')[phase]}, said {low} to {high}, changed {after[phase]}")
        if not low <= after[phase] <= high:
            bad.append(f"{name}: {phase} is not what was said")
low, high = ends("one")["backward"]
if low <= taken("whole")["backward"] <= high or taken("one")["backward"] > 0.8 * taken("base")["backward"]:
    bad.append("whole stages take the same, or blocks nothing less: the test tests nothing")
print("\n".join(bad))
raise SystemExit(bool(bad))
PY
echo "a model with stages took what was said of its blocks"
