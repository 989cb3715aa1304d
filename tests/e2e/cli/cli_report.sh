#!/bin/bash
# report and peak of known runs are their golden pages (UPDATE=1 writes them anew: read the diff), --json agrees, and sums are exact.
. "$(dirname "$0")/../lib/command.bash"
export COLUMNS=200 # no sentence is broken

make_db train.db --devices 2
make_db oom.db --kind oom
make_db killed.db --kind killed
make_db thinned.db --kind thinned
make_db arena.db --devices 2 --arena
make_db empty.db --kind empty
# rank 5 is missing, 2 ran out of memory, 4 was killed, 6 knows the whole device's figure alone; each sees its GPU as device 0
mkdir ranks && for r in 0 1 2 3 4 6 7; do
    more=()
    [ $r = 2 ] && more=(--kind oom)
    [ $r = 4 ] && more=(--kind killed)
    [ $r = 6 ] && more=(--source meminfo)
    make_db ranks/run-r$r.db --rank $r --host gpu-$((r / 4)) --gpu $((r % 4)) --extra $((r * 37 % 101)) "${more[@]}"
done

golden report_train.txt "$V" report --all train.db
# --bytes: the same sentences and rows, every size a plain number, the peak's as the file has it
masked() { sed -E 's/[0-9]+([.][0-9]+)?( [KMG]?i?B\b)?/N/g; s/ +/ /g; s/─+/─/g' "$1"; }
COLUMNS=1000 "$V" report --all --bytes train.db >bytes.txt && COLUMNS=1000 "$V" report --all train.db >sizes.txt || failures=$((failures + 1))
! grep -qE '[0-9] [KMG]?i?B\b' bytes.txt && grep -q " $(sqlite3 train.db "SELECT peak_bytes FROM peak WHERE device = 0 AND kind = 'allocated'") " bytes.txt &&
    diff <(masked sizes.txt) <(masked bytes.txt) || no "report --bytes: $(head -n 20 bytes.txt)"
golden report_oom.txt "$V" report --all oom.db

# commands can be copied; changes of the program are pointed to where there are phases that answer
cp train.db "my run.db"
COLUMNS=200 "$V" report --all "my run.db" | grep -q "whatif 'my run.db'$" || no "a name with a blank"
sqlite3 "my run.db" "UPDATE phase SET name = 'other ' || name WHERE name IN ('forward', 'backward', 'optimizer')"
COLUMNS=200 "$V" report --all "my run.db" >nophase.txt
grep -q 'peak: ' nophase.txt && ! grep -q 'vramscope whatif' nophase.txt || no "changes of a run without phases"
# an output layer that no hook saw, in a run without logits
cp train.db uncalled.db
sqlite3 uncalled.db "UPDATE phase SET name = 'other' WHERE name = 'forward'; UPDATE phase SET name = 'forward' WHERE name = 'logits'; INSERT INTO string VALUES(9000, 'output_layer_not_called 128'); INSERT INTO moment VALUES(1, 99999, 1, 9000, 3, 1)"
"$V" report --all uncalled.db | grep -q "an output layer of 128 classes ran where no hook sees it" && "$V" report --json uncalled.db | grep -q '"output_layer_not_called_classes": *128' ||
    no "an output layer that was not called: $("$V" report --all uncalled.db | head -n 25)"
# ranks that wrote files of the same name are told apart
mkdir one two && cp train.db one/run.db && cp oom.db two/run.db
[ "$("$V" report --all one two killed.db | grep -o '[^ ]*[.]db$' | sort -u | tr '\n' ' ')" = "killed.db one/run.db two/run.db " ] ||
    no "equal names are not told apart"
"$V" plot one two | grep -q "^two/run.db, device 0" || no "panels of equal names"
# the same moment with other figures: each cause is said where the figures say it, and no other
python3 - <<'PY'
import shutil, sqlite3
GiB = 1 << 30
for name, change in (("fragmented.db", f"requested_bytes = {2 * GiB}, asked_driver_bytes = {2 * GiB}, free_bytes = {GiB}"),
                     ("hopeless.db", f"requested_bytes = {200 * GiB}"),
                     ("limit.db", "refusals = 0, asked_driver_bytes = 0, free_bytes = NULL"),
                     ("unasked.db", "free_bytes = NULL, device_used_bytes = NULL"),
                     ("though.db", f"requested_bytes = {GiB}, asked_driver_bytes = {GiB}"),
                     ("driver.db", "op = 1, api = (SELECT id FROM api WHERE name = 'cuMemAlloc_v2')"),
                     ("beyond.db", "process_used_bytes = NULL"),
                     ("stale.db", "process_used_t_ns = free_t_ns - 1"),
                     ("moved.db", "free_reserved_bytes = reserved_bytes - 1"),
                     ("lost.db", "stored = 0")):
    shutil.copy("oom.db", name)
    db = sqlite3.connect(name)
    db.execute("UPDATE oom SET " + change)
    if name == "lost.db":
        db.execute("DELETE FROM oom_live")
        db.execute("DELETE FROM live WHERE alloc_seq > 10")
    db.commit()
shutil.copy("oom.db", "old.db")
db = sqlite3.connect("old.db")
db.executescript("DROP TABLE oom; DROP TABLE oom_live; DROP VIEW live_at_oom")
shutil.copy("train.db", "older.db") # of a recorder that knew no arenas
db = sqlite3.connect("older.db")
db.executescript("DROP VIEW arena; DROP TABLE arena_sample")
PY
golden report_arena.txt "$V" report --all arena.db
COLUMNS=80 "$V" report --all older.db | sed 's/older[.]db/train.db/' | diff "$GOLDEN/report_train.txt" - ||
    no "a file without the table of arenas"
"$V" report --json arena.db | python3 -c '
import json, sys
one, two = json.load(sys.stdin)["files"][0]["devices"][0]["arenas"]
assert one["calls_per_thousand"] == 200 and one["last_third_calls_per_thousand"] == 0, one
assert one["at_peak_partly_used_bytes"] == 2 << 20 and one["number"] == 1, one
assert two["last_third_calls_per_thousand"] is None and two["lost_blocks"] == 2, two' ||
    no "the arenas in --json"
has() { # TEXT COMMAND...
    local text=$1
    shift
    "$@" | grep -qF -- "$text" || no "$* does not say: $text"
}
cause() { # FILE TEXT
    has "$2" "$V" report --all "$1"
    [ "$("$V" report --all "$1" | grep -Ec 'fragmentation|never have held|a limit of its own|^    asked for.*short by|although|is unknown: nobody')" = 1 ] ||
        no "$1: another cause beside '$2'"
}
cause oom.db "short by 6.17 GiB; the framework had 5.78 GiB reserved but unused, in pieces that are not known"
cause fragmented.db "short by 1.00 GiB; the framework had 5.78 GiB reserved but unused, in pieces that are not known"
cause hopeless.db "the device could never have held it: it has 146.5 GiB in all"
cause limit.db "the framework did not ask the driver: a limit of its own"
cause unasked.db "is unknown: nobody could ask the driver"
cause though.db "refused although the driver said that 133.8 GiB were free"
has "cuMemAlloc_v2 refused it 2 times" "$V" report --all driver.db
has "residual and other processes" "$V" report --all beyond.db
has "other processes, and what the driver keeps      2.00 GiB" "$V" report --all oom.db
# figures of two moments are not put together
has "residual and other processes              2.62 GiB" "$V" report --all stale.db
has "residual and other processes               unknown" "$V" report --all moved.db
has "not in the file (unknown)" "$V" report --all lost.db
has "the file does not hold who held the memory" "$V" report --all old.db
has "allocated then" "$V" peak --at oom oom.db
# both commands say the same of the device then; nothing about the peak, nor about samples that are there
rows() { sed -n '/=  allocated/,/the device/p' | tr -s ' '; }
[ "$("$V" report --all oom.db | sed -n '/who held/,/of the host/p' | rows)" = "$("$V" peak --at oom oom.db | rows)" ] ||
    no "report and peak differ about the device: $("$V" peak --at oom oom.db | rows)"
"$V" peak --at oom oom.db | grep -E "residual: unknown|would lower|growth" && echo "FAILED: the peak in peak --at oom" && failures=$((failures + 1))
"$V" report --json oom.db >r.json && "$V" peak --at oom --json oom.db >p.json && python3 - <<'PY' || failures=$((failures + 1))
import json
report, peak = json.load(open("r.json"))["files"][0]["out_of_memory"], json.load(open("p.json"))["files"][0]["devices"][0]
assert report == peak["out_of_memory"], (report, peak["out_of_memory"])
assert report["framework_bytes"] + report["direct_bytes"] == peak["allocated_bytes"] == report["held_bytes"]
assert "residual" not in peak and peak["step"] == report["step"] and peak["phase"] == report["phase"]
PY
# thinned: the events are gone, what ran out is not
cp oom.db oom_thin.db
sqlite3 oom_thin.db "DELETE FROM ev; INSERT OR REPLACE INTO meta(key, value) VALUES('thinned_from_seq', 1); INSERT OR REPLACE INTO counter VALUES(1,0,'out_of_memory',1), (1,0,'driver_out_of_memory',2), (1,0,'driver_out_of_memory_reported',2)"
then_held() { "$V" report --all "$1" | sed -n '1,/the device/p' | grep -vE '^    held by role$|%  (made in [a-z]+|made outside any phase|workspace)$'; } # roles go by events
[ "$(then_held oom_thin.db)" = "$(then_held oom.db)" ] ||
    no "a thinned file's out of memory: $("$V" report --all oom_thin.db | head -n 3)"
# what transformers' code for a cache made is one, but where a training's backward frees it; in a run that only generates, too
cp train.db cached.db && sqlite3 cached.db "UPDATE frame SET file = '/usr/lib/site-packages/transformers/cache_utils.py' WHERE file LIKE '%/model.py'"
caches() { "$V" peak --device=0 --by=role cached.db | sed -nE 's/^  (cache|activation) +([0-9.]+ [GM]iB).*/\1 \2/p' | tr '\n' ' '; }
[ "$(caches)" = "cache 1.41 GiB activation 768.0 MiB " ] || no "a cache: $(caches)"
sqlite3 cached.db "UPDATE phase SET name = 'evaluation' WHERE name = 'forward'; UPDATE phase SET name = 'other' WHERE name = 'backward'"
[ "$(caches)" = "cache 2.16 GiB " ] || no "a cache of a run without backward: $(caches)"
has "memory never ran out" "$V" peak --at oom train.db
"$V" peak --at nonsense oom.db 2>/dev/null && no "--at nonsense is taken"
make_db leak.db --leak 3 --steps 12
golden report_leak.txt "$V" report --all leak.db
golden report_killed.txt "$V" report --all killed.db
golden report_thinned.txt "$V" report --all thinned.db
golden report_empty.txt "$V" report --all empty.db
golden report_ranks.txt "$V" report --all ranks
golden report_ranks.txt "$V" report --all ranks/ # as a shell completes it
# another run of two ranks left its files there, and a process that is no rank
cp -r ranks jobs && make_db jobs/again-r0.db --rank 0 --world 2 --start 100 && make_db jobs/again-r1.db --rank 1 --world 2 --gpu 1 --start 101
make_db jobs/alone.db --start 500
has "these files are of 3 jobs" "$V" report --all jobs
has "job of 2 ranks on 1 host" "$V" report --all jobs
has "1 file without a rank" "$V" report --all jobs
"$V" report --all jobs | sed -n '/job of 2 ranks/,$p' | grep -q MISSING && echo "FAILED: one of a complete job is missing" && failures=$((failures + 1))
"$V" report --json jobs >jobs.json
[ $? = 3 ] || no "a job that lacks a rank"
python3 - <<'PY' || failures=$((failures + 1))
import json
report = json.load(open("jobs.json"))
a, b, c = report["jobs"]
assert len(report["files"]) == 10 and [j["world_size"] for j in report["jobs"]] == [8, 2, None]
assert [j["missing_ranks"] for j in report["jobs"]] == [[5], [], []] and [j["ranked"] for j in report["jobs"]] == [True, True, False]
assert a["hosts"] == 2 and a["peak_allocated"]["max_rank"] == 2 and a["peak_allocated"]["max_file"] == "jobs/run-r2.db"
true = {f["rank"]: t["peak_bytes"] for f in report["files"] if f["world_size"] == 8 for t in f["devices"][0]["totals"] if t["kind"] == "allocated"}
s = a["peak_allocated"]
assert (s["devices"], s["min_bytes"], s["max_bytes"], s["mean_bytes"]) == (7, min(true.values()), max(true.values()), sum(true.values()) // 7)
logits = next(p for p in a["phases"] if p["phase"] == "logits")
assert logits["peak_allocated"]["max_rank"] == 2 and logits["time"]["devices"] == 7 and logits["time"]["max_ns"] > 0
PY
has "== rank 2, ranks/run-r2.db" "$V" peak ranks
has "run-r2.db, rank 2, device 0" "$V" plot ranks
# 64 ranks in a moment
mkdir many && for r in $(seq 0 63); do ln ranks/run-r0.db many/r$r.db; done
took=$( (TIMEFORMAT='%U + %S' && time timeout 300 "$V" report --all many >many.txt 2>&1) 2>&1)
awk "BEGIN { exit !($took < 2) }" || no "64 files took $took s of a core"
# what a process on another host has not written yet lies in its journal there
python3 - <<'PY'
import shutil, sqlite3
shutil.copy("killed.db", "elsewhere.db")
db = sqlite3.connect("elsewhere.db")
db.execute("INSERT OR REPLACE INTO meta(key, value) VALUES('journal', '/dev/shm/vramscope-4211-1.vsj')")
db.execute("DELETE FROM meta WHERE key = 'journal_merged'")
db.commit()
PY
has "then run there: vramscope recover /dev/shm/vramscope-4211-1.vsj" "$V" report --all elsewhere.db
golden peak_train.txt "$V" peak --top 4 --device 0 train.db
golden peak_phase.txt "$V" peak --by=phase --bytes train.db
golden plot_train.txt env COLUMNS=90 "$V" plot train.db
golden report_train.json "$V" report --json train.db
"$V" report --json train.db oom.db >report.json && "$V" peak --json --top 0 train.db >peak.json || failures=$((failures + 1))
python3 - <<'PY' || failures=$((failures + 1))
import json, sqlite3
report, peak = json.load(open("report.json")), json.load(open("peak.json"))
assert [f["oom_count"] for f in report["files"]] == [0, 1]
for d in peak["files"][0]["devices"]:
    true = sqlite3.connect("train.db").execute("SELECT peak_bytes FROM peak WHERE kind='allocated' AND device=?", (d["device"],)).fetchone()[0]
    assert d["allocated_bytes"] == true == d["held_bytes"]
    for by in ("phase", "category", "library", "stack"):
        assert sum(r["size_bytes"] for r in d["by_" + by]) == true, by
    assert any(r["frames"] for r in d["by_stack"])
for d in report["files"][0]["devices"]:
    r = d["residual"]
    for m in (r, r["last"]):
        assert m["driver_used_bytes"] == m["reserved_bytes"] + m["residual_bytes"]
        assert m["residual_bytes"] == sum(m[k + "_bytes"] or 0 for k in ("context", "limits", "code", "streams", "graphs", "peer_access",
                                                                         "inferred", "unexplained"))
    assert d["peak"]["allocated_bytes"] == sum(h["size_bytes"] for h in d["peak"]["held"])
    assert r["context_bytes"] == 500 << 20 and r["inferred_bytes"] is None and r["calls_not_measured"] == 1
assert report["files"][1]["devices"][0]["residual"]["inferred_bytes"] == 527 << 20
PY
[ $failures = 0 ] && echo "reports are as they should be" || exit 1
