#!/bin/bash
# Where the last drain leaves something in the journal, what goes on with the file continues steps, ranges and phases: the whole is as if one writer
# had written it.
. "$(dirname "$0")/../lib/lib.bash"

# On a disk as slow as this the last drain writes some of the journal and never all of it, however fast or busy the machine is.
limit=300
slow=$dir/disk.so
"${CC:-cc}" -shared -fPIC -o "$slow" "$(dirname "$0")/disk.c" || fail "disk.c"
shim_env=(LD_PRELOAD="$slow:$shim" SLOW_US=1000 VRAMSCOPE_RING_EVENTS=4194304 VRAMSCOPE_EXIT_MS=500)
shimmed "$tests/prog_steps" 400000
[ "$status" = 0 ] || fail "status $status"
rest=$(find "$run" -name '*.vsj')
[ -n "$rest" ] || fail "the last drain wrote all that was in the journal: the test tests nothing"
written=$(ask "SELECT upto_seq FROM mark")
[ "$written" -gt 0 ] || fail "nothing was written before the end: the test tests nothing"
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
# that was no kill: it came to its exit, and all of it is there
"$BUILD/bin/vramscope" report --all --bytes "$db" >"$run/report" || fail "report: $(cat "$run/report")"
grep -q '^the process came to its exit in good order before all was written' "$run/report" || fail "the end: $(head -n 5 "$run/report")"
"$BUILD/bin/vramscope" report --json "$db" | grep -q '"came_to_exit": true' || fail "report --json of an exit"
"$BUILD/bin/vramscope" check "$db" --max-peak=100GiB >"$run/check" || fail "check takes an exit for a kill: $(cat "$run/check")"
grep -q 'peak: .*, step 154, in backward' "$run/report" || fail "the report's peak: $(grep 'peak: ' "$run/report")"
