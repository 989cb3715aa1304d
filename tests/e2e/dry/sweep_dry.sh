#!/bin/bash
# `sweep --dry` measures a grid without a GPU, several points at once, with the figures that they have one after another.  It goes on where it was
# interrupted and leaves nothing running.  The table says that it is of dry runs.
. "$(dirname "$0")/../lib/lib.bash"
unset LD_LIBRARY_PATH
program=$tests/prog_largest
cd "$dir" || exit 1
word=sweep-dry-$$ # in the command lines of this test's programs
figures() { python3 -c 'import csv, sys
for r in csv.DictReader(open(sys.argv[1] + "/sweep.csv")):
    print(r["batch"], r["seq"], r["outcome"], r["framework_allocated_bytes"], r["framework_reserved_bytes"], r["steps_per_second"])' "$1"; }
for jobs in 1 4; do
    timeout 240 "$V" sweep --dry --capacity=6GiB --jobs=$jobs -o "with$jobs" --grid batch=2,12,16 --grid seq=512,1024 -- "$program" '{batch}' '{seq}' fails=12 >"$jobs.txt" 2>err
    [ $? = 3 ] || fail "$jobs at a time, of which two left no recording: $(cat err "$jobs.txt")"
    figures "with$jobs" >"$jobs.figures"
    grep -q '^dry runs, no GPU' "$jobs.txt" || fail "not marked: $(cat "$jobs.txt")"
done
cmp 1.figures 4.figures || fail "other figures at once: $(diff 1.figures 4.figures)"
[ "$(awk '{ print $1 "x" $2, $3 }' 4.figures | tr '\n' ' ')" = "2x512 ok 2x1024 ok 12x512 crash 12x1024 crash 16x512 ok 16x1024 ok " ] || fail "outcomes: $(cat 4.figures)"
grep -q '^2 512 ok 894784512 1342177280 $' 4.figures || fail "a speed of a dry run, or other bytes: $(cat 4.figures)"
grep -q '^batch=12,seq=512: crash, it ended with status 3' 4.txt || fail "why it failed: $(cat 4.txt)"
grep -qE '^batch=16,seq=1024 +ok +3.33 GiB +5.00 GiB +[0-9.]+ MiB +exact$' 4.txt || fail "the table: $(cat 4.txt)"
[ "$(sqlite3 with4/sweep.db "SELECT count(*), min(simulated), max(simulated) FROM process")" = '4|2|2' ] || fail "the database"
[ "$(sqlite3 with4/sweep.db "SELECT DISTINCT status FROM sweep WHERE outcome = 'crash'")" = 'it ended with status 3' ] || fail "the status in the database"
[ "$(sqlite3 with4/batch=2,seq=512/run.db "SELECT value FROM meta WHERE key = 'label.batch'")" = 2 ] || fail "labels"

# what no table holds: where it decides whether the point fits, that is said
timeout 240 "$V" sweep --dry --capacity=6GiB -o guess --grid batch=2,17,19,32 -- "$program" '{batch}' 1024 guess=400000000 >out 2>err || fail "a guess: $(cat err)"
[ "$(sqlite3 guess/sweep.db "SELECT group_concat(batch || ' ' || outcome) FROM sweep")" = '2 ok,17 between,19 between,32 oom' ] || fail "within what is not known: $(cat out)"
grep -qE '^batch=17 +between .* within 762.9 MiB$' out || fail "the interval: $(cat out)"

# nothing is run again; a larger grid adds points; another capacity is another question
timeout 300 "$V" sweep --dry --capacity=6GiB -o guess --grid batch=2,17,19,32 -- "$program" '{batch}' 1024 guess=400000000 >out 2>err || fail "again: $(cat err)"
grep -q 'nothing was run' out || fail "run again: $(cat out)"
timeout 300 "$V" sweep --dry --capacity=7GiB -o guess --grid batch=2 -- "$program" '{batch}' 1024 guess=400000000 >out 2>err
[ $? = 2 ] && grep -q 'has points of another command' err || fail "another capacity: $(cat out err)"

# interrupted: all that ran is ended, and the same command goes on
timeout 120 env --default-signal=INT "$V" sweep --dry --jobs=2 -o stop --grid batch=4,5,6 -- "$program" '{batch}' 512 'wait=go-{batch}' $word >stop.txt 2>err &
sweep=$!
touch go-4 go-5
for ((i = 0; i < 600; i++)); do
    [ -e stop/batch=4/outcome ] && [ -e stop/batch=5/outcome ] && pgrep -f "prog_largest 6 .*$word" >/dev/null && break
    sleep 0.1
done
kill -INT "$(pgrep -P $sweep)"
wait $sweep
[ $? = 2 ] && grep -q 'interrupted: the same command goes on' err || fail "interrupted: $(cat err stop.txt)"
! pgrep -f "prog_largest .* $word" >/dev/null || fail "still runs: $(pgrep -af "prog_largest .* $word")"
touch go-6 -d @1 stop/*/outcome
timeout 120 "$V" sweep --dry --jobs=2 -o stop --grid batch=4,5,6 -- "$program" '{batch}' 512 'wait=go-{batch}' $word >stop.txt 2>err || fail "goes on: $(cat err)"
[ "$(find stop -name outcome -newermt @2)" = stop/batch=6/outcome ] || fail "not that point alone was run: $(cat stop.txt)"

# options that go together, or not
for bad in '--gpu=H200' '--dry --simulated'; do
    # shellcheck disable=SC2086 # the last are two
    timeout 300 "$V" sweep $bad -o bad --grid batch=1 -- echo '{batch}' >out 2>err
    [ $? = 2 ] && [ "$(wc -l <err)" = 1 ] || fail "$bad: $(cat err)"
done
