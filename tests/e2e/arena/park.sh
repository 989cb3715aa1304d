#!/bin/bash
# Under run --park the bytes of optimizer states leave the peak, and the program finds each byte as it was. So it does after uses that were not foreseen,
# kernels that find addresses in memory, frees and a suspension in between.
. "$(dirname "$0")/../lib/lib.bash"
has_arena || skip "this build has no arena"
held() { sed -n 's/^held \([0-9]*\) MiB$/\1/p' "$run/err"; }
parked() { # STEPS [HOW]: with and without; in $without and $with what the device held in the last two steps, MiB
    shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ACCESS=on SIMCUDA_CLOCK=work)
    shimmed "$tests/prog_park" "$@"
    [ $status = 0 ] || fail "$*: status $status"
    without=$(held)
    shim_env+=(VRAMSCOPE_PARK=optimizer-state)
    shimmed "$tests/prog_park" "$@"
    [ $status = 0 ] || fail "$*, parked: status $status"
    with=$(held)
    expect_clean
}

parked 10 # 96 MiB of states
grep -q 'park: the optimizer leaves 96 MiB idle for .* 96 MiB are parked' "$run/err" || fail "what is parked is not said"
[ $((without - with)) -ge 92 ] || fail "$without MiB without, $with with"
# the recording has the twelve states of 8 MiB that the program has told: all went, and came back, equally often, and nothing else did
moves="FROM away_block m JOIN framework_says f ON f.alloc_seq = m.alloc_seq"
expect_sql "SELECT group_concat(DISTINCT f.role || ', ' || m.why || ', ' || (m.away_bytes >> 20)) $moves" "optimizer state, parked, 8,optimizer state, parked, 0"
expect_sql "SELECT count(DISTINCT outs) || ' ' || count(*) FROM (SELECT sum(m.away_bytes > 0) AS outs $moves GROUP BY m.alloc_seq)" "1 12"
expect_sql "SELECT count(*) FROM away_block WHERE alloc_seq NOT IN (SELECT alloc_seq FROM framework_role)" 0
expect_sql "SELECT max(out_bytes) = (SELECT sum(away_bytes) FROM away_block) AND max(out_bytes) = max(back_bytes) FROM away_block" 1
expect_sql "SELECT max(away_bytes) >> 20 FROM away" 96
"$V" report "$db" | tr -s ' \n' ' ' | grep -qF 'at most 96.00 MiB at any time (optimizer state, parked)' || fail "report: $("$V" report "$db")"
LC_ALL=C.UTF-8 "$V" plot "$db" -o "$run/plot.txt" && grep -qF '▒ on the host (optimizer state, parked)' "$run/plot.txt" || fail "plot: $(cat "$run/plot.txt")"
account() { # SENTENCE... that the report says of the last run
    "$V" report "$db" | tr -s ' \n' ' ' >"$run/report"
    for sentence; do
        grep -qE -- "$sentence" "$run/report" || fail "the report does not say '$sentence': $(cat "$run/report")"
    done
}
times=$(ask "SELECT max(times) FROM away_block") # a copy of 96 MiB takes the simulated device 1.92 ms, and none is done when the optimizer begins
account 'parked: 96.00 MiB of 96.00 MiB of optimizer states that lay idle for [0-9.]+ ms of a step at first; at 48.83 GiB/s they go there and back in 3.84 ms' \
    "they went $times times, 96.00 MiB each on average, and .* came back or were freed there; the optimizer waited for them at least [0-9.]+ ms in all"
expect_sql "SELECT abs(waited_ns - 1920000 * ($times - 1)) < 1000 FROM away_block ORDER BY seq DESC LIMIT 1" 1
shimmed "$tests/prog_park" 21 longer # the program's own doing, which is told as what was measured
[ $status = 0 ] || fail "longer: status $status"
account 'that lay idle for [0-9.]+ ms of a step at first, for [0-9.]+ ms later; at 48.83 GiB/s'
grep -qE 'park: between two optimizers [0-9]+ ms pass, [0-9]+ before anything was parked' "$run/err" || fail "steps that take longer are not told: $(cat "$run/err")"
parked 11 unforeseen # one of twelve is not parked
[ $((without - with)) -ge 84 ] || fail "unforeseen: $without MiB without, $with with"
parked 11 late # and one no more
grep -q 'park: 1 use of parked blocks was not foreseen so far' "$run/err" || fail "it is not said: $(cat "$run/err")"
[ $((without - with)) -ge 84 ] || fail "late: $without MiB without, $with with"
account '1 use of parked states was not foreseen'
parked 11 one # its neighbours have their bytes
[ $((without - with)) -ge 56 ] || fail "one: $without MiB without, $with with"
for how in unknown freed suspends; do
    parked 17 $how
    [ "$with" -le "$without" ] || fail "$how: $without MiB without, $with with"
done
export STORES=copy
parked 11 stored # four of twelve stay, and have their bytes
for STORES in copy rows slices boxes graph batch words; do
    [ $STORES = copy ] || shimmed "$tests/prog_park" 11 stored
    [ $status = 0 ] && [ $((without - $(held))) -ge 60 ] || fail "stored by $STORES: $without MiB without, $(held) with, status $status"
    expect_sql "WITH state AS (SELECT seq, row_number() OVER (ORDER BY seq) AS n FROM event WHERE op = 'alloc' AND size_bytes = 8 << 20),
        out AS (SELECT n, count(*) AS times FROM state JOIN away_block a ON a.alloc_seq = state.seq WHERE away_bytes > 0 GROUP BY n)
        SELECT group_concat(n || iif(times < (SELECT max(times) FROM out), ' early', '')) FROM (SELECT * FROM out ORDER BY n)" \
        "1,2,4,5,7,8 early,9,10 early,11,12"
    grep -qF 'park: an address of a parked block was copied into device memory' "$run/err" || fail "stored by $STORES: it is not said: $(cat "$run/err")"
done
parked 9 kept
grep -qF 'park: nothing is parked so far: addresses of optimizer states were copied into device memory' "$run/err" || fail "why nothing is parked is not said: $(cat "$run/err")"
parked 14 reaching
account 'parking ended: work that does not say what it uses has brought all back'
shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ACCESS=on SIMCUDA_CLOCK=work VRAMSCOPE_PARK=optimizer-state SIMCUDA_CAPACITY=600MiB)
shimmed "$tests/prog_park" 11 outgrows # what cannot come back is an error of the call that needs it, and no wait for ever
[ $status = 0 ] || fail "outgrows: status $status"
grep -q 'park: work needs 8 MiB that are on the host, the device has no memory for them, and none was freed for 5 s: such calls get CUDA_ERROR_OUT_OF_MEMORY' "$run/err" ||
    fail "outgrows: it is not said: $(cat "$run/err")"
parked 9 unknown
grep -qE 'park: nothing is parked so far: [0-9]+ launches in forward and backward did not say what they use' "$run/err" || fail "why nothing is parked is not said: $(cat "$run/err")"
account 'nothing was parked: [0-9]+ launches in forward and backward did not say what they use'

# what the link does not carry there and back in the time is not parked
shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ACCESS=on SIMCUDA_CLOCK=work SIMCUDA_LINK_MS=400 VRAMSCOPE_PARK=optimizer-state)
shimmed "$tests/prog_park" 10
grep -qE 'park: the optimizer leaves 96 MiB idle for .*: (8|16|24|32|40|48|56|64|72) MiB are parked, as much as it carries there and back in that time' "$run/err" || fail "a slow link: $(cat "$run/err")"
account 'parked: [1-7][0-9.]+ MiB of 96.00 MiB of optimizer states'

# where it cannot be, one line says so
shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ACCESS=on VRAMSCOPE_ARENA_VIEWS=off VRAMSCOPE_PARK=optimizer-state)
shimmed "$tests/prog_park" 4
[ "$(grep -c 'VRAMSCOPE_PARK=optimizer-state: it takes VRAMSCOPE_ALLOCATOR=arena with VRAMSCOPE_ACCESS=on' "$run/err")" = 1 ] || fail "views off: $(cat "$run/err")"
"$V" run -q -f -o "$dir/a.db" --simulated --park=optimizer-state -- "$tests/prog_park" 6 >/dev/null 2>"$dir/err" || fail "run --park: $(cat "$dir/err")"
grep -q 'are parked' "$dir/err" || fail "run --park: $(cat "$dir/err")"
# the states are born, and the first is stored, while nothing is recorded
STORES=copy SIMCUDA_CLOCK=work "$V" run -q -f -o "$dir/a.db" --simulated --park=optimizer-state --start-off -- "$tests/prog_park" 11 stored >/dev/null 2>"$dir/err" ||
    fail "recorded from later on: $(cat "$dir/err")"
grep -q 'are parked' "$dir/err" || fail "recorded from later on: $(cat "$dir/err")"
"$V" run --park=gradient -- true 2>"$dir/err"
[ $? = 2 ] || fail "another role"
