#!/bin/bash
# For a program that has NVTX ranges alone, --phases and --steps given afterwards show what a recording shows whose ranges have the names of phases.
. "$(dirname "$0")/../lib/lib.bash"
include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$BUILD/CMakeCache.txt" 2>/dev/null)
include=${include:-/usr/local/cuda/include}
[ -f "$include/nvtx3/nvToolsExt.h" ] || skip "no nvtx3 headers"
"${CC:-cc}" -O1 -isystem "$include" -o "$dir/steps" "$here/nvtx_steps.c" -L"$BUILD/sim" -l:libcuda.so.1 -ldl -lpthread || fail "it does not build"
cd "$dir" || exit 1
rules='forward=f*,backward=b*,optimizer=opt*' # of both recordings
"$V" run -o plain.db -- ./steps >out 2>plain.err || fail "plain: $(cat plain.err)"
"$V" run -o ruled.db -- ./steps 6 phases >out 2>ruled.err || fail "ruled: $(cat ruled.err)"
grep -q '0 phases, 30 ranges by name (report lists them), no events lost' plain.err || fail "run's summary: $(cat plain.err)"
# a name that is a phase's is one, another is a range; where another tool has NVTX already it keeps the ranges, and run says so
got=$(sqlite3 ruled.db "SELECT DISTINCT name || ' ' || phase || ' ' || source FROM range ORDER BY 1" | tr '\n' ' ')
[ "$got" = "backward backward nvtx forward forward nvtx iteration none nvtx norm none nvtx optimizer optimizer nvtx " ] || fail "ranges: $got"
NVTX_INJECTION64_PATH=$dir/other.so "$V" run -q -o other.db -- sh -c 'echo "$NVTX_INJECTION64_PATH"; exec ./steps' >out 2>err || fail "another tool: $(cat out err)"
[ "$(cat out)" = "$dir/other.so" ] && [ "$(grep -v ^simcuda: err)" = "vramscope: run: NVTX_INJECTION64_PATH names $dir/other.so: it gets NVTX's ranges, and the recording has none" ] ||
    fail "another tool: $(cat out err)"
[ "$(sqlite3 other.db "SELECT count(*) FROM range")" = 0 ] || fail "another tool's ranges are recorded"

"$V" report --all plain.db >page || fail "report"
for row in 'iteration +6 ' 'bwd +6 ' 'opt +6 ' 'norm +6 ' 'fwd 3 +1 .* 29.00 MiB '; do
    grep -Eq "^  $row" page || fail "no row '$row': $(sed -n '/other ranges/,/^$/p' page)"
done
grep -q "what would lower the peak: unknown, no training steps are known" page || fail "it is not said why: $(grep lower page)"
"$V" report --json plain.db >plain.json || fail "--json"
"$V" report --json --phases="$rules" --steps=iteration plain.db >read.json || fail "--json with rules"
"$V" report --json --steps=iteration ruled.db >ruled.json || fail "--json of ruled.db"
"$V" peak --json --top 0 --phases="$rules" plain.db >read_peak.json && "$V" peak --json --top 0 ruled.db >ruled_peak.json || fail "peak"
"$V" diff --json --phases="$rules" plain.db ruled.db >diff.json || fail "diff"
python3 - <<'PY' || fail "the rules say other things afterwards"
import json
def device(name): return json.load(open(name))["files"][0]["devices"][0]
def phases(d): return {p["phase"]: {k: v for k, v in p.items() if k not in ("time_ns", "peak_t_ns")} for p in d["phases"]}
plain, read, ruled = device("plain.json"), device("read.json"), device("ruled.json")
names = {n["name"]: n for n in plain["other_ranges"]}
assert plain["other_range_names"] == 10 and names["iteration"]["ranges"] == 6 and sum(n["ranges"] for n in names.values()) == 30, names
assert names["fwd 3"]["peak_allocated_bytes"] == 29 << 20 and names["fwd 1"]["peak_allocated_bytes"] == 19 << 20, names
assert names["iteration"]["time_ns"] >= names["bwd"]["time_ns"] > 0
assert list(phases(plain)) == ["none"]
assert phases(read) == phases(ruled), (phases(read), phases(ruled))
assert set(phases(read)) == {"none", "forward", "backward", "optimizer"} and phases(read)["forward"]["ranges"] == 6
assert all(p["time_ns"] > 0 for p in read["phases"] if p["phase"] != "none")
assert {n["name"] for n in read["other_ranges"]} == {"iteration", "norm"}
strip = lambda held: sorted((h["category"], h["phase"] or "", h["size_bytes"]) for h in held)
assert strip(read["peak"]["held"]) == strip(ruled["peak"]["held"])
assert (read["peak"]["phase"], read["peak"]["step"]) == (ruled["peak"]["phase"], ruled["peak"]["step"]) == ("backward", 3), read["peak"]
assert json.load(open("read.json"))["files"][0]["steps"] == 6
# the step of the peak: 8 MiB of weights stay, 20 + 4 + 10 MiB lived on them
assert read["savings"] == ruled["savings"] and read["savings"]["static_bytes"] == 8 << 20, read["savings"]
assert read["savings"]["step_saves_at_most_bytes"] == 34 << 20
a, b = device("read_peak.json"), device("ruled_peak.json")
assert [(g["phase"], g["size_bytes"]) for g in a["by_phase"]] == [(g["phase"], g["size_bytes"]) for g in b["by_phase"]]
for p in json.load(open("diff.json"))["devices"][0]["phases"]:
    for figure in ("peak_allocated_bytes", "peak_reserved_bytes", "ranges", "allocations"):
        assert p[figure]["change"] in (0, None) and p[figure]["a"] == p[figure]["b"], (p["phase"], figure, p[figure])
PY
"$V" plot --phases="$rules" --steps=iteration --step 3 plain.db >plot || fail "plot"
grep -q 'peak 42.00 MiB in backward' plot && grep -q 'b backward' plot || fail "plot: $(cat plot)"
"$V" plot plain.db | grep -q backward && fail "plot has phases without rules"
"$V" plot --overlay --phases="$rules" plain.db ruled.db >plot || fail "plot --overlay"

# memory that runs out in the third iteration's helper thread, which has no range of its own
SIMCUDA_CAPACITY=104MiB "$V" run -q -o oom.db -- ./steps >out 2>&1 || fail "oom: $(cat out)"
"$V" report --all --phases="$rules" --steps=iteration oom.db | head -n 1 | grep -q '^OUT OF MEMORY on device 0 at .*, step 3, in backward' ||
    fail "out of memory: $("$V" report --all --phases="$rules" --steps=iteration oom.db | head -n 3)"
"$V" report --all oom.db | head -n 1 | grep -q ', outside any phase$' || fail "out of memory, as recorded: $("$V" report --all oom.db | head -n 1)"
# a long run, of which the old ranges are folded into sums by name; so long that there is room for all its names, which are left as they are
VRAMSCOPE_MAX_BYTES=1MiB "$V" run -q -o long.db -- ./steps 1500 >out 2>&1 || fail "long: $(cat out)"
[ "$(sqlite3 long.db "SELECT count(*) > 0 FROM folded")" = 1 ] || fail "nothing was folded"
"$V" report --json long.db | python3 -c '
import json, sys
names = json.load(sys.stdin)["files"][0]["devices"][0]["other_ranges"]
assert sum(n["ranges"] for n in names) == 5 * 1500, sum(n["ranges"] for n in names)
for name in ("iteration", "bwd", "opt", "norm"):
    n = [n for n in names if n["name"] == name]
    assert len(n) == 1 and n[0]["ranges"] == 1500 and n[0]["time_ns"] > 0 and n[0]["peak_allocated_bytes"] > 13 << 20, n' ||
    fail "the ranges of a folded file"
sum=$(sha256sum <plain.db)
"$V" report --all --phases="$rules" --steps=iteration plain.db >out || fail "report"
[ "$sum" = "$(sha256sum <plain.db)" ] || fail "reading changed the file"
echo "rules say afterwards what names say before"
