#!/bin/bash
# Memory that lives goes to the host and comes back with the same bytes at the same addresses, whoever needs it; from outside it stays away until a resume.
. "$(dirname "$0")/../lib/lib.bash"
has_arena || skip "this build has no arena"
export SIMCUDA_CONTEXT_BYTES=100MiB
arena=(VRAMSCOPE_ALLOCATOR=arena)

limit=1200 # a thousand cycles take minutes

# ---- a program that suspends itself ----
shim_env=("${arena[@]}")
shimmed "$tests/prog_cycles" cycles "$(in_full && echo 1000 || echo 64)"
[ $status = 0 ] || fail "cycles: status $status"
expect_clean
for views in VRAMSCOPE_ARENA_VIEWS=off VRAMSCOPE_ACCESS=on VRAMSCOPE_ARENA_FREE=defer; do
    shim_env=("${arena[@]}" "$views")
    shimmed "$tests/prog_cycles" cycles 16
    [ $status = 0 ] || fail "cycles, $views: status $status"
done

shim_env=("${arena[@]}")
shimmed "$tests/prog_cycles" large
[ $status = 0 ] || fail "large: status $status: $(tail -n 1 "$run/err")"

# beside captures of another thread
shim_env=("${arena[@]}")
shimmed "$tests/prog_cycles" captures 24
[ $status = 0 ] || fail "captures: status $status"

# ---- what cannot be suspended, by name, and nothing moves ----
refused() { # PART ENVIRONMENT... SENTENCE
    shim_env=("${@:2:$#-2}")
    shimmed "$tests/prog_cycles" "$1"
    [ $status = 0 ] || fail "$*: status $status"
    grep -qF -- "${!#}" "$run/out" || fail "$1 says: $(cat "$run/out")"
}
refused refused VRAMSCOPE_ALLOCATOR=off 'this process does not run under the arena'
refused exported "${arena[@]}" 'blocks are exported to other processes'
refused refused "${arena[@]}" SIMCUDA_FAIL='cuMemHostRegister_v2:*=2' "the host's memory"
refused refused "${arena[@]}" SIMCUDA_FAIL='cuMemcpyDtoHAsync_v2:3=719' 'nothing is away'
refused refused "${arena[@]}" SIMCUDA_FAIL='cuMemUnmap:7=1' 'nothing is away'

# ---- a call of the driver fails in the middle: nothing is lost, and it can be tried again ----
for fault in cuMemCreate:112=719 cuMemMap:149=719 cuMemSetAccess:60=719 cuMemUnmap:30=719 cuMemRelease:90=719 cuMemcpyHtoDAsync_v2:1=719 cuMemcpyHtoDAsync_v2:6=719 \
    cuMemcpyDtoHAsync_v2:5=719 cuEventRecord:9=719 cuEventSynchronize:4=719 cuEventCreate:20=719; do
    shim_env=("${arena[@]}" "SIMCUDA_FAIL=$fault")
    shimmed "$tests/prog_cycles" faults 3
    [ $status = 0 ] || fail "$fault: status $status"
done

# ---- from outside ----
until_says() { # WORD: in the output of the program that runs
    until grep -qx "$1" "$run/out"; do
        kill -0 $pid 2>/dev/null || fail "it has ended before '$1'"
        sleep 0.02
    done
}
until_waits() { # WORD: it has begun with that, and its main thread sleeps: at the gate, where it has to
    until_says "begins $1"
    until [ "$(sed 's/.*) \(.\).*/\1/' "/proc/$pid/stat")" = S ]; do
        kill -0 $pid || fail "it has ended"
        sleep 0.02
    done
}
until_sql() { # QUERY RESULT: in the recording of the program that runs
    until [ "$(sqlite3 "$db" "$1" 2>/dev/null)" = "$2" ]; do
        kill -0 $pid 2>/dev/null || fail "it has ended before '$2'"
        sleep 0.02
    done
}
start() { # PART [PROGRAM]
    new_run
    mkfifo "$run/in"
    env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$run" "${shim_env[@]}" "$tests/${2:-prog_cycles}" "$1" <"$run/in" >"$run/out" 2>"$run/err" &
    pid=$!
    exec {in}>"$run/in"
    export VRAMSCOPE_JOURNAL_DIR=$run
}
end() {
    exec {in}>&-
    wait $pid || fail "the program ended with status $?"
}
shim_env=("${arena[@]}")
for to in "" --to="$dir"; do
    start hold
    until_says ready
    "$V" suspend $to $pid >"$dir/said" 2>&1 || fail "suspend: $(cat "$dir/said")"
    grep -qx "0 B of the arena's are left on the device" "$dir/said" || fail "suspend: $(cat "$dir/said")"
    echo work >&"$in"
    until_waits work
    ! grep -qx work "$run/out" || fail "it worked while it was suspended"
    "$V" resume "$db" >"$dir/said" 2>&1 || fail "resume: $(cat "$dir/said")"
    until_says work
    end
    expect_clean
    expect_sql "SELECT group_concat(alloc_seq || ' ' || (away_bytes > 0), '; ') FROM away_block" "0 1; 0 0"
    "$V" report "$db" | tr -s ' \n' ' ' | grep -q 'at any time (all memory, suspended)' || fail "report: $("$V" report "$db")"
done

# by roles: what touches none of them goes on, what does waits; without the access ledger nobody knows what a kernel touches
for access in on off; do
    shim_env=("${arena[@]}" "VRAMSCOPE_ACCESS=$access")
    start hold prog_park
    until_says ready
    "$V" suspend --role=optimizer-state $pid >"$dir/said" 2>&1 || fail "by roles: $(cat "$dir/said")"
    grep -q ': 96.00 MiB to the host in' "$dir/said" || fail "by roles: $(cat "$dir/said")"
    until "$V" top --once | grep -q '^96.00 MiB of what is allocated are on the host: 96.00 MiB optimizer state$'; do
        kill -0 $pid || fail "top says nothing of it: $("$V" top --once)"
    done
    until_sql "SELECT why || ' ' || (sum(away_bytes) >> 20) FROM away_block" "suspended 96"
    echo other >&"$in"
    if [ $access = on ]; then
        until_says other
        echo state >&"$in"
        until_waits state
    else
        until_waits other
        echo state >&"$in"
    fi
    ! grep -qx state "$run/out" || fail "it used what is away"
    "$V" resume $pid >"$dir/said" 2>&1 || fail "by roles: $(cat "$dir/said")"
    until_says state
    end
    expect_clean
    expect_sql "SELECT sum(away_bytes > 0) || ' ' || sum(away_bytes = 0) || ' ' || (max(back_bytes) >> 20) FROM away_block" "12 12 96"
done
# what was freed meanwhile is free; where states are watched so that they can be parked, who waits wakes at a resume as well
shim_env=("${arena[@]}" VRAMSCOPE_ACCESS=on VRAMSCOPE_PARK=optimizer-state)
start hold prog_park
until_says ready
"$V" suspend --role=optimizer-state $pid >"$dir/said" 2>&1 || fail "by roles: $(cat "$dir/said")"
echo drop >&"$in"
until_says drop
"$V" resume $pid >"$dir/said" 2>&1 || fail "a block that was freed: $(cat "$dir/said")"
"$V" suspend $pid >"$dir/said" 2>&1 || fail "after a block that was freed: $(cat "$dir/said")"
echo state >&"$in"
until_waits state
"$V" resume $pid >"$dir/said" 2>&1 || fail "watched states: $(cat "$dir/said")"
until_says state
end
expect_clean
shim_env=("${arena[@]}")

# others have the memory: the resume is late, and all is on the host still
start short
until_says short
"$V" resume --timeout=0.5s $pid >"$dir/said" 2>&1
[ $? = 1 ] || fail "resume without memory: $(cat "$dir/said")"
grep -q 'device 0 lacks .* GiB of the .* that come back: others have it; it stays suspended' "$dir/said" || fail "resume without memory: $(cat "$dir/said")"
echo on >&"$in"
until_says whole
end

# killed while it is suspended: nothing is left behind
mkdir "$dir/to"
start hold
until_says ready
"$V" suspend --to="$dir/to" $pid >/dev/null || fail "suspend before the kill"
kill -KILL $pid
wait $pid 2>/dev/null
[ -z "$(ls -A "$dir/to")" ] || fail "left behind: $(ls "$dir/to")"
