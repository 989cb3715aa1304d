#!/bin/bash
# A program that ends while it is suspended from outside ends with its own status, whichever thread waits for its memory and whatever its exit handlers do with it.
. "$(dirname "$0")/../lib/lib.bash"
has_arena || skip "this build has no arena"
mkdir "$dir/to"
until_says() { # WORD: begins a line of the program's output
    until grep -q "^$1" "$run/out"; do
        kill -0 $pid 2>/dev/null || fail "it has ended before '$1'"
        sleep 0.02
    done
}
suspended() { # WAY [WHAT...]: prog_held, whose thread waits
    new_run
    mkfifo "$run/in"
    env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$run" VRAMSCOPE_ALLOCATOR=arena "$tests/prog_held" "$@" <"$run/in" >"$run/out" 2>"$run/err" &
    pid=$!
    exec {in}>"$run/in"
    export VRAMSCOPE_JOURNAL_DIR=$run
    until_says ready
    "$V" suspend --to="$dir/to" $pid >"$dir/said" 2>&1 || fail "suspend: $(cat "$dir/said")"
    echo suspended >&"$in"
    until_says waits
}
ended() { # STATUS WORDS: what it ended with, what resume says of it
    for ((i = 0; i < 3000; i++)); do
        kill -0 $pid 2>/dev/null || break
        sleep 0.02
    done
    kill -KILL $pid 2>/dev/null && fail "it hangs at its end"
    wait $pid
    local got=$?
    [ $got = "$1" ] || fail "it ended with $got, not $1"
    exec {in}>&-
    [ -z "$(ls -A "$dir/to")" ] || fail "left behind: $(ls "$dir/to")"
    for of in "$db" $pid; do
        "$V" resume "$of" >"$dir/said" 2>&1
        [ $? = 3 ] && grep -q "$2" "$dir/said" || fail "resume $of: $(cat "$dir/said")"
    done
}
# ends WAY [WHAT...]; what its exit handler got comes on standard input
ends() {
    suspended "$@"
    echo end >&"$in"
    ended 7 'has ended'
    expect_clean
    grep -v 'ready\|waits\|worked' "$run/out" >"$dir/got"
    diff - "$dir/got" || fail "$*: the exit handler got other answers"
}

for way in exit return; do
    ends $way </dev/null
done
# what needs no contents needs no memory; what does gets it back
for first in "" first; do
    ends exit $first frees <<<'frees 0'
    ends exit $first leaves <<<'leaves 0'
    ends exit $first takes <<<'takes 0'
    ends exit $first copies frees copies <<<$'copies 0\nfrees 0\ncopies 0'
done
# the driver's own handler came before
export SIMCUDA_SHUTDOWN=1
ends exit first copies frees <<<$'copies 4\nfrees 4'
! grep vramscope: "$run/err" || fail "said without need"
unset SIMCUDA_SHUTDOWN
# a handler may wait for the thread that waits
ends exit joins copies <<<$'joins 0\ncopies 0'
grep -qx 'worked 0' "$run/out" || fail "the thread was left waiting"
ends exit short joins frees <<<$'joins 0\nfrees 0'
grep -qx 'worked 4' "$run/out" || fail "the thread was left waiting"
# others have the device's memory: then it fails as where the driver has ended
ends return short frees leaves <<<$'frees 0\nleaves 0'
ends exit short frees copies takes copies <<<$'frees 0\ncopies 4\ntakes 2\ncopies 4'
grep -q 'work needs what is suspended, and fails, as the process ends: device 0 lacks' "$run/err" || fail "not a word of it"

# likewise where it had suspended itself
shim_env=(VRAMSCOPE_ALLOCATOR=arena)
for want in 'copies 0' 'short copies 4'; do
    # shellcheck disable=SC2086
    shimmed "$tests/prog_held" itself ${want% *}
    [ $status = 7 ] && grep -qx "${want#short }" "$run/out" || fail "suspended by itself, $want: status $status"
    expect_clean
done

# SIGTERM while main waits as well: a handler that exits; none
suspended term copies
echo end >&"$in"
until_says begins
until [ "$(sed 's/.*) \(.\).*/\1/' "/proc/$pid/stat")" = S ]; do sleep 0.02; done
kill -TERM $pid
ended 7 'has ended'
expect_clean
grep -qx 'copies 0' "$run/out" || fail "its exit handler did not get what it needs"
suspended exit
kill -TERM $pid
ended 143 'was killed'
recover_run
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc' AND space = 'arena'" 4
suspended quick
echo end >&"$in"
ended 7 'was killed, or left without its exit handlers'
recover_run
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc' AND space = 'arena'" 4
echo "it ends as it would have"
