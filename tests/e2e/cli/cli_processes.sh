#!/bin/bash
# A file of two processes: every command shows of each what it shows of that one's own file, says in one line which it is
# where nobody chose, and the file's views tell the two apart.
. "$(dirname "$0")/../lib/command.bash"
join() { python3 "$SRC/tests/data/join_db.py" "$SRC/shim/trace/schema.sql" "$@" || exit 1; }

make_db one.db --rank 0 --world 2 --arena
make_db two.db --rank 1 --world 2 --steps 5 --extra 96 --leak 8
make_db third.db --rank 0 --world 2 --extra 64
for db in one two; do
    sqlite3 $db.db "UPDATE rng SET source = 2" || exit 1 # as NVTX has them, so that --phases means them
done
join both.db one.db two.db

# what differs by itself: the file's name, and which process of how many it is
plain() { sed -E 's/(both|one|two)\.db/X.db/g; s/ \(process [12] of the file.s 1 and 2\)//; s/"process": [12],/"process": 1,/; s/"processes": [12],/"processes": 1,/' "$1"; }

# same COMMAND...: FILE in it is the process's own file, or the joined one with --process
same() {
    local own process
    for process in 1 2; do
        own=$([ $process = 1 ] && echo one || echo two)
        "${@//FILE/$own.db}" >own.out 2>own.err
        echo "status $?" >>own.out
        "${@//FILE/both.db}" --process $process >joined.out 2>joined.err
        echo "status $?" >>joined.out
        diff <(plain own.out) <(plain joined.out) >difference || no "$* of process $process: $(head -20 difference)"
        diff <(plain own.err) <(plain joined.err) >difference || no "$* of process $process, stderr: $(head -5 difference)"
        [ "$(wc -c <own.out)" -gt 100 ] || no "$* says nothing: $(cat own.out own.err)"
    done
}
same "$V" report --all FILE
same "$V" report --json FILE
same "$V" report --all --bytes FILE --phases 'mine=f*' --steps 'back*'
same "$V" peak FILE
same "$V" peak --json FILE
same "$V" peak FILE --by phase --phases 'mine=f*,rest=b*'
same "$V" plot FILE
same "$V" plot FILE --step 2
same "$V" plot FILE --phases 'mine=f*'
same "$V" diff FILE third.db --bytes
[ $failures = 0 ] || exit 1

# nobody chose: the first, and a line that says so
"$V" report --all both.db >out 2>err || no "report of two processes: status $?"
[ "$(cat err)" = "vramscope: both.db has the processes 1 and 2: this is 1; --process N shows another" ] || no "which process it is: $(cat err)"
grep -q 'host .*pid 4211 (process 1 of the file.s 1 and 2), rank 0 of 2' out || no "the header does not say it: $(grep host out)"
"$V" diff both.db one.db >out 2>err || no "diff of two processes: status $?"
[ "$(wc -l <err)" = 1 ] || no "one line for a file: $(cat err)"
"$V" report --all one.db >out 2>err || no "report of one process: status $?"
[ -s err ] && no "a file of one process: $(cat err)"
grep -q 'process 1' out && no "a file of one process has a number: $(grep 'process 1' out)"
"$V" report --all both.db --process 3 >out 2>err
[ $? = 2 ] && [ "$(cat err)" = "vramscope: both.db has no process 3: it has 1 and 2" ] || no "a process that is not there: $(cat out err)"
for command in report peak waste plot whatif "export --format=csv" "estimate --params=1e9"; do
    # shellcheck disable=SC2086
    "$V" $command --process=9 one.db >out 2>err
    [ $? = 2 ] && [ ! -s out ] && [ "$(cat err)" = "vramscope: one.db has no process 9: it has 1" ] || no "$command of a process that is not there: $(head -3 out err)"
done
"$V" report --all one.db#9 >out 2>err
[ $? = 2 ] && grep -q 'has no process 9: it has 1' err || no "one.db#9: $(head -3 out err)"
"$V" report --all one.db --process 1 >/dev/null 2>err || no "the one process by its number: $(cat err)"
"$V" recover both.db >out 2>&1 || no "recover: $(cat out)"

# the file's own views of what a process has: the rows of each are those of its own file
views=$(sqlite3 both.db "SELECT m.name FROM sqlite_master m WHERE m.type = 'view' AND m.name <> 'arena' AND EXISTS (SELECT 1 FROM pragma_table_info(m.name) WHERE name = 'process') ORDER BY m.name")
[ "$(wc -w <<<"$views")" -ge 12 ] || no "views: $views"
for process in 1 2; do
    own=$([ $process = 1 ] && echo one || echo two)
    for view in $views; do
        # sums of what is not a number of an event or of a range
        columns=$(sqlite3 both.db "SELECT group_concat('total(' || name || ')', ', ') FROM pragma_table_info('$view') WHERE name LIKE '%bytes' OR name LIKE '%ns' OR name = 'size'")
        mine=$(sqlite3 "$own.db" "SELECT count(*)${columns:+, $columns} FROM $view") || no "$own.db: $view"
        joined=$(sqlite3 both.db "SELECT count(*)${columns:+, $columns} FROM $view WHERE process = $process") || no "both.db: $view"
        [ "$mine" = "$joined" ] || no "view $view of process $process: $joined instead of $mine"
    done
done

[ $failures = 0 ] && echo "each process of a file is shown as if it were alone in it" || exit 1
