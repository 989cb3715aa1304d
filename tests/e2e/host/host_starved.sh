#!/bin/bash
# Where the drain's thread never gets a turn (its one processor belongs to a higher class), a full ring stalls nobody for more than a moment and says
# how much it lost.  No other test runs beside this one (tests/run.sh).
. "$(dirname "$0")/../lib/lib.bash"

[ "$(nproc)" -ge 2 ] || skip "this takes two processors"
export VRAMSCOPE_EXIT_MS=2000 # the default
shim_env=(VRAMSCOPE_RING_EVENTS=1024)
shimmed "$tests/prog_leave" starve
[ "$status" != 77 ] || skip "real-time scheduling is refused here"
[ "$status" = 0 ] || fail "status $status"
cat "$run/out"
[ -z "$(find "$run" -name '*.vsj')" ] || recover_run
# (a sample of ours may be among what was lost)
expect_sql "SELECT (SELECT ifnull(sum(events), 0) FROM loss) + (SELECT count(*) FROM event WHERE op IN ('alloc', 'free')) - $(sed -n 's/.* of //p' "$run/out") BETWEEN 0 AND 5" 1
