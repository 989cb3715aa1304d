#!/bin/bash
# While a benchmark pauses the recording nothing is written, and database and report say that it is not whole.
. "$(dirname "$0")/../lib/lib.bash"

run_shimmed "$tests/prog_pace" pause
expect_events <<'END'
alloc|device|cuMemAlloc_v2|1000|0|0
alloc|device|cuMemAlloc_v2|3000|0|0
free|device|cuMemFree_v2|3000|0|0
free|device|cuMemFree_v2|1000|0|0
END
expect_sql "SELECT count(*) FROM loss WHERE code = 'not_covered' AND why LIKE 'not covered: what happened while a benchmark had paused the recording%'" 1
"$BUILD/bin/vramscope" report --all "$db" >"$run/report"
[ $? = 3 ] || fail "the report does not end as that of an incomplete recording"
[[ $(head -n 1 "$run/report") == "GAP: "*"paused the recording"* ]] || fail "the first line is: $(head -n 1 "$run/report")"
