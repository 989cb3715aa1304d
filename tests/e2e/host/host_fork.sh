#!/bin/bash
# Fork while four threads are inside allocations, markers and the recorder: no child hangs, dies or writes into its parent's
# file, whichever way it ends, and the parent's recording has every event.
. "$(dirname "$0")/../lib/lib.bash"
limit=300

for latency in 20 200; do
    for stacks in off all; do
        shim_env=("VRAMSCOPE_STACKS=$stacks" "SIMCUDA_LATENCY_US=$latency" VRAMSCOPE_RING_EVENTS=1048576 COUNT_TO="$dir/count")
        run_shimmed "$tests/prog_midfork" 60
        # on a busy machine the ring may be full for a while: there or counted
        # (samples of ours may be among what was lost; what comes late was counted as lost before)
        expect_sql "SELECT (SELECT count(*) FROM event WHERE op IN ('alloc', 'free', 'range_push', 'range_pop')) +
                (SELECT ifnull(sum(events), 0) FROM loss WHERE code <> 'late_slot') - $(($(cat "$dir/count") * 4 - 2))
            BETWEEN 0 AND min((SELECT ifnull(sum(events), 0) FROM loss), (SELECT 2 + (max(t_ns) - min(t_ns)) / 100000000 FROM event))" 1
        [ "$(databases | wc -l)" = 1 ] || fail "children have databases: $(databases)"
        expect_sql "PRAGMA integrity_check" ok
        expect_sql "SELECT value FROM meta WHERE key = 'clean_end'" 1
    done
done

# the recording is only just starting when the fork comes
for _ in {1..5}; do
    run_shimmed "$tests/prog_fork" fork
    [ "$(databases | wc -l)" = 1 ] || fail "children have databases: $(databases)"
done
echo "no child noticed"
