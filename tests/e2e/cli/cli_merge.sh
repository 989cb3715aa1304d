#!/bin/bash
# The processes of a merged file are shown as the directory is, and each as its own file; what cannot be merged is one line, and leaves
# nothing behind.
. "$(dirname "$0")/../lib/command.bash"

mkdir job
make_db job/a.db --rank 0 --world 4 --arena
make_db job/b.db --rank 1 --world 4 --gpu 1 --steps 5 --extra 96 --leak 8
make_db job/c.db --rank 2 --world 4 --gpu 2 --kind killed
make_db job/d.db --rank 3 --world 4 --gpu 3 --devices 2 --extra 40
# the same number is another phase in another file, and one file has names that others lack
name_phase() { # FILE NAME: of what was in no phase
    sqlite3 "$1" "INSERT INTO phase VALUES(9, '$2'); UPDATE ev SET phase = 9 WHERE phase = 0; UPDATE live SET phase = 9 WHERE phase = 0;
        UPDATE zone SET phase = 9 WHERE phase = 0; UPDATE phase_stat SET phase = 9 WHERE phase = 0; UPDATE peak_live SET phase = 9 WHERE phase = 0;
        UPDATE zone SET held = '[[9,4096,512],[2,1,0],[-1,5,0]]'" || exit 1
}
for db in job/*.db; do sqlite3 "$db" "UPDATE rng SET source = 2" || exit 1; done # as NVTX has them, so that --phases means them
name_phase job/a.db warm-up
name_phase job/b.db loading
sqlite3 job/b.db "INSERT INTO string VALUES(9000, 'libnew.so'); UPDATE stack SET owner = 9000 WHERE owner > 0;
    INSERT INTO framework_role SELECT alloc_seq, 1 FROM live_at_peak WHERE category = 'framework block'" || exit 1

"$V" merge -o job.db job >out 2>err
[ $? = 3 ] && grep -qx 'job.db: 4 recordings of 4 files' out && [ ! -s err ] || no "merge: $(cat out err)"
[ -e job.db.part ] && no "job.db.part is left"
[ "$(sqlite3 job.db 'PRAGMA integrity_check; SELECT count(*), count(DISTINCT rank), max(id) FROM process')" = $'ok\n4|4|4' ] || no "the processes: $(sqlite3 job.db 'SELECT * FROM process')"

# ---- the job, as of the directory ----

plain() { sed -E 's/─+/─/g; s#job/a\.db#P1#g; s#job/b\.db#P2#g; s#job/c\.db#P3#g; s#job/d\.db#P4#g; s#job\.db\#([1-4])#P\1#g; s#\b([abcd])\.db\b#\1#g; s/ \(process [1-4] of the file.s [0-9 ,and]*\)//; s/"process": [1-4],/"process": 1,/; s/"processes": [1-4],/"processes": 1,/;
    s/stack [0-9]+ +/stack /; s/"(stack|zone|range|alloc_seq|seq)": [0-9]+/"\1": 0/' "$1" | sed -E 's#\b([abcd])\b *$##; s# *$##; s#P[1-4] *$##; s# *$##'; }
# same DIRECTORY-COMMAND: IT is the directory or the merged file
same() {
    COLUMNS=200 "${@//IT/job}" >apart.out 2>apart.err
    echo "status $?" >>apart.out
    COLUMNS=200 "${@//IT/job.db}" >merged.out 2>merged.err
    echo "status $?" >>merged.out
    diff <(plain apart.out) <(plain merged.out) >difference || no "$*: $(head -20 difference)"
    diff <(plain apart.err) <(plain merged.err) >difference || no "$*, stderr: $(head -5 difference)"
    [ "$(wc -c <apart.out)" -gt 100 ] || no "$* says nothing: $(cat apart.out apart.err)"
}
same "$V" report --all IT --bytes
same "$V" report --all IT --phases 'mine=f*'
same "$V" peak IT --by line
same "$V" peak IT --by phase
same "$V" waste IT
# check has the processes of every file, and says which
for limit in 7GiB 6GiB 8GiB; do
    "$V" check job --max-peak=$limit >apart.out 2>&1
    apart=$?
    "$V" check job.db --max-peak=$limit >merged.out 2>&1
    merged=$?
    [ $apart = $merged ] && [ "$(grep -cE '^ *(within|BEYOND|CANNOT)' apart.out)" = "$(grep -cE '^ *(within|BEYOND|CANNOT)' merged.out)" ] || no "check: $apart and $merged, $(cat merged.out)"
done
for process in 1 2 3 4; do
    file=job/$(cut -c$process <<<abcd).db
    more=()
    [ $process != 2 ] || more=("plot --step 2" "report --all --bytes --phases=mine=f* --steps=back*" "peak --by phase --phases=mine=f*,rest=b*")
    for command in report "peak --by role" "waste --json" plot "report --json" "${more[@]}"; do
        # shellcheck disable=SC2086
        "$V" $command "$file" >apart.out 2>apart.err
        # shellcheck disable=SC2086
        "$V" $command job.db#$process >merged.out 2>merged.err
        diff <(plain apart.out) <(plain merged.out) >difference || no "$command of process $process: $(head -10 difference)"
        cmp -s <(plain apart.err) <(plain merged.err) || no "$command of process $process, stderr: $(cat merged.err)"
    done
done
"$V" diff job job.db >out 2>err
[ $? = 3 ] && [ ! -s err ] || no "diff of the directory and the file: $(cat err)" # events are missing in one
grep -qE '^ +(total|allocated).*[+-][0-9.]+ [KMG]iB' out && no "the directory and the file differ: $(cat out)"
"$V" view -o page.html job.db >out 2>&1
[ $? = 3 ] && [ -s page.html ] || no "view: $(cat out)" # rank 2 was killed and lost events
"$V" report --all job.db --process 2 >out 2>err && grep -q 'rank 1 of 4' out && [ ! -s err ] || no "--process of a merged file: $(head -5 out err)"

# ---- the views, by process ----

views=$(sqlite3 job.db "SELECT m.name FROM sqlite_master m WHERE m.type = 'view' AND m.name NOT IN ('arena', 'open_allocation') AND EXISTS (SELECT 1 FROM pragma_table_info(m.name) WHERE name = 'process') ORDER BY m.name")
[ "$(wc -w <<<"$views")" -ge 12 ] || no "views: $views"
for process in 1 2 3 4; do
    own=job/$(cut -c$process <<<abcd).db
    for view in $views; do
        columns=$(sqlite3 job.db "SELECT group_concat('total(' || name || ')', ', ') FROM pragma_table_info('$view') WHERE name LIKE '%bytes' OR name LIKE '%ns' OR name = 'size'")
        names=$(sqlite3 job.db "SELECT group_concat('group_concat(DISTINCT ' || name || ')', ', ') FROM pragma_table_info('$view') WHERE name IN ('phase', 'owner', 'line', 'layer', 'role', 'name', 'op')")
        sum="count(*)${columns:+, $columns}${names:+, $names}"
        mine=$(sqlite3 "$own" "SELECT $sum FROM (SELECT * FROM $view ORDER BY ${names:+phase,} 1)" 2>/dev/null || sqlite3 "$own" "SELECT $sum FROM $view") || no "$own: $view"
        merged=$(sqlite3 job.db "SELECT $sum FROM (SELECT * FROM $view WHERE process = $process ORDER BY ${names:+phase,} 1)" 2>/dev/null || sqlite3 job.db "SELECT $sum FROM $view WHERE process = $process") || no "job.db: $view"
        [ "$mine" = "$merged" ] || no "view $view of process $process: $merged instead of $mine"
    done
done
[ "$(sqlite3 job.db "SELECT DISTINCT process, phase FROM zone_held WHERE phase IN ('warm-up', 'loading') ORDER BY 1")" = $'1|warm-up\n2|loading' ] || no "who held: $(sqlite3 job.db 'SELECT DISTINCT process, phase FROM zone_held')"

# ---- merged files are merged again ----

mkdir two
"$V" merge -o two/first.db job/a.db job/b.db >out 2>err
[ $? = 3 ] && grep -q '2 recordings of 2 files' out || no "two files: $(cat out err)"
cp job/d.db two
"$V" merge -o again.db two >out 2>err # rank 2 is in none of them
[ $? = 3 ] && grep -q '3 recordings of 2 files' out && grep -q 'of the job.s 4 ranks 1 has no file, and not shown: 2' err || no "a merged file and another: $(cat out err)"
[ "$(sqlite3 again.db "SELECT group_concat(rank) FROM (SELECT rank FROM process ORDER BY id)")" = 3,0,1 ] || no "its ranks"
diff <("$V" peak --by line job/b.db | tail -n +2) <("$V" peak --by line again.db#3 | tail -n +2) >difference || no "its third process: $(head difference)"

# ---- bad input ----

fails() {
    local pattern=$1 status
    shift
    rm -f new.db
    "$V" merge "$@" >out 2>err
    status=$?
    if [ $status != 2 ] || [ -s out ] || [ "$(wc -l <err)" != 1 ] || ! grep -qF -e "$pattern" err; then no "merge $*: status $status, $(head -3 out err)"; fi
    if [ -e new.db ] || [ -e new.db.part ]; then no "merge $* leaves $(ls new.db*)"; fi
}
mkdir bad old rerun
echo junk >bad/x.db
make_db old/r0.db --rank 0 --world 2 && make_db old/r1.db --rank 1 --world 2 --schema-version 4
make_db rerun/r0.db --rank 0 --world 2 && make_db rerun/r1.db --rank 1 --world 2 --gpu 1 && make_db rerun/s0.db --rank 0 --world 2 --start 500
head -c 20000 job/a.db >bad/cut.db
fails 'bad/x.db is not a database' -o new.db job bad/x.db
fails 'is truncated' -o new.db job/b.db bad/cut.db
fails 'old/r1.db was made by a vramscope older' -o new.db old
fails 'job/b.db and job/b.db are the same process' -o new.db job/b.db job/b.db
fails 'are of different jobs' -o new.db rerun
fails 'is one of the recordings' -o job/b.db job
cp job.db kept.db
fails 'bad/x.db is not a database' -o kept.db bad/x.db
cmp -s job.db kept.db || no "what failed took the place of the file that was there"
fails 'is a recording, never replaced without --force' -o kept.db job/a.db job/b.db
fails 'is a recording, never replaced without --force' -o old/r1.db job/a.db job/b.db # of another schema
make_db one.db --rank 0
ln -s one.db link.db
fails 'is a recording, never replaced without --force' -o link.db job/a.db job/b.db
"$V" report --all one.db >out 2>err || no "a recording was touched: $(cat err)"
echo 'of what was there' >one.db-wal
"$V" merge --force -o link.db job/a.db job/b.db >out 2>err
status=$?
[ $status = 3 ] && [ -L link.db ] && [ ! -e one.db-wal ] && [ "$(sqlite3 one.db 'SELECT count(*) FROM process')" = 2 ] || no "merge --force: $status $(cat out err)"
echo text >text.db
"$V" merge -o text.db job/a.db job/b.db >out 2>err
[ $? = 3 ] && [ "$(sqlite3 text.db 'SELECT count(*) FROM process')" = 2 ] || no "merge over what is no recording: $(cat out err)"
# what is there under a name that we would write meanwhile is somebody's
mkdir parts
cp job/a.db parts/out.db.part
echo mine >parts/out.db.part2-journal
"$V" merge -o parts/out.db parts/out.db.part job/b.db >out 2>err
[ $? = 3 ] && cmp -s job/a.db parts/out.db.part && [ "$(sqlite3 parts/out.db 'SELECT count(*) FROM process')" = 2 ] || no "an operand out.db.part: $(cat out err)"
[ "$(cat parts/out.db.part2-journal)" = mine ] && [ "$(cd parts && echo *)" = 'out.db out.db.part out.db.part2-journal' ] || no "what was there is changed: $(ls parts)"
echo text >parts/page.csv.part
"$V" export --format=csv -o parts/page.csv job/a.db >out 2>err
[ -s parts/page.csv ] && [ "$(cat parts/page.csv.part)" = text ] || no "export: page.csv.part: $(cat err)"
fails 'bad/x.db is not a database' -o parts/out2.db bad/x.db
# a log of SQLite's is applied to whatever gets the name
for log in -wal -journal; do
    echo log >new2.db$log
    fails 'lies beside new2.db' -o new2.db job/a.db job/b.db
    [ "$(echo new2.db*)" = new2.db$log ] || no "a refused merge leaves $(echo new2.db*)"
    rm new2.db$log
done
make_db killed.db --rank 0
python3 - <<'PY' || no "no log"
import os, sqlite3, sys
db = sqlite3.connect("killed.db")
db.execute("PRAGMA journal_mode=WAL")
db.execute("PRAGMA wal_autocheckpoint=0")
db.execute("CREATE TABLE more AS SELECT * FROM sqlite_master")
db.commit()
os._exit(0)
PY
[ -s killed.db-wal ] || no "no log of a killed writer"
"$V" merge --force -o killed.db job/a.db job/b.db >out 2>err
[ $? = 3 ] && [ "$(sqlite3 killed.db 'PRAGMA integrity_check; SELECT count(*) FROM process')" = $'ok\n2' ] || no "merge --force over what was killed: $(cat out err)"
# pages and pictures never replace one
"$V" plot --format=png -o kept.db job/a.db >out 2>err
[ $? = 2 ] && grep -q 'kept.db is a recording' err || no "plot over a recording: $(cat out err)"
"$V" view -o kept.db job/a.db >out 2>err
[ $? = 2 ] && grep -q 'kept.db is a recording' err || no "view over a recording: $(cat out err)"
cmp -s job.db kept.db || no "a recording was replaced"
"$V" plot -o job.db job.db >out 2>err
status=$?
[ $status = 2 ] && cmp -s job.db kept.db || no "plot over the merged file: $(cat out err)"
for command in report peak waste plot whatif "export --format=csv" "estimate --params=1e9"; do
    for process in "--process=9 job.db" "--process=9 one.db" "job.db#9"; do
        # shellcheck disable=SC2086
        "$V" $command $process >out 2>err
        [ $? = 2 ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -q 'has no process 9: it has 1' err || no "$command of a process that is not there: $(head -3 out err)"
    done
done
# where one is shown and nobody chose, a line says which
"$V" export --format=csv job.db >out 2>err
grep -qx 'vramscope: job.db has the processes 1, 2, 3 and 4: this is 1; --process N shows another' err || no "which process it is: $(cat err)"
"$V" report --all --process 1 job/a.db >out 2>err && [ ! -s err ] && ! grep -q 'process 1' out || no "the one process of a file by its number: $(cat err)"

[ $failures = 0 ] && echo "a merged job is shown as its directory" || exit 1
