#!/bin/bash
# A sweep keeps what it finds at every point of a grid: hangs, whose processes are all ended, crashes, out-of-memory, missing ranks; goes on
# where it was
# interrupted; and has predictions beside measurements.
. "$(dirname "$0")/../lib/lib.bash"
cd "$dir" || exit 1
refused() { # TEXT ARGUMENT...
    local text=$1
    shift
    timeout 300 "$V" sweep "$@" >out 2>err
    local status=$?
    if [ $status != 2 ] || [ "$(wc -l <err)" != 1 ] || [ -s out ] || ! grep -qF -- "$text" err; then
        fail "sweep $*: not one line '$text': $status $(head -c 400 err out)"
    fi
}
column() { # FILE NAME: POINT VALUE lines, of all ranks
    python3 -c 'import csv, sys
for r in csv.DictReader(open(sys.argv[1])):
    print(r["batch"] + "x" + r["seq"], r[sys.argv[2]])' "$@"
}
word=sweep-$$ # in the command lines of this test's programs
none_lives() { ! pgrep -f "prog_sizes .* $word" >/dev/null || fail "$*: $(pgrep -af "prog_sizes .* $word")"; }
outcomes() { column "$1/sweep.csv" outcome | tr '\n' ' '; }

# a point hangs where it takes far longer than one that does not takes here and now: no time is short for every machine
before=${EPOCHREALTIME/./}
timeout 300 "$V" sweep -q --simulated -o one --grid batch=2 --grid seq=512 -- "$tests/prog_sizes" '{batch}' '{seq}' "$word" >out 2>err || fail "one point: $(cat err)"
patience=$((5 + 10 * (${EPOCHREALTIME/./} - before) / 1000000))s

# outcomes: beyond 4096 tokens it hangs, or crashes, or runs out of memory
for how in hang crash oom; do
    timeout 120 "$V" sweep --simulated -o "$how" --timeout=$patience --grid batch=2,4 --grid seq=512,1024,2048 -- \
        "$tests/prog_sizes" '{batch}' '{seq}' "$word" $how >"$how.txt" 2>err || fail "sweep $how: $? $(cat err "$how.txt")"
    [ "$(outcomes $how)" = "2x512 ok 2x1024 ok 2x2048 ok 4x512 ok 4x1024 ok 4x2048 $how " ] || fail "$how: $(outcomes $how)"
done
none_lives "a point that hung was not ended"

# the driver's refusal is one too, whoever asked, where nothing follows it; the request is said
timeout 300 "$V" sweep --simulated -o refused --grid batch=4 --grid seq=512,2048 -- "$tests/prog_sizes" '{batch}' '{seq}' "$word" refused >refused.txt 2>err || fail "sweep refused: $(cat err)"
[ "$(outcomes refused)" = "4x512 ok 4x2048 oom " ] || fail "what the driver refused: $(outcomes refused)"
grep -q '^batch=4,seq=2048: oom, exit 1, .*, 1.00 TiB refused' refused.txt && grep -q 'oom, asked 1.00 TiB' refused.txt || fail "its size: $(cat refused.txt)"
column refused/sweep.csv refused_bytes | grep -q '4x2048 1099511627776' || fail "its bytes: $(cat refused/sweep.csv)"
timeout 300 "$V" sweep --simulated -o recovers --grid batch=4 --grid seq=2048 -- "$tests/prog_sizes" '{batch}' '{seq}' "$word" recovers >recovers.txt 2>err || fail "sweep recovers: $(cat err)"
[ "$(outcomes recovers)" = "4x2048 crash " ] || fail "a refusal that the program lived on after: $(outcomes recovers)"

# one database has every point and every recording, whatever became of it; whatif takes it for the files, without those that ran out of memory
sql() { sqlite3 "$@" | tr '\n' ' '; }
for how in hang crash oom; do
    [ "$(sql $how/sweep.db "SELECT batch || 'x' || seq, outcome FROM sweep ORDER BY batch, seq")" = "2x512|ok 2x1024|ok 2x2048|ok 4x512|ok 4x1024|ok 4x2048|$how " ] ||
        fail "points of $how/sweep.db: $(sql $how/sweep.db 'SELECT batch, seq, outcome FROM sweep')"
done
[ "$(sql crash/sweep.db "SELECT status, processes FROM sweep WHERE outcome = 'crash'")" = "signal 11|1 " ] || fail "the signal in the database"
python3 - oom <<'PY' || fail "the database is not the CSV"
import csv, sqlite3, sys
rows = list(csv.DictReader(open(sys.argv[1] + "/sweep.csv")))
db = sqlite3.connect(sys.argv[1] + "/sweep.db")
db.row_factory = sqlite3.Row
points, ranks = db.execute("SELECT * FROM sweep").fetchall(), db.execute("SELECT * FROM sweep_rank").fetchall()
assert len(points) == len(ranks) == len(rows) == 6, (len(points), len(ranks))
for p, r, c in zip(points, ranks, rows):
    for name in ("batch", "seq", "allocated_bytes", "reserved_bytes", "framework_allocated_bytes", "framework_reserved_bytes"):
        assert str(p[name]) == str(r[name]) == c[name], (name, p[name], r[name], c[name])
    for name in ("predicted_framework_allocated_bytes", "predicted_framework_reserved_bytes"):
        assert str(p[name.replace("_framework", "")]) == c[name], name
    label, = db.execute("SELECT group_concat(value, 'x') FROM (SELECT value FROM meta WHERE process = ? AND key LIKE 'label.%' ORDER BY key)", (r["process"],)).fetchone()
    assert label == c["batch"] + "x" + c["seq"], label
    peak, = db.execute("SELECT sum(size_bytes) FROM live_at_peak WHERE process = ?", (r["process"],)).fetchone()
    assert peak == p["allocated_bytes"], peak
PY
timeout 300 "$V" whatif --json --batch=4 --seq=512..4096 oom/sweep.db >one.json 2>err || fail "whatif of a sweep's database: $(cat err)"
[ "$(wc -l <err)" = 1 ] && grep -q 'sweep.db: 5 of its 6 recordings taken: .*; left out: 1 that ran out of memory$' err || fail "what of it was left out: $(cat err)"
timeout 300 "$V" whatif --json --batch=4 --seq=512..4096 oom/batch=2,*/run.db oom/batch=4,seq={512,1024}/run.db >apart.json 2>err || fail "whatif of a sweep's files: $(cat err)"
cmp -s one.json apart.json || fail "the database and its files: $(diff one.json apart.json | head -5)"
# recordings of different programs follow no common law; those without labels are named as such, with what helps
cp oom/sweep.db apart.db
sqlite3 apart.db "INSERT INTO meta(process, key, value) SELECT id, 'label.attention', CASE WHEN id = 2 THEN 'eager' ELSE 'sdpa' END FROM process"
timeout 300 "$V" whatif --batch=4 --seq=512 apart.db >out 2>err && fail "a law of two programs"
[ "$(wc -l <err)" = 1 ] && grep -q 'apart.db has recordings of attention=sdpa and of attention=eager, ' err || fail "two programs: $(cat err)"
sqlite3 apart.db "DELETE FROM meta WHERE key LIKE 'label.%'"
timeout 300 "$V" whatif --batch=4 --seq=512 apart.db >out 2>err && fail "a law of no sizes"
[ "$(wc -l <err)" = 1 ] && grep -q '0 of its 6 recordings taken; left out: 1 that ran out of memory, 5 without labels batch and seq (name each as apart.db#1:batch=4,seq=1024)' err ||
    fail "no labels: $(cat err)"
"$V" report --all oom/sweep.db >out 2>err && [ "$(grep -c '^labels batch=' out)" = 6 ] || fail "a sweep's database as a report: $(head -5 out err)"
grep -qx 'a sweep of 6 points: 5 ok, 1 oom' out && grep -Eq '^  batch=4,seq=2048 +oom, asked 1.00 GiB +[0-9.]+ m?s +1 +[0-9.]+ MiB +[0-9.]+ GiB' out || fail "a sweep's points above its report: $(head -12 out)"
# points that left no recording are in the report, and nobody can tell what they would have held; those that crashed may have ended before their peak
cat >lacks <<'END'
#!/bin/bash
[ "$1" != 4 ] || exit 3
exec "$PROG" "$@"
END
chmod +x lacks
PROG=$tests/prog_sizes timeout 300 "$V" sweep -q --simulated -o lacks.d --grid batch=2,4 --grid seq=512 -- ./lacks '{batch}' '{seq}' "$word" >lacks.txt 2>err
"$V" report --all lacks.d/sweep.db >out
[ $? = 3 ] && grep -qx 'a sweep of 2 points: 1 ok, 1 crash' out && grep -Eq '^  batch=4,seq=512 +crash, exit 3 .* 0 of 1 +- +-' out || fail "a report lacks the point that crashed: $(head -12 out)"
"$V" report --json lacks.d/sweep.db >/dev/null
[ $? = 3 ] || fail "the status of a report that lacks a point"
"$V" check lacks.d/sweep.db --max-peak=100GiB >out
[ $? = 3 ] && grep -q '^CANNOT TELL  the point batch=4,seq=512: .*crash, exit 3; nothing of it was recorded' out && grep -q '^1 within, 0 beyond, 1 that nobody can tell' out ||
    fail "a check of a point that left nothing: $(cat out)"
"$V" check crash/sweep.db --allow-killed --max-peak=100GiB >out || fail "--allow-killed takes what crashed as ended: $(cat out)"
"$V" check crash/sweep.db --max-peak=100GiB >out
[ $? = 3 ] && grep -q '^CANNOT TELL  the point batch=4,seq=2048: .*crash, signal 11: what it would have used later is unknown' out || fail "a check of a point that crashed: $(cat out)"

# an axis may be called as a column of the tables, which stays what it is
timeout 300 "$V" sweep -q --simulated -o named --grid point=3,2 --grid Rank=7 -- "$tests/prog_sizes" 2 512 "$word" '{point}' '{Rank}' >out 2>err || fail "axes named as columns: $(cat out err)"
"$V" merge -o named.db named/sweep.db >out 2>&1 || fail "merge of axes named as columns: $(cat out)"
for file in named/sweep.db named.db; do
    [ "$(sql $file "SELECT point, axis_point, axis_Rank, processes FROM sweep ORDER BY point")" = "1|3|7|1 2|2|7|1 " ] || fail "$file: $(sql $file 'SELECT * FROM sweep')"
    [ "$(sql $file "SELECT point, axis_point, axis_Rank, process, rank FROM sweep_rank ORDER BY point")" = "1|3|7|1| 2|2|7|2| " ] || fail "$file: $(sql $file 'SELECT * FROM sweep_rank')"
done
[ "$(head -n 1 named/sweep.csv | tr , '\n' | sort -f | uniq -di)" = "" ] || fail "columns of one name: $(head -n 1 named/sweep.csv)"

# merge keeps a sweep's points, and tells those of several sweeps apart; what was merged is drawn and reported as the sweep is
"$V" merge -o merged.db oom/sweep.db >out 2>err && [ ! -s err ] || fail "merge of a sweep: $(cat err)"
[ "$(sqlite3 merged.db 'SELECT * FROM sweep; SELECT * FROM sweep_rank')" = "$(sqlite3 oom/sweep.db 'SELECT * FROM sweep; SELECT * FROM sweep_rank')" ] || fail "merge changes a sweep's points"
"$V" merge -o both.db oom/batch=2,seq=512/run.db crash/sweep.db hang/sweep.db >out 2>err || fail "merge of two sweeps: $(cat err)"
python3 - both.db crash hang <<'PY' || fail "points of two sweeps in one file"
import sqlite3, sys
both = sqlite3.connect(sys.argv[1])
named = {"sweep_file", "batch", "seq"}
got = both.execute("SELECT sweep_file, batch, seq, outcome, allocated_bytes, reserved_bytes FROM sweep ORDER BY point").fetchall()
want = [(name + "/sweep.db", *row) for name in sys.argv[2:]
        for row in sqlite3.connect(name + "/sweep.db").execute("SELECT batch, seq, outcome, allocated_bytes, reserved_bytes FROM sweep ORDER BY point")]
assert got == want, (got, want)
assert named == {n for n, in both.execute("SELECT DISTINCT name FROM sweep_value")}
assert {p for p, in both.execute("SELECT process FROM sweep_process")} == set(range(2, 14))  # the first process is of no sweep
names = [n for n, in both.execute("SELECT name FROM sweep_point ORDER BY id")]
assert names[0] == "sweep_file=crash/sweep.db,batch=2,seq=512" and len(set(names)) == 12, names
PY
"$V" merge -o nested.db both.db refused/sweep.db >out 2>err || fail "merge of what was merged: $(cat err)"
[ "$(sql nested.db "SELECT DISTINCT sweep_file FROM sweep")" = "both.db/crash/sweep.db both.db/hang/sweep.db sweep.db " ] || fail "sweeps of sweeps: $(sql nested.db 'SELECT DISTINCT sweep_file FROM sweep')"
# axes that are numbered from 0 keep their values, and stand behind the sweep's file
cp oom/sweep.db zero.db
sqlite3 zero.db "UPDATE sweep_value SET axis = axis - 10; UPDATE sweep_value SET axis = axis + 9"
[ "$(sql zero.db 'SELECT min(axis), max(axis) FROM sweep_value')" = "0|1 " ] || fail "axes from 0: $(sql zero.db 'SELECT min(axis), max(axis) FROM sweep_value')"
"$V" merge -o zeros.db zero.db crash/sweep.db >out 2>err && [ ! -s err ] || fail "merge of axes from 0: $(cat err)"
[ "$(sql zeros.db "SELECT batch, seq FROM sweep WHERE sweep_file = 'zero.db'")" = "$(sql oom/sweep.db 'SELECT batch, seq FROM sweep')" ] || fail "axes from 0: $(sql zeros.db 'SELECT * FROM sweep')"
[ "$(sqlite3 zeros.db "SELECT name FROM pragma_table_info('sweep') WHERE name IN (SELECT name FROM sweep_value) LIMIT 1")" = sweep_file ] || fail "where the sweep's file stands: $(sqlite3 zeros.db "SELECT name FROM pragma_table_info('sweep')")"
# of more axes than the views have columns for it is said how many are in the table alone
sqlite3 zero.db "WITH RECURSIVE n(i) AS (VALUES(10) UNION ALL SELECT i + 1 FROM n WHERE i < 42) INSERT INTO sweep_value SELECT p.id, i, 'axis' || i, i FROM n, sweep_point p"
"$V" merge -o wide.db zero.db crash/sweep.db >out 2>err || fail "merge of 36 axes: $(cat err)"
[ "$(cat err)" = "vramscope: merge: 4 axes of the sweeps' points: without a column in views sweep and sweep_rank; the values are in table sweep_value" ] || fail "axes without a column: $(cat err)"
[ "$(sqlite3 wide.db "SELECT count(DISTINCT name) - (SELECT count(*) FROM pragma_table_info('sweep') WHERE name IN (SELECT name FROM sweep_value)) FROM sweep_value")" = 4 ] || fail "axes without a column are not four"
# one of another shape is refused, and leaves nothing
cp oom/sweep.db odd.db
sqlite3 odd.db 'DROP VIEW sweep; ALTER TABLE sweep_point DROP COLUMN fitted'
"$V" merge -o never.db odd.db >out 2>err && fail "points without a column"
[ "$(wc -l <err)" = 1 ] && grep -q 'odd.db can.t be copied: .*fitted' err && [ ! -e never.db ] || fail "points without a column: $(cat err)"

# report --json has the points: those of the CSV, byte by byte
"$V" report --json oom/sweep.db >sweep.json || fail "report --json of a sweep"
python3 - sweep.json oom/sweep.csv <<'PY' || fail "the points in JSON are not the CSV's"
import csv, json, sys
sweep, = json.load(open(sys.argv[1]))["sweeps"]
rows = list(csv.DictReader(open(sys.argv[2])))
assert sweep["axes"] == ["batch", "seq"] and len(sweep["points"]) == len(rows) == 6
for p, c in zip(sweep["points"], rows):
    r, = p["processes"]
    assert {v["name"]: v["value"] for v in p["values"]} == {"batch": c["batch"], "seq": c["seq"]} and p["outcome"] == c["outcome"] and p["status"] == c["status"], (p, c)
    assert str(p["fitted"] + 0) == c["fitted"] and (p["refused_bytes"] is None) == (not c["refused_bytes"]), (p, c)
    for name in ("allocated_bytes", "reserved_bytes", "framework_allocated_bytes", "framework_reserved_bytes"):
        assert str(r[name]) == c[name], (name, r, c)
    for name in ("predicted_framework_allocated_bytes", "predicted_framework_reserved_bytes"):
        assert str(p[name]) == c[name], (name, p, c)
PY
"$V" report --json oom/batch=2,seq=512/run.db | grep -q '"sweeps"' && fail "a recording has sweeps"

# plot draws a sweep by its folder, by its database, and by one that is merged of it, the same; its processes where one or a part of them is asked for
"$V" plot oom -o own.gp 2>err && grep -q 'steps a second' own.gp || fail "plot of a sweep's folder: $(cat err)"
for file in oom/sweep.db merged.db; do
    "$V" plot "$file" -o drawn.gp 2>err || fail "plot of $file: $(cat err)"
    diff <(grep -v '^set output' own.gp) <(grep -v '^set output' drawn.gp) >differ || fail "plot of $file is not that of the folder: $(head -5 differ)"
done
"$V" plot oom/sweep.db >out 2>err && grep -q "^reserved by the framework's allocator, GiB, over seq" out && [ "$(grep -c '^  batch=[24], predicted$' out)" = 2 ] || fail "a sweep in text: $(cat out err)"
[ "$(awk '/^iterations/ { on = 1 } on && /####/' out | wc -l)" -ge 2 ] || fail "bars of a sweep: $(cat out)"
"$V" plot both.db -o drawn.gp 2>err || fail "plot of two sweeps: $(cat err)"
grep -q 'title "sweep_file=crash/sweep.db, batch=2"' drawn.gp && grep -q 'title "sweep_file=hang/sweep.db, batch=4"' drawn.gp || fail "two sweeps' curves"
"$V" plot "oom/sweep.db#2" >out && grep -q 'phase' out && ! grep -q 'over seq' out || fail "a recording of a sweep: $(head -5 out)"
"$V" plot --step=1 oom/sweep.db >out && ! grep -q 'over seq' out || fail "a step of a sweep's recordings: $(head -5 out)"
"$V" merge -o more.db oom/sweep.db "recovers/batch=4,seq=2048/run.db" >out 2>err && "$V" plot more.db >out 2>err || fail "a recording beside a sweep: $(cat err)"
[ "$(cat err)" = 'vramscope: plot: 1 recording of no point of the sweep: not in the picture (FILE#N draws one recording)' ] || fail "what is not in a sweep's picture: $(cat err)"
"$V" plot oom/sweep.db -o oom/sweep.db 2>err && fail "a picture replaces the sweep"
"$V" plot oom/sweep.db --format=png -o merged.db 2>err && fail "a picture replaces a recording"
"$V" plot lacks.d/sweep.db -o lacks.gp 2>err
[ $? = 3 ] && grep -q 'set xlabel "batch"' lacks.gp || fail "a picture of a sweep that lacks a recording: $(cat err)"
grep -q 'plot: of 1 of 2 points not every process was recorded' err && grep -q 'INCOMPLETE, of 1 of 2 points' lacks.gp || fail "a picture does not say what it lacks: $(cat err)"
"$V" plot refused/sweep.db --title=refusals >out 2>err && grep -qx refusals out || fail "a picture's title: $(cat out err)"
cp oom/sweep.db parts.db
sqlite3 parts.db "UPDATE sweep_value SET value = '0.' || value || 'e-1' WHERE name = 'seq'"
"$V" plot parts.db >out 2>err && grep -q "^reserved by the framework's allocator, GiB, over seq" out || fail "numbers that are not whole: $(cat err)"
# of a damaged file: a rate that is no program's is not drawn, a text is no number, and numbers that are equal are one
cp oom/sweep.db damaged.db
sqlite3 damaged.db "UPDATE sweep_process SET steps_per_second = 9e999; UPDATE sweep_point SET predicted_reserved_bytes = 'abc'"
"$V" plot damaged.db >out 2>err && ! grep -q 'inf\|iterations\|predicted' out || fail "a rate without end: $(cat out err)"
"$V" plot damaged.db -o drawn.svg 2>err && [ ! -s err ] || fail "a rate without end in a picture: $(cat err)"
"$V" report --json damaged.db | grep -q '"predicted_framework_reserved_bytes": *0' && fail "a text counts as 0 bytes"
sqlite3 damaged.db "UPDATE sweep_value SET value = substr('1.00', 1, 2 + point % 3) WHERE name = 'seq'; UPDATE sweep_value SET value = '1e308' WHERE name = 'batch'"
"$V" plot damaged.db -o drawn.svg 2>err && fail "an axis of equal numbers"
[ "$(wc -l <err)" = 1 ] && grep -q 'needs an axis of two numbers or more' err || fail "an axis of equal numbers: $(cat err)"
"$V" plot recovers/sweep.db >out 2>err && fail "a picture over one number"
[ "$(wc -l <err)" = 1 ] && grep -q 'needs an axis of two numbers or more' err || fail "a picture over one number: $(cat err)"

# what is done and collected again leaves the database that was there
rm oom/sweep.db
[ "$("$V" sweep -q --simulated -o oom --grid batch=2,4 --grid seq=512,1024,2048 -- "$tests/prog_sizes" '{batch}' '{seq}' "$word" oom | grep -c .)" -gt 6 ] && [ -s oom/sweep.db ] || fail "the sweep again"

# what is done is not run again, and that is said; columns that nothing stands in are left out first
timeout 300 "$V" sweep --simulated -o bare --grid batch=1 --grid seq=2 -- echo '{batch}' '{seq}' '${x} {2} {}' >bare.txt 2>err
grep -q 'nothing recorded: no process used the GPU (bare/batch=1,seq=2/log)' bare.txt || fail "why nothing was recorded: $(cat bare.txt)"
COLUMNS=80 timeout 300 "$V" sweep --simulated -o bare --grid batch=1 --grid seq=2 -- echo '{batch}' '{seq}' '${x} {2} {}' >bare.txt 2>err
[ ! -e bare/sweep.db ] || fail "a database of nothing"
grep -q '^nothing was run' bare.txt && grep -q 'RANKS  ALLOCATED  RESERVED$' bare.txt && ! grep -q 'PREDICTED\|no room' bare.txt || fail "again: $(cat bare.txt)"
column crash/sweep.csv status | grep -q '4x2048 signal 11' || fail "the signal: $(column crash/sweep.csv status)"
column hang/sweep.csv steps | grep -q '4x2048 2' || fail "what a hung point had done: $(column hang/sweep.csv steps)"
[ "$(column hang/sweep.csv steps_per_second | awk '$2 > 0' | wc -l)" = 6 ] || fail "iterations a second: $(column hang/sweep.csv steps_per_second)"

# a database that no sweep made stays, whatever it is, and nothing is run; a sweep's own goes with the last recording
timeout 300 "$V" sweep -q --simulated -o taken --grid batch=4 --grid seq=512 -- "$tests/prog_sizes" '{batch}' '{seq}' "$word" >out 2>err || fail "sweep: $(cat err)"
mv taken/sweep.db .
echo notes >notes
for other in notes taken/batch=4,seq=512/run.db; do
    cp "$other" taken/sweep.db
    refused "taken/sweep.db is not of a sweep" --again=ok --simulated -o taken --grid batch=4 --grid seq=512 -- "$tests/prog_sizes" '{batch}' '{seq}' "$word"
    cmp -s "$other" taken/sweep.db || fail "a sweep replaced $other as sweep.db"
done
mv sweep.db taken
rm taken/batch=4,seq=512/run.db
timeout 300 "$V" sweep -q --simulated -o taken --grid batch=4 --grid seq=512 -- "$tests/prog_sizes" '{batch}' '{seq}' "$word" >out 2>err
[ ! -e taken/sweep.db ] || fail "recordings that are gone stay in the database: $(cat out err)"

# predictions of the larger points, made of the smaller ones, are what was measured
python3 - oom/sweep.csv <<'PY' || fail "predictions"
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert [r["fitted"] for r in rows].count("1") in (3, 4), [r["fitted"] for r in rows]
told = [r for r in rows if r["fitted"] == "0" and r["outcome"] == "ok"]
assert told and all(r["predicted_framework_allocated_bytes"] == r["framework_allocated_bytes"] for r in told), told
assert all(r["predicted_framework_reserved_bytes"] for r in rows)
PY

# a value that is no number has no prediction, and none is made of it; nor beyond what laws take
cat >some <<'END'
#!/bin/bash
case $1-$2 in auto-256) exec "$PROG" 3 256 "$3" crash ;; auto-*) exec "$PROG" 2 4096 "$3" crash ;; *) exec "$PROG" "$1" "$2" "$3" crash ;; esac
END
chmod +x some
PROG=$tests/prog_sizes timeout 300 "$V" sweep --simulated -o auto --grid batch=2,4,auto --grid seq=256,512,1024,99999999999 -- ./some '{batch}' '{seq}' "$word" >auto.txt 2>err || fail "a batch that is no number: $(cat err)"
python3 - auto/sweep.csv <<'PY' || fail "predictions where a batch is no number: $(cat auto.txt)"
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert len(rows) == 12, rows
for r in rows:
    known = r["batch"] != "auto" and int(r["seq"]) < 2**24
    assert bool(r["predicted_framework_allocated_bytes"]) == known, r
PY
PROG=$tests/prog_sizes timeout 300 "$V" sweep --simulated -o first --grid batch=auto,2,4 --grid seq=256,512,1024 -- ./some '{batch}' '{seq}' "$word" >first.txt 2>err || fail "the first batch is no number: $(cat err)"
[ "$(column first/sweep.csv predicted_framework_allocated_bytes | awk 'NF == 2' | grep -vc auto)" = 6 ] || fail "no predictions behind a batch that is no number: $(cat first.txt)"

# what is done is not run again; a larger grid adds points; --again runs those that ended so
touch -d @1 oom/*/outcome
timeout 300 "$V" sweep --simulated -o oom --grid batch=2,4 --grid seq=256,512,1024,2048 -- "$tests/prog_sizes" '{batch}' '{seq}' "$word" oom >more.txt 2>err || fail "more points: $(cat err)"
[ "$(find oom -name outcome -newermt @2 | wc -l)" = 2 ] || fail "not the two new points alone were run: $(cat more.txt)"
timeout 300 "$V" sweep --simulated -o oom --again=oom --grid batch=2,4 --grid seq=256,512,1024,2048 -- "$tests/prog_sizes" '{batch}' '{seq}' "$word" oom >again.txt 2>err || fail "again"
[ "$(find oom -name outcome -newermt @2 | wc -l)" = 3 ] || fail "--again=oom did not run one point: $(cat again.txt)"

# interrupted: the point under way is none, its processes are ended, and the same command goes on
timeout 300 env --default-signal=INT "$V" sweep --simulated -o stop --grid batch=4 --grid seq=512,1024,2048 -- "$tests/prog_sizes" '{batch}' '{seq}' "$word" hang >stop.txt 2>err &
for ((i = 0; i < 600; i++)); do pgrep -f "prog_sizes 4 2048 $word hang" >/dev/null && break || sleep 0.05; done
pkill -INT -P $! -x vramscope
wait $!
grep -q 'interrupted: the same command goes on' err || fail "interrupted: $(cat err stop.txt)"
[ "$(find stop -name outcome | wc -l)" = 2 ] || fail "an interrupted point counts as done"
none_lives "an interrupted point lives on"
timeout 300 "$V" sweep --simulated --timeout=$patience -o stop --grid batch=4 --grid seq=512,1024,2048 -- "$tests/prog_sizes" '{batch}' '{seq}' "$word" hang >stop.txt 2>err || fail "goes on: $(cat err)"
[ "$(outcomes stop)" = "4x512 ok 4x1024 ok 4x2048 hang " ] || fail "after the interruption: $(outcomes stop)"
left=$(grep -laF "$PWD/stop/" /dev/shm/vramscope-* 2>/dev/null) && fail "journals of points that ran again or were ended: $left"

# ranks, of which workers have sessions of their own and one is missing at a point; and what a point leaves behind is ended
cat >launch <<'END'
#!/bin/bash
for r in 0 1; do
    [ "$r$2" = 11024 ] || RANK=$r WORLD_SIZE=2 setsid "$PROG" "$@" &
done
wait
END
chmod +x launch
PROG=$tests/prog_sizes timeout 300 "$V" sweep --simulated -o ranks --grid batch=4 --grid seq=512,1024 -- ./launch '{batch}' '{seq}' "$word" >ranks.txt 2>err
[ $? = 3 ] || fail "a missing rank is not said: $(cat ranks.txt)"
grep -q '1 of 2' ranks.txt || fail "$(cat ranks.txt)"
[ "$(sql ranks/sweep.db 'SELECT seq, processes, expected_processes FROM sweep')" = "512|2|2 1024|1|2 " ] || fail "ranks in the database: $(sql ranks/sweep.db 'SELECT * FROM sweep')"
[ "$(column ranks/sweep.csv rank | tr '\n' ' ')" = "4x512 0 4x512 1 4x1024 0 " ] || fail "ranks: $(column ranks/sweep.csv rank)"
# where ranks hold different things, predictions are of the one that holds most, and that is said
cat >uneven <<'END'
#!/bin/bash
for r in 0 1; do
    RANK=$r WORLD_SIZE=2 "$PROG" $(($1 * (r + 1))) "$2" "$3" &
done
wait
END
chmod +x uneven
PROG=$tests/prog_sizes timeout 300 "$V" sweep --simulated -o uneven.d --grid batch=2,4 --grid seq=1024,2048 -- ./uneven '{batch}' '{seq}' "$word" >uneven.txt 2>err || fail "uneven ranks: $(cat err)"
grep -q "allocator reserves in rank 1, which held most, by laws" uneven.txt || fail "whose predictions: $(tail -3 uneven.txt)"
[ "$(sql uneven.d/sweep.db 'SELECT predicted_rank, predicted_allocated_bytes = framework_allocated_bytes, processes FROM sweep WHERE NOT fitted')" = "1|1|2 " ] ||
    fail "predictions of rank 1: $(sql uneven.d/sweep.db 'SELECT * FROM sweep')"
PROG=$tests/prog_sizes timeout 300 "$V" sweep --simulated -o rankhang --timeout=$patience --grid batch=4 --grid seq=2048 -- ./launch '{batch}' '{seq}' "$word" hang >rankhang.txt 2>err || fail "ranks that hang: $(cat err rankhang.txt)"
[ "$(column rankhang/sweep.csv outcome | sort -u)" = "4x2048 hang" ] || fail "$(cat rankhang.txt)"
timeout 300 "$V" sweep --simulated -o leave --grid batch=4 --grid seq=512 -- "$tests/prog_sizes" '{batch}' '{seq}' "$word" leave >leave.txt 2>err || fail "leave: $(cat err)"
grep -q 'left behind were ended' leave.txt || fail "$(cat leave.txt)"
none_lives "a rank, or what was left behind, lives on"

# the program has the limits that it would have without us; and the recordings are those of a directory
timeout 300 "$V" whatif --batch=4 --seq=512..4096 oom/*/run.db >out 2>err && fail "a recording that ran out of memory was taken"
timeout 300 "$V" whatif --batch=4 --seq=512..4096 oom/batch=2,*/run.db oom/batch=4,seq={512,1024}/run.db >out 2>err || fail "whatif of a sweep: $(cat err)"

# words are words: where one ends counts
"$V" sweep -q --simulated -o words --grid n=1 -- sh -c 'echo {n}; exit' x >out 2>err
refused "has points of another command" -o words --grid n=1 -- sh -c 'echo {n};' 'exit x'
refused "has points of another command" -o words --grid n=1 -- sh -c 'echo {n}; exit x'
: >words/command
refused "has points of another command" -o words --grid n=1 -- sh -c 'echo {n}; exit' x
# one sweep at a time, and none beside what a killed one left running
mkfifo go
"$V" sweep -q --simulated -o alone --grid n=1 -- sh -c 'echo {n} >begun; read x <go' >alone.txt 2>&1 &
sweeping=$!
for ((i = 0; i < 200; i++)); do [ -s begun ] && break || sleep 0.05; done
[ -s begun ] || fail "the first sweep does not begin: $(cat alone.txt alone/*/log)"
refused "another sweep runs in alone" -o alone --grid n=1 -- sh -c 'echo {n} >begun; read x <go'
kill -9 $sweeping
wait $sweeping 2>/dev/null
refused "another sweep runs in alone, or a process that one left behind" -o alone --grid n=1 -- sh -c 'echo {n} >begun; read x <go'
echo >go
for ((i = 0; i < 200; i++)); do flock -n alone true && break || sleep 0.05; done
(echo >go) &
timeout 300 "$V" sweep -q --simulated -o alone --grid n=1 -- sh -c 'echo {n} >begun; read x <go' >alone.txt 2>&1
grep -q '^ *n=1 *ok' alone.txt || fail "after a killed sweep's point has ended: $(cat alone.txt)"
refused "--grid batch has 1 twice" -o x --grid batch=1,1 -- echo '{batch}'
[ ! -e x ] || fail "a refused sweep makes a folder"
echo "a sweep keeps what it finds"
