#!/bin/bash
# What the optimizer waits for too long is parked no more. The first gaps, in which mappings are made, do not count. The plan stays where memory falls before the
# optimizer, where the device has no room for less, and where a recording was the plan.
. "$(dirname "$0")/../lib/lib.bash"
has_arena || skip "this build has no arena"
on=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ACCESS=on SIMCUDA_CLOCK=work SIMCUDA_CAPACITY=1GiB)
trains() { # LINK_MS ARGUMENT...
    shim_env=("${on[@]}" SIMCUDA_LINK_MS="$1" VRAMSCOPE_PARK=optimizer-state ${from:+"VRAMSCOPE_PARK_FROM=$from"})
    shimmed "$tests/prog_park_pays" "${@:2}"
    [ $status = 0 ] || fail "${*:2}: status $status"
    "$V" report "$db" | tr -s ' \n' ' ' >"$run/report"
}
step() { sed -n "s/^step $1: \([0-9]*\) us$/\1/p" "$run/err"; }
within() { # STEP MOST: so many hundredths of a step before anything was parked, at the most
    [ "$(step "$1")" -le $(($(step 3) * $2 / 100)) ] || fail "step $1 takes $(step "$1") us, step 3 $(step 3)"
}
said() { grep -qE -- "$1" "$run/err" || fail "stderr does not say '$1': $(cat "$run/err")"; }
report() { grep -qE -- "$1" "$run/report" || fail "the report does not say '$1': $(cat "$run/report")"; }
stays() { # what went at first goes in the last step
    expect_sql "SELECT max(away_bytes) >> 20 FROM away WHERE seq > (SELECT seq FROM step WHERE step = 29)" 48
    ! grep -q 'from now on' "$run/err" || fail "less is parked: $(cat "$run/err")"
    expect_sql "SELECT value FROM meta WHERE key = 'park_first'" ""
}
less='[0-9]+ ms passed between two optimizers, and the next waited 9.6 ms for what was parked: from now on 4 MiB of the 48 MiB are parked'

# 48 MiB take 9.6 ms each way, the computation of a gap 33
pays() { # MOST HOW...: 4 MiB are parked from step 20 on, after which a step takes so much, as within has it
    trains 10 30 end "${@:2}"
    said "park: $less"
    within 20 "$1"
    within 30 "$1"
    report 'parked: 4.00 MiB of 48.00 MiB of optimizer states .* go there and back in 1.6 ms at first it was 48.00 MiB, for which the optimizer waited 9.6 ms in each step'
    [ "$(grep -c 'from now on' "$run/err")" = 1 ] || fail "it changes again: $(cat "$run/err")"
    [ "$(step 9)" -gt 70000 ] || fail "it takes no longer before: the test tests nothing"
}
pays 104
pays 104 grows
pays 50 warm
for how in '' turns; do
    trains 10 30 middle $how
    stays
done
trains 10 30 end full
stays
said 'the next waited 9.6 ms for what was parked: it stays so, as the device has no room for it'
from='ns=50000000;4194304x12' trains 10 30 end
stays
said 'the next waited 9.6 ms for what was parked: it stays so, as --from planned it'

trains 10 30 end many # what would pay is too little of 160 MiB
said 'from now on nothing of the [0-9]+ MiB is parked'
within 30 100

# a block that pays would be smaller than the smallest
trains 60 30 end
said 'from now on nothing of the 12 MiB is parked'
within 30 100
report 'parked: 12.00 MiB of 48.00 MiB .* parking ended: [0-9]+ ms passed between two optimizers, and the next waited 14.4 ms for what was parked'
expect_sql "SELECT count(*) FROM away WHERE away_bytes > 0 AND seq > (SELECT seq FROM step WHERE step = 20)" 0
