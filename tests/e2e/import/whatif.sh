#!/bin/bash
# Other allocators place recorded blocks where an independent one did, in every address and segment event, and known figures are as worked
# out by hand.
. "$(dirname "$0")/../lib/command.bash"
SRC=$(cd "$HERE/../../.." && pwd)
export COLUMNS=200 # no sentence is broken
PYTHONPATH=$HERE PYTHONDONTWRITEBYTECODE=1 python3 "$HERE/make_snapshots.py" . >made || exit 1
refused() { # TEXT COMMAND...
    local text=$1
    shift
    timeout 300 "$@" >out 2>err
    [ $? = 2 ] && [ "$(wc -l <err)" = 1 ] && [ ! -s out ] && grep -qF -- "$text" err || no "$*: not one line '$text': $(head -c 400 err out)"
}
field() { # FILE POLICY KEY
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))["devices"][0]
p = next(p for p in d["policies"] if p["policy"] == sys.argv[2])
print({**d, **p}[sys.argv[3]])' "$@"
}

# every address, every segment event (of expandable segments the database has pieces, which may be more)
while read -r name _; do
    "$V" import -o "$name.db" "$name.pickle" >out 2>&1 || no "import $name: $(cat out)"
    "$V" whatif --json "$name.db" >"$name.json" 2>err || no "whatif $name: $(cat err)"
done <made
python3 - <<'END' || no "see above"
import json

bad = []
for line in open("made"):
    name, requests, events = line.split()
    devices = json.load(open(name + ".json"))["devices"]
    rows = [{p["policy"]: p for p in d["policies"]} for d in devices]
    native = [r["torch-expandable" if name.startswith("expandable") else "torch-native"] for r in rows]
    if sum(p["addresses_same"] for p in native) != int(requests) or not all(p["exact"] for p in native):
        bad.append(f"{name}: {native}")
    if sum(p["segment_events_same"] for p in native) < int(events):
        bad.append(f"{name}: {events} segment events, not {native}")
    for d, r, p in zip(devices, rows, native):
        if p["reserved_bytes"] != d["recorded_reserved_bytes"]:
            bad.append(f"{name}: {p['reserved_bytes']} reserved, recorded {d['recorded_reserved_bytes']}")
        if any(r["live"]["reserved_bytes"] > other["reserved_bytes"] for other in r.values()):
            bad.append(f"{name}: less than lives is reserved: {r}")
print("\n".join(bad))
raise SystemExit(bool(bad))
END

# of free blocks of one size a version takes its own; a snapshot that does not say which is that of the one that meets it
for version in 2.15.0+cu132:exact 2.11.0:'not exact'; do
    sqlite3 oldest.db "INSERT OR REPLACE INTO meta(key, value) VALUES ('torch_version', '${version%:*}')"
    "$V" whatif --policy=torch-native oldest.db >out
    grep -q "torch-native: ${version#*:}: " out || no "a snapshot of 2.13 or later, said to be of $version: $(cat out)"
done

# a private pool that had ended when the snapshot was taken: what was in it is named, and no figure called exact
for name in pool_ended pool_gone; do
    "$V" import -o $name.db $name.pickle >/dev/null
    "$V" whatif --why $name.db >out
    grep -q 'torch-native: not exact: .*(which pool [0-9]* requests were of is not known' out || no "$name: $(cat out)"
    grep -q 'torch-expandable: not exact: which pool [0-9]* requests were of is not known, taken as the common one' out || no "$name, expandable: $(cat out)"
done
"$V" whatif pool_ended.db >out && grep -q '^  the run, for changes  .* -$\|^  the run, for changes .*  -  ' out && grep -q '^  difference: of a change to the run replayed as changes are, which know no limit and no private pool$' out || no "what a change is compared with: $(cat out)"
# of segments that went back too, and the replay says that they were the common pool's: in any question
sqlite3 empty_cache.db "SELECT value FROM meta WHERE key = 'torch_pools_unknown'" | grep -q . || no "no segment of empty_cache went back"
for more in --policy=torch-expandable --capacity=64GiB max_split_size=64MiB; do
    "$V" whatif empty_cache.db "$more" >out && ! grep -q 'which pool' out || no "$more of pools that are known: $(cat out)"
done

# by hand: 1000 B before; 5 MiB and 3 MiB in one segment of 20 MiB, small ones in one of 2 MiB
"$V" whatif --json --policy=live,torch-native known.db >known.json 2>/dev/null || { "$V" import -o known.db known.pickle >/dev/null && "$V" whatif --json --policy=live,torch-native known.db >known.json; }
[ "$(field known.json torch-native reserved_bytes)" = $((22 << 20)) ] || no "native: $(field known.json torch-native reserved_bytes)"
[ "$(field known.json live reserved_bytes)" = $((5242880 + 3145728 + 1000)) ] || no "live: $(field known.json live reserved_bytes)"
"$V" whatif --json --capacity=21MiB known.db >small.json || no "a capacity: $(cat small.json)"
[ "$(field small.json torch-native fits) $(field small.json torch-native ran_out_request_bytes)" = "False 5242880" ] || no "21 MiB: $(cat small.json)"
[ "$(field small.json live fits)" = True ] || no "live does not fit 21 MiB"
"$V" whatif --capacity=21MiB known.db >out && grep -q 'runs out at' out && ! grep -q 'no allocator has enough' out || no "the text does not say where it runs out"
"$V" whatif --capacity=4MiB known.db | grep -q 'live (lower bound) *> ' || no "less than what lives, and live fits"
# what was refused is in no block, and "yes" is no answer for it
"$V" whatif known.db | grep -q 'refused' && no "a refusal where none was"
cp known.db refused.db && sqlite3 refused.db "INSERT INTO oom(process, role, seq, t_ns, device, op, requested_bytes) VALUES(1, 2, 3, 5000000, 0, 22, 7 << 30)"
"$V" whatif --capacity=64GiB refused.db | grep -q '^  NOTE: 7.00 GiB were refused at 5 ms: no block is of that request' || no "a refused request: $("$V" whatif --capacity=64GiB refused.db)"

"$V" whatif --policy=torch-native --capacity=400MiB retry.db >out && grep -q 'fits after [0-9]* emptied cache' out && grep -q '^  torch-native .* yes, [0-9]* emptied cache' out || no "400 MiB, as it ran: no retry: $(cat out)"
"$V" whatif --policy=live --capacity=100MiB midway.db | grep -q 'no room for what was alive when the trace began' || no "a capacity below what lived at the start"

# the limit on splitting moves large blocks into segments of their own: more is held
a=$("$V" whatif --json retry.db max_split_size=20MiB >split.json && field split.json torch-native reserved_bytes)
[ "${a:-0}" -gt 0 ] || no "max_split_size: $a"
[ "$(field split.json torch-native compared)" = False ] || no "other settings were compared with the recording"

# sizes are read as everywhere; requests are recorded of an import alone
[ "$("$V" whatif -c 20480k known.db)" = "$("$V" whatif -c 20MiB known.db)" ] || no "20480k is not 20 MiB"
"$V" whatif -c '0.02 GiB' known.db >out 2>&1 || no "0.02 GiB: $(cat out)"
"$V" whatif --policy=live known.db | grep -qx '  live: no allocator needs less' || no "live of an import: $("$V" whatif --policy=live known.db)"
edit() { # FILE SQL: a copy of retry.db
    cp retry.db "$1" && python3 -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as db:
    db.executescript(sys.argv[2])' "$@" || exit 1
}
edit run.db "DELETE FROM meta WHERE key = 'imported'"
"$V" whatif --policy=live run.db | grep -qx '  live: no allocator needs less' || no "live of a run with requests: $("$V" whatif --policy=live run.db)"
# one small block without a request leaves the others' rounding as it is
python3 - <<'PY'
import sqlite3
with sqlite3.connect("run.db") as db:
    db.execute("INSERT OR REPLACE INTO meta(process, key, value) VALUES (1, 'torch_roundup_power2_divisions', '4')")
PY
cp run.db one.db
sqlite3 one.db "CREATE TEMP TABLE small AS SELECT seq, kind FROM ev WHERE op = 20 AND size * 512 BETWEEN 512 AND 65536 ORDER BY seq LIMIT 1;
    INSERT INTO kind SELECT (SELECT max(id) + 1 FROM kind), process, api, space, context, stream, thread, status, managed, NULL FROM kind WHERE id = (SELECT kind FROM small);
    UPDATE ev SET kind = (SELECT max(id) FROM kind) WHERE seq = (SELECT seq FROM small)"
for db in run one; do
    "$V" whatif --json --policy=torch-expandable $db.db >$db.json
done
[ "$(field one.json torch-expandable reserved_bytes)" = "$(field run.json torch-expandable reserved_bytes)" ] || no "rounding without one request: $(cat one.json)"
"$V" whatif --policy=torch-expandable retry.db >plain
"$V" whatif --policy=torch-expandable run.db | cmp -s - plain && no "rounding changes nothing here"
sqlite3 run.db "UPDATE kind SET tensor = NULL"
"$V" whatif --policy=live run.db | grep -qx '  live: no allocator needs less of these block sizes' || no "live of a run: $("$V" whatif --policy=live run.db)"

# a recorded threshold is that of the capacity; without one it may be why addresses differ
edit gc.db "UPDATE meta SET value = '0.3' WHERE key = 'torch_garbage_collection_threshold'"
native() { "$V" whatif --policy=torch-native --capacity=500MiB "$@" | grep -v '^device'; }
[ "$(native gc.db)" = "$(native retry.db garbage_collection_threshold=0.3)" ] || no "a recorded threshold of 0.3: $(native gc.db)"
[ "$(native gc.db)" != "$(native retry.db)" ] || no "a threshold of 0.3 changes nothing"
[ "$(native gc.db garbage_collection_threshold=0.99)" = "$(native retry.db garbage_collection_threshold=0.99)" ] || no "the recorded threshold stays"
edit other.db "UPDATE meta SET value = '0.3' WHERE key = 'torch_garbage_collection_threshold'; UPDATE meta SET value = '33554432' WHERE key = 'torch_max_split_size'"
"$V" whatif --policy=torch-native other.db | grep -q 'not exact: .*(garbage_collection_threshold is a share' || no "no reason: $("$V" whatif --policy=torch-native other.db)"

# of made-up traces: what is alive in the end lies in segments of its own
cat >alive.py <<'END'
def segments(entries):
    alive = {}
    for e in entries:
        if e["action"] == "alloc":
            alive[e["addr"]] = e["size"]
        elif e["action"] == "free_completed":
            del alive[e["addr"]]
    return [{"device": 0, "address": a, "total_size": s, "stream": 0, "segment_type": "large",
             "blocks": [{"address": a, "size": s, "requested_size": s, "state": "active_allocated", "frames": []}]} for a, s in alive.items()]
END

# more than any device has
PYTHONPATH=. python3 - <<'END' || exit 1
import alive, pickle
base = 0x7f0000000000
entries = [{"action": "alloc", "addr": base + (i << 46), "size": size, "stream": 0, "time_us": 1000 + i, "frames": []}
           for i, size in enumerate((6 << 40, 5 << 20, (1 << 46) - 1, 30 << 20))]
with open("huge.pickle", "wb") as f:
    pickle.dump({"device_traces": [entries], "segments": alive.segments(entries), "allocator_settings": {}}, f)
END
"$V" import -o huge.db huge.pickle >out 2>&1 || no "import huge: $(cat out)"
"$V" whatif --json --policy=torch-expandable huge.db >huge.json || no "huge: status $?"
[ "$(field huge.json torch-expandable reserved_bytes)" -ge $(((6 << 40) + (1 << 46))) ] || no "huge: $(cat huge.json)"

# where no recorded address is taken, as with a capacity, the driver puts segments as an H200's did, so that the same of two equal blocks is taken
xz -dc "$SRC/tests/data/llama-h200.db.xz" >h200.db && "$V" whatif --json --policy=torch-native --capacity=130GiB h200.db >h200.json 2>err || no "whatif of an H200's recording: $(cat err)"
python3 - <<'PY' || no "what PyTorch reserves is not what was recorded"
import json
device = json.load(open("h200.json"))["devices"][0]
assert device["policies"][0]["reserved_bytes"] == device["recorded_reserved_bytes"] == 49958354944, device
PY

# a capacity below what stays over the steps is one line, and no table of when each allocator runs out; with a change it is asked about
refused "is less than the 13.87 GiB that device 0 held at every moment from the end of one step to that of another" "$V" whatif --capacity=5GiB h200.db
"$V" whatif --capacity=14GiB h200.db >out 2>err && grep -q 'runs out at' out && grep -q '^  no allocator has enough; .* --edit=batch=0.5' out || no "a capacity above what stays: $(cat out err)"
"$V" whatif --capacity=5GiB -e states=host h200.db >out 2>err && grep -q '^  states=host .* no, in ' out || no "a change, and a capacity: $(cat out err)"
"$V" whatif --why --capacity=5GiB -e states=host h200.db | grep -q '^  states=host: torch-native has no room for ' || no "what such a change has no room for"

# of a run that ended out of memory, too, a change that can't be made is one line, which says whether there is nothing to change or nothing known
gzip -dc "$SRC/examples/llama-h200-oom.db.gz" >died.db
refused "whatif: batch=1: nothing to change: all blocks stay as they are" "$V" whatif -e batch=1 died.db
refused "whatif: checkpoint=1:nope: no module of the recording has the path nope" "$V" whatif -e checkpoint=1:nope died.db
"$V" whatif --why -e states=host died.db >out 2>err && grep -q 'states=host frees 9.21 GiB: this request would have passed' out || no "a change of such a run: $(cat out err)"
# the recorded allocator had emptied its cache when the driver refused, the others never do: its row has what it holds like them
COLUMNS=300 "$V" whatif died.db >out && grep -q '; 137.4 GiB reserved as recorded, 139.6 GiB replayed as the other rows are$' out && grep -q '^  torch-native (the run)  *no  *139.6 GiB  *-$' out &&
    grep -q '^  torch-expandable .* 136.9 GiB  *-2.69 GiB  no code change$' out || no "emptied caches beside ones that never are: $(cat out)"
"$V" whatif h200.db | grep -q 'as the other rows are' && no "two figures of what is the same"
# one table: allocators and changes by what the run's allocator reserves, whose difference it is, and what each rests on is asked for
COLUMNS=80 "$V" whatif h200.db >out && [ "$(grep -c '^  [A-Z]* OR [A-Z]* ' out)" = 1 ] || no "not one table: $(cat out)"
COLUMNS=80 "$V" whatif --json h200.db >said.json
python3 - out said.json <<'PY' || no "the table: $(cat out)"
import json, re, sys
page, device = open(sys.argv[1]).read(), json.load(open(sys.argv[2]))["devices"][0]
size = lambda text: float(re.findall(r"([\d.]+) GiB", text)[-1])
rows = re.findall(r"^  (\S+)(?: \([^)]*\))?  +((?:[\d.]+ to )?[\d.]+ GiB)  +(<= |)([-+]?[\d.]+ [GM]?i?B|-)", page, re.M)
names = [r[0] for r in rows]
edits = {e["edit"]: e for e in device["edits"] if e["edit"] and not e["refused"]}
assert sorted(names) == sorted([p["policy"] for p in device["policies"]] + list(edits)), names
assert [size(r[1]) for r in rows] == sorted(size(r[1]) for r in rows), rows
assert device["recorded_policy"] == "torch-native" and device["compared_with_bytes"] == device["recorded_reserved_bytes"]
for name, reserved, at_most, difference in rows:
    if name in edits:
        own = next(p for p in edits[name]["policies"] if p["policy"] == "torch-native")
        most, wide = own["reserved_high_bytes"], own["reserved_high_bytes"] != own["reserved_low_bytes"]
        assert edits[name]["saves_reserved_bytes"] == device["compared_with_bytes"] - most, name
        assert bool(at_most) == wide, name
    else:
        most = next(p["reserved_bytes"] for p in device["policies"] if p["policy"] == name)
    more = most - device["compared_with_bytes"]
    assert difference == "-" if name == "torch-native" else abs(more) < 1 << 30 or abs(float(difference.split()[0]) - more / 2**30) < 0.006, (name, difference, more)
refused = [e["edit"] for e in device["edits"] if e["refused"]]
assert refused and all(f"  {name}: nothing to change: " in page for name in refused), refused
assert all(len(line) <= 80 for line in page.splitlines()) and "(no room for: ALLOCATED, EXPANDABLE, ARENA;" in page
PY
# where nobody reads columns no name is cut, and no column left out
env -u COLUMNS "$V" whatif -e foreach=no -e 'checkpoint=1:LlamaForCausalLM.model.layers.*' -e states=host h200.db >out2 && grep -q '^  foreach=no checkpoint=1:LlamaForCausalLM.model.layers.\* states=host  .* slower steps, a 2nd forward, copies each step  .* GiB .* GiB .* GiB$' out2 || no "a pipe: $(cat out2)"
"$V" whatif --why h200.db >why && grep -q '^  checkpoint=1: the peak is in backward then, .*; costs: .*; if: ' why && grep -q '^  arena: not exact: ' why || no "what a row rests on: $(cat why)"
grep -q '; if: \|^  arena: not exact' out && no "a paragraph of each row: $(cat out)"
[ "$(grep -c . out)" -le 36 ] || no "the page is long: $(cat out)"
# what needs no change of the program comes first, of changes no luck is advice, and what is left is what a next request could have
COLUMNS=300 "$V" whatif died.db >out 2>err || no "whatif of such a run: $(cat err)"
grep -q '^  torch-expandable  *passes  *11.07 GiB  *136.9 GiB ' out && grep -q '^  torch-native (the run)  *no  ' out || no "the table has not who serves the refused request: $(cat out)"
head -n 1 out | grep -q '^the request of 19.57 GiB on device 0 at 2.34 s, ' && sed -n 2p out | grep -q '^  PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True alone: this request would have passed, 11.07 GiB left$' || no "the free cure: $(cat out)"
grep -q '^  in step 2 the same line got 15.66 GiB, and up to 21.23 GiB more were allocated after it: as much is left with checkpoint=1, batch=0.5, checkpoint=2; ' out || no "what leaves enough for the step: $(cat out)"
grep -q '^  loss=fused  *not made  *6.98 GiB ' out && grep -q '^  states=8bit  *passes  *9.43 GiB  *6.87 GiB ' out || no "what is left, and freed: $(cat out)"
python3 - out <<'PY' || no "settings come first, of changes the one that leaves most, and luck behind all that passes: $(cat out)"
import re, sys
rows = re.findall(r"^  (\S+)(?: \([^)]*\))?  +(passes|by luck|not made|no|-)(?:  +([\d.]+) GiB)?", open(sys.argv[1]).read(), re.M)
assert [r[0] for r in rows[:3]] == ["torch-expandable", "arena", "loss=fused"], rows
assert [r[1] for r in rows[3:]] == ["passes"] * 6 + ["by luck"] * 3 + ["no", "passes"], rows
left = [float(r[2]) for r in rows[3:9]]
assert left == sorted(left, reverse=True) and rows[3][0] == "checkpoint=1", rows
PY
"$V" whatif --why died.db | grep -q '^  foreach=no frees 0 B: this request would have passed by luck, in [0-7] of 8 draws' || no "how far luck goes"
COLUMNS=300 "$V" report --all died.db >out 2>err && grep -q '^    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True alone: this request would have passed, 11.07 GiB left$' out && ! grep -q 'foreach=no' out || no "the report's cure: $(cat out err)"

# the ends of steps: without them it is not known what lives over one, and no change is answered
cp h200.db endless.db && sqlite3 endless.db "DELETE FROM step; DELETE FROM ev WHERE op = 33"
refused "whatif: sequence=0.5: it has no steps: the step of an optimizer of torch.optim ends one, or vramscope.step()" "$V" whatif -e sequence=0.5 endless.db
"$V" whatif endless.db >out 2>err && grep -q 'torch-native: exact: 7824 of 7824' out || no "a recording without steps: $(cat out err)"
grep -E '^  [a-z_]+=' out | grep -q GiB && no "a change of a recording without steps: $(cat out)"

# of several processes: what fits of one may not of another, so which is meant must be said
"$V" import -o job.db rank0.pickle job_rank-1.pickle >/dev/null || no "import of two ranks"
for words in "" "-e batch=0.5" "--capacity=80GiB"; do
    # shellcheck disable=SC2086 # words
    refused "job.db has the processes 1" "$V" whatif $words job.db
    grep -q ': which one? --process=N, or job.db#N, names it$' err || no "not said how a process is named: $(cat err)"
done
"$V" whatif --process=1 job.db >one 2>err && [ ! -s err ] || no "the process that was asked for: $(cat err)"
"$V" whatif 'job.db#1' >out 2>err && [ "$(sed "1d; \$d" out)" = "$(sed "1d; \$d" one)" ] && [ ! -s err ] || no "the process as a part of the name: $(cat out err)"

"$V" whatif --capacity=80B known.db >/dev/null || no "a capacity of 80 B, with its unit"
refused "on that device" "$V" whatif --device=5 known.db
[ $failures = 0 ] && echo "ok"
exit $((failures > 0))
