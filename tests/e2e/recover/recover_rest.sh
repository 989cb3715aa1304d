#!/bin/bash
# A process ends while more is in its journal than the last drain writes in two seconds: what goes on with the file continues the
# steps, the ranges and the phases where it stopped, and the whole is as if one writer had written it.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../lib/lib.bash"

limit=60
shim_env=(VRAMSCOPE_RING_EVENTS=8388608)
for blocks in 1500000 3000000; do
    run_shimmed "$tests/prog_steps" $blocks
    [ "$status" = 0 ] || fail "status $status"
    rest=$(find "$run" -name '*.vsj')
    [ -z "$rest" ] || break
done
[ -n "$rest" ] || skip "the last drain wrote all that was in the journal"
written=$(ask "SELECT upto_seq FROM mark")
[ "$written" -gt 0 ] || skip "nothing was written before the end"
# what is open at the place where it stopped is not called ended
expect_sql "SELECT count(*) FROM meta WHERE key = 'clean_end' AND value = 1" 0
expect_sql "SELECT count(*) FROM rng WHERE flags & 4" 0
recover_run
[ "$(ask "SELECT upto_seq FROM mark")" -gt "$written" ] || fail "nothing was left in the journal: the test tests nothing"
expect_sql "SELECT count(*), count(DISTINCT step), min(step), max(step) FROM step" "300|300|1|300"
expect_sql "SELECT count(*), sum(t_pop IS NULL), min(step), max(step) FROM rng" "900|0|1|300"
expect_sql "SELECT group_concat(ranges) FROM (SELECT DISTINCT phase, ranges FROM phase_peak WHERE ranges > 0 AND device = 0)" "300,300,300"
expect_sql "SELECT count(*), sum(p.allocated_bytes = m.most) FROM range_peak p JOIN (SELECT range, max(framework + direct) * 512 AS most FROM ev
  WHERE device = 0 AND range > 0 AND op IN (20, 21) GROUP BY range) m ON m.range = p.range AND p.device = 0" "900|900"
expect_sql "SELECT count(*) FROM loss WHERE events > 0" 0
"$BUILD/bin/vramscope" report --bytes "$db" >"$run/report" || fail "report: $(cat "$run/report")"
grep -q 'peak: .*, step 154, in backward' "$run/report" || fail "the report's peak: $(grep 'peak: ' "$run/report")"
