#!/bin/bash
# Two runs phase by phase: golden pages (UPDATE=1 writes them anew: read the diff), figures equal to both reports' to the byte, and what
# can't be compared.
. "$(dirname "$0")/../lib/command.bash"
export COLUMNS=200 # no sentence is broken
has() { # TEXT COMMAND...
    local text=$1
    shift
    local wanted=0
    [[ $* = *killed* ]] && wanted=3 # events are missing in it
    "$@" >said 2>&1
    [ $? = $wanted ] || no "$*: not status $wanted"
    grep -qF -- "$text" said || no "$* does not say '$text': $(head -n 12 said)"
}
make_db a.db
make_db b.db --extra 300 --steps 4
make_db two.db --devices 2 --extra 64
make_db killed.db --kind killed
make_db thinned.db --kind thinned
make_db empty.db --kind empty
mkdir four two
for r in 0 1 2 3; do make_db four/r$r.db --rank $r --world 4 --gpu $r --extra $((r * 50)); done
for r in 0 1; do make_db two/r$r.db --rank $r --world 2 --gpu $r --extra $((70 - r * 10)); done

golden diff_train.txt "$V" diff a.db b.db
"$V" diff --bytes b.db a.db >bytes.txt || no "diff --bytes"
! grep -qE '[0-9] [KMG]?i?B\b' bytes.txt && grep -qx "  B's peak is 314572800 (4.0 %) lower" bytes.txt || no "diff --bytes: $(cat bytes.txt)"
golden diff_ranks.txt "$V" diff four two
[ "$(COLUMNS=80 "$V" diff a.db b.db | wc -L)" -le 80 ] || no "a page wider than 80 columns"
# what is outside any phase is no phase
cp a.db outside.db && sqlite3 outside.db "UPDATE phase_stat SET allocated_bytes = allocated_bytes / 2 WHERE phase = 0"
has "the peak that changed most: outside any phase, from " "$V" diff a.db outside.db
has "the peaks are equal: 6.96 GiB allocated" "$V" diff a.db killed.db
has "NOTE: B: events lost, mismatch, no clean end: its peaks may have been higher" "$V" diff a.db killed.db
has "NOTE: B: some events are not there one by one" "$V" diff a.db thinned.db
has "NOTE: device 1 is used in B only: nothing to compare it with" "$V" diff a.db two.db
has "NOTE: device 0 is used in A only" "$V" diff a.db empty.db
has "NOTE: B: no device memory was ever allocated" "$V" diff a.db empty.db
make_db arena.db --arena
has "NOTE: B ran on vramscope's arena, the other did not: look at peak reserved" "$V" diff a.db arena.db
cp arena.db arena2.db
"$V" diff arena.db arena2.db | grep -q "vramscope's arena" && no "two runs on the arena differ in nothing"
has "NOTE: B ran on the simulated driver, the other on a GPU" "$V" diff a.db empty.db
# a phase that only one run has, a device with another number, another GPU
python3 - <<'PY'
import shutil, sqlite3
shutil.copy("a.db", "other.db")
db = sqlite3.connect("other.db")
db.execute("UPDATE phase SET name = 'loss' WHERE name = 'logits'")
for table in ("ev", "phase_stat", "peak", "peak_live", "zone", "sample", "range_peak"):
    db.execute(f"UPDATE {table} SET device = 5 WHERE device = 0")
db.execute("UPDATE device SET id = 5, name = 'NVIDIA A100'")
db.commit()
PY
has "NOTE: A's device 0 stands beside B's device 5: each has no other" "$V" diff a.db other.db
has "NOTE: A ran on NVIDIA H200, B on NVIDIA A100" "$V" diff a.db other.db
"$V" diff a.db other.db | grep -qE '^  logits +▸ 6.96 GiB +- +- +-$' || no "a phase only in A"
"$V" diff a.db other.db | grep -qE '^  loss +- +▸ 6.96 GiB +- +-$' || no "a phase only in B"

# of two runs one followed the uses of memory: the other's roles follow from lives; where they cannot, roles are what PyTorch says in both, the rest goes by
# its phase, and nothing seems to come or go
if command -v xz >/dev/null; then
    xz -dc "$SRC/tests/data/llama-h200.db.xz" >h200_train.db && gzip -dc "$SRC/examples/llama-h200-oom.db.gz" >h200_oom.db || exit 1
    "$V" diff h200_oom.db h200_train.db >said && grep -qE '^  activation +[0-9.]+ GiB +17.71 GiB ' said || no "roles by uses and by lives are not compared: $(cat said)"
    grep -q 'was recorded with --access' said && no "roles that both have are left out"
    sqlite3 h200_train.db "UPDATE phase SET name = 'back' WHERE name = 'backward'"
    has "NOTE: A was recorded with --access, the other was not: roles are compared as PyTorch says them, and the rest by the phase that made it" "$V" diff h200_oom.db h200_train.db
    grep -qE '^  (activation|temporary|workspace) ' said && no "a role that one run alone can have: $(grep -A9 'by role' said)"
    grep -qE '^  optimizer state +9.21 GiB +9.21 GiB +0 B$' said || no "PyTorch's roles are not compared: $(grep -A9 'by role' said)"
    has "NOTE: B was recorded with --access" "$V" diff h200_train.db h200_oom.db
    "$V" check h200_oom.db --against h200_train.db >said
    grep -q 'what rose most: what was made in forward +47.68 GiB' said || no "check --against names a role of one run alone: $(cat said)"
    cp h200_oom.db h200_again.db
    "$V" diff h200_oom.db h200_again.db >said
    grep -q -- --access said && no "both followed uses: $(head -n 12 said)"
    grep -q '^  activation ' said || no "both followed uses, and no role is known: $(grep -A9 'by role' said)"
fi

ln a.db again.db
refused "are the same file: give two runs" "$V" diff a.db again.db

# every figure is the one that the two reports have
for pair in "a.db b.db" "two.db a.db" "a.db killed.db" "thinned.db b.db"; do
    read -r a b <<<"$pair"
    [[ $pair = *killed* ]] && lost=3 || lost=0 # its status says that events are missing
    "$V" diff --json "$a" "$b" >diff.json
    [ $? = $lost ] || no "$pair: the status does not say what is missing"
    "$V" report --json "$a" >a.json && "$V" report --json "$b" >b.json
    [ $? = $lost ] || no "$b: the status does not say what is missing"
    python3 - "$a" "$b" <<'PY' || no "$pair: diff is not the two reports"
import json, sqlite3, sys
diff, *sides = (json.load(open(n + ".json")) for n in ("diff", "a", "b"))
sides = [s["files"][0] for s in sides]
assert [diff["a"]["file"], diff["b"]["file"]] == sys.argv[1:]

def device(side, number):
    return next((d for d in sides[side]["devices"] if d["device"] == number), None)

def same(figure, a, b):
    change = None if a is None or b is None else b - a
    assert figure == {"a": a, "b": b, "change": change}, (figure, a, b)

compared = 0
for d in diff["devices"]:
    both = [device(0, d["a_device"]), device(1, d["b_device"])]
    if None in both:
        continue
    compared += 1
    same(d["peak_allocated_bytes"], *(x["peak"]["allocated_bytes"] for x in both))
    same(d["reserved_then_bytes"], *(x["peak"]["reserved_then_bytes"] for x in both))
    same(d["static_bytes"], *(x["savings"]["static_bytes"] for x in both))
    same(d["residual_bytes"], *(x["residual"]["residual_bytes"] for x in both))
    for side, name in ((0, "a"), (1, "b")):
        assert sum(h["size_bytes"][name] for h in d["held"]) == d["peak_allocated_bytes"][name]
        assert not d["lines"] or sum(h["size_bytes"][name] for h in d["lines"]) == d["peak_allocated_bytes"][name]
        assert d[name + "_peak"]["t_ns"] == both[side]["peak"]["t_ns"]
        db = sqlite3.connect(sys.argv[1 + side])
        n = db.execute("SELECT count(*) FROM event WHERE op IN ('alloc', 'block_alloc', 'phys_create') AND status = 0 AND device = ?",
                       (both[side]["device"],)).fetchone()[0]
        assert d["allocations"][name] == (None if sides[side]["thinned"] else n)
    changes = [abs(h["size_bytes"]["change"]) for h in d["held"]]
    assert changes == sorted(changes, reverse=True)
    for p in d["phases"]:
        of = [next((q for q in x["phases"] if q["phase"] == p["phase"]), None) for x in both]
        for ours, theirs in (("peak_allocated_bytes",) * 2, ("peak_reserved_bytes",) * 2):
            same(p[ours], *(q and q[theirs] for q in of))
        each = [q["time_ns"] // q["ranges"] if q and q["ranges"] else None for q in of]
        same(p["time_per_range_ns"], *each)
    assert {p["phase"] for p in d["phases"]} == {q["phase"] for x in both for q in x["phases"]}
assert compared
PY
done
"$V" diff --json four two >diff.json && python3 - <<'PY' || no "ranks in --json"
import json
d = json.load(open("diff.json"))
assert d["a"]["file"] == "four/r3.db" and d["a"]["rank"] == 3 and len(d["a"]["files"]) == 4
assert d["b"]["file"] == "two/r0.db" and len(d["b"]["files"]) == 2
PY
[ $failures = 0 ] && echo "two runs stand beside each other" || exit 1
