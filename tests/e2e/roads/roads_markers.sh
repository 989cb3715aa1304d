#!/bin/bash
# Phases, steps and the record window through vramscope.h, with the library and without; a program without CUDA.
. "$(dirname "$0")/../lib/lib.bash"

[ "$("$tests/prog_markers" alone 2>/dev/null | head -n 1)" = "0 -1" ] || fail "without the library the markers do something"
run_shimmed "$tests/prog_markers" phases
ask "SELECT op || ' ' || phase || ' ' || (size_bytes / 1048576) FROM event WHERE op IN ('alloc', 'free') ORDER BY seq" >"$run/phases"
diff - "$run/phases" >"$run/difference" <<'END' || fail "phases (< wanted, > recorded): $(cat "$run/difference")"
alloc forward 2
alloc logits 4
free logits 4
alloc forward 1
alloc backward 5
alloc optimizer 6
free none 2
free none 1
END
expect_sql "SELECT phase, allocated_bytes / 1048576, reserved_bytes / 1048576, ranges FROM phase_peak WHERE phase <> 'none' AND device = 0 ORDER BY phase" \
    $'backward|14|14|1\nforward|6|6|1\nlogits|6|6|1\noptimizer|14|14|1'
expect_sql "SELECT r.name, p.name FROM range r LEFT JOIN range p ON p.id = r.parent ORDER BY r.id" \
    $'forward|\nlogits|forward\nbackward|\noptimizer|'
expect_sql "SELECT count(*) FROM range WHERE t_pop_ns IS NULL" 0
expect_sql "SELECT step FROM step" 1
expect_sql "SELECT count(*) FROM event WHERE op = 'mark'" 1
expect_clean

# a range that is too deep to be followed is a counted loss, and what is allocated in it is in no other thread's phase
run_shimmed "$tests/prog_markers" deep
expect_sql "SELECT size_bytes >> 20, phase FROM allocation ORDER BY alloc_seq" $'1|none\n2|forward'
expect_sql "SELECT count(*), sum(events), code FROM loss" '1|1|ranges'

# step numbers count every call of the program, also those that were not recorded, and never go backwards
run_shimmed "$tests/prog_markers" steps
expect_clean
total=$((4 + 4 * 2000))
expect_sql "SELECT count(*), min(step), max(step) FROM step" "$((total - 3))|3|$total"
expect_sql "SELECT count(*) FROM (SELECT step, lag(step) OVER (ORDER BY seq) AS before FROM step) WHERE step <= before" 0
expect_sql "SELECT step FROM range WHERE name = 'the last'" $((total + 1))

run_shimmed "$tests/prog_markers" window
expect_events "op <> 'sample'" <<'END'
alloc|device|cuMemAlloc_v2|1000|0|0
record_stop|none||0|-1|0
free|device|cuMemFree_v2|1000|0|0
record_start|none||0|-1|0
alloc|device|cuMemAlloc_v2|3000|0|0
free|none|cuMemFree_v2|0|-1|0
free|device|cuMemFree_v2|3000|0|0
END
expect_sql "$unknown_frees" 1 # of what the closed window hid
expect_clean

run_shimmed "$tests/prog_nocuda"
grep -q found "$run/out" || fail "malloc was not found either"
[ "$(grep -c absent "$run/out")" = 5 ] || fail "a driver name was found in a program without CUDA: $(cat "$run/out")"
left=$(find "$run" -mindepth 1 ! -name out ! -name err)
[ -z "$left" ] || fail "a program without CUDA left $left"
