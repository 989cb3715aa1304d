#!/bin/bash
# Somebody truncates what we have mapped, in mid-run: the program goes on.  Without the journal the recording ends, and every report says so; without
# the database's shared memory nothing is lost.  The program's own SIGBUS handler stays its own.
. "$(dirname "$0")/../lib/lib.bash"

for what in own later fault sent; do
    run_shimmed "$tests/prog_truncate" $what
done
[ "$status" = 135 ] || fail "SIGBUS sent: status $status, not 135"

cut() { # PATTERN, of a file in the run's directory
    shimmed "$tests/prog_truncate" cut "$dir/$((runs + 1))/$1" "$dir/$((runs + 1))/run.db"
    [ "$status" = 0 ] || fail "$1 truncated: status $status"
    [ "$(head -n 1 "$run/out")" = "done" ] || fail "$1 truncated: other output"
    read -r before all < <(tail -n 1 "$run/out")
    expect_sql "PRAGMA integrity_check" ok
}

cut run.db-shm
grep -q "opened the database again" "$run/err" || fail "not a word of the shared memory"
expect_sql "SELECT count(*) FROM event WHERE op IN ('alloc', 'free')" "$all"
expect_clean ""

cut '*.vsj'
grep -q "the recording ends here" "$run/err" || fail "not a word of the journal"
expect_sql "SELECT count(*) BETWEEN 100 AND $before + 50 FROM event WHERE op IN ('alloc', 'free')" 1
"$BUILD/bin/vramscope" report --all "$db" >"$run/report"
[ $? = 3 ] || fail "report: not 3, shown but incomplete"
grep -q "^GAP: .*the journal was truncated" "$run/report" || fail "the report does not say it: $(cat "$run/report")"

# as the last thing that the program does: the next that is written is that it came to its exit
for _ in 1 2 3 4 5; do
    shimmed "$tests/prog_truncate" last "$dir/$((runs + 1))/*.vsj" "$dir/$((runs + 1))/run.db"
    [ "$status" = 0 ] || fail "the journal truncated last: status $status"
    expect_sql "PRAGMA integrity_check" ok
    "$BUILD/bin/vramscope" report --all "$db" >"$run/report"
    [ $? = 3 ] && grep -q "^GAP: .*the journal was truncated" "$run/report" || fail "truncated last: the report does not say it: $(cat "$run/report")"
done
