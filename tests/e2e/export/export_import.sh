#!/bin/bash
# A recording that is exported as a snapshot of PyTorch's and imported again has the same peak, and exports as the same snapshot, event by
# event.
. "$(dirname "$0")/../lib/lib.bash"
peaks() { sqlite3 "$1" "SELECT device, kind, peak_bytes, end_bytes FROM peak WHERE device >= 0 AND kind IN ($2) AND peak_bytes > 0 ORDER BY 1, 2"; }
# there_and_back KINDS: of the recording $db
there_and_back() {
    rm -f "$dir"/back.db*
    "$V" export --format=pytorch "$db" -o "$dir/there.pickle" 2>"$dir/err" || fail "export: $(cat "$dir/err")"
    "$V" import "$dir/there.pickle" -o "$dir/back.db" >"$dir/told" 2>&1 || fail "import: $(cat "$dir/told")"
    [ "$(peaks "$db" "$1")" = "$(peaks "$dir/back.db" "$1")" ] || fail "$1: $(peaks "$db" "$1") became $(peaks "$dir/back.db" "$1")"
    "$V" export --format=pytorch "$dir/back.db" -o "$dir/again.pickle" 2>"$dir/err" || fail "export of the import: $(cat "$dir/err")"
    python3 - "$dir/there.pickle" "$dir/again.pickle" <<'PY' || fail "another snapshot came back"
import pickle, sys
there, again = (pickle.load(open(p, "rb")) for p in sys.argv[1:])
def told(snapshot):
    return [[(e["action"], e.get("addr"), e["size"]) for e in t if e["action"] != "snapshot"] for t in snapshot["device_traces"] + [snapshot["host_traces"]]]
def state(snapshot):
    return [(s["device"], s["address"], s["total_size"], s["is_expandable"], s["stream"], s["segment_pool_id"], [(b["address"], b["size"], b["state"]) for b in s["blocks"]])
            for s in snapshot["segments"] + sorted(snapshot["host_segments"], key=lambda s: s["address"])]
for a, b in zip(told(there), told(again)):
    for i, (x, y) in enumerate(zip(a, b)):
        assert x == y, f"event {i}: {x} became {y}"
    assert len(a) == len(b), f"{len(a)} events became {len(b)}"
assert state(there) == state(again)
PY
}
for mode in native expandable; do
    shimmed "$tests/prog_caching" $mode 3000
    [ "$status" = 0 ] || fail "prog_caching $mode: status $status"
    there_and_back "'allocated', 'reserved'"
done
# two devices that hold what has no address: handles of physical memory and of arrays
if [ -x "$tests/prog_random" ]; then
    shim_env=(SIMCUDA_BANNER=0)
    for seed in 40 41; do
        shimmed "$tests/prog_random" $seed "$run/log"
        [ "$status" = 0 ] || fail "prog_random $seed: status $status"
        there_and_back "'allocated'"
        host() { sqlite3 "$1" "SELECT sum(end_bytes), max(peak_bytes) > 0 FROM peak WHERE kind IN ('pinned', 'registered')"; }
        [ "$(host "$db")" = "$(host "$dir/back.db")" ] || fail "the host's memory: $(host "$db") became $(host "$dir/back.db")"
    done
    shim_env=()
fi
shimmed "$tests/prog_roles"
[ "$status" = 0 ] || fail "prog_roles: status $status"
there_and_back "'allocated'"
# a real training: what was born in backward is so still, with the line of its forward
xz -dc "$(dirname "$0")/../../data/llama-h200.db.xz" >"$dir/llama.db" || fail "no xz, or no recording"
cp "$dir/llama.db" "$dir/whole.db"
sqlite3 "$dir/llama.db" "UPDATE kind SET tensor = NULL" # as recordings of before had it
db=$dir/llama.db
there_and_back "'allocated', 'reserved'"
# nobody knows what was requested of its blocks, and the import says so
blocks() { sqlite3 "$1" "SELECT count(*) FROM allocation WHERE op = 'block_alloc' AND request_bytes IS NULL"; }
[ "$(blocks "$db")" -gt 1000 ] && [ "$(blocks "$db")" = "$(blocks "$dir/back.db")" ] || fail "blocks' sizes became requests"
COLUMNS=1000 "$V" report --all "$dir/back.db" | grep -q "block's where its request was not recorded" || fail "report does not say that sizes are blocks'"
"$V" whatif --why "$dir/back.db" | grep -q "no allocator needs less of these block sizes" || fail "whatif takes blocks' sizes for requests"
[ "$("$V" report --all "$dir/back.db" | grep -c 'step 2, in backward$')" = 1 ] || fail "the peak is in backward: $("$V" report --all "$dir/back.db" | grep 'peak:')"
# and where it is known of most it is so of the import's blocks, which says so
"$V" export --format=pytorch -o "$dir/whole.pickle" "$dir/whole.db" >/dev/null && "$V" import -o "$dir/whole-back.db" "$dir/whole.pickle" >/dev/null || fail "a recording with requests"
COLUMNS=1000 "$V" report --all "$dir/whole-back.db" | grep -q "sizes are blocks', and what was requested of each is known as far as its recording had it" || fail "report does not say what sizes are"
# memory of the driver's comes back as such, and not as blocks, where no allocator of PyTorch's puts any: a replay is exact, as it is of the recording
for f in whole whole-back; do
    COLUMNS=1000 "$V" whatif --policy=torch-native "$dir/$f.db" >"$dir/told" || fail "whatif of $f"
    grep -q "torch-native: exact: " "$dir/told" || fail "a replay of $f: $(cat "$dir/told")"
done
direct() { sqlite3 "$1" "SELECT sum(size_bytes), count(*) FROM allocation WHERE op <> 'block_alloc' AND managed = 0 AND device >= 0"; }
[ "$(direct "$dir/whole-back.db")" = "$(direct "$dir/whole.db")" ] || fail "the driver's memory: $(direct "$dir/whole.db") became $(direct "$dir/whole-back.db")"
# and where that is exported again it is marked as the first export had it
"$V" export --format=pytorch -o "$dir/whole-again.pickle" "$dir/whole-back.db" >/dev/null || fail "export of the import"
python3 - "$dir/whole.pickle" "$dir/whole-again.pickle" <<'PY' || fail "marks of the driver's memory"
import pickle, sys
there, again = (pickle.load(open(p, "rb")) for p in sys.argv[1:])
def marked(snapshot):
    events = [(e["action"], e["addr"], e["size"], [(f["filename"], f["name"]) for f in e["frames"]]) for t in snapshot["device_traces"] for e in t if e.get("is_driver_memory")]
    blocks = [b["address"] for s in snapshot["segments"] for b in s["blocks"] if b.get("is_driver_memory")]
    assert events and blocks
    return events, blocks
assert marked(there) == marked(again)
def streams(snapshot):
    for s in snapshot["segments"]:
        own = [b for b in s["blocks"] if b.get("is_driver_memory")]
        assert own or s["stream"] > 0, s["address"]
    return [(e["action"], e["stream"], e.get("pool_id")) for t in snapshot["device_traces"] for e in t if e["action"].startswith("segment")]
assert streams(there) == streams(again)
PY
echo "what was exported and imported is the same"
