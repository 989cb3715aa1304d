#!/bin/bash
# Some calls take device memory without allocating. To measure them costs at most 50 ms of the host's time in all: where the process is alone on the
# device the driver is asked, at every such call; else NVML, at the first few, and the report says so.
. "$(dirname "$0")/../lib/lib.bash"

vramscope=$BUILD/bin/vramscope
loads="SELECT count(size_bytes), count(*), ifnull(max(size_bytes), 0) FROM event WHERE op = 'module_load'"

# alone: NVML takes 5 ms, and is asked for the context alone
shim_env=(SIMCUDA_NVML_US=5000)
slowly run_shimmed "$tests/prog_pace" asking
expect_sql "$loads" '100|100|2097152'
expect_sql "SELECT count(*) FROM event WHERE op = 'overhead' AND size_bytes IS NULL" 0
"$vramscope" report --all "$db" >"$run/report" || fail "report: $?"
grep -q 'could not be measured' "$run/report" && fail "everything was measured: $(cat "$run/report")"
expect_clean

# not alone: two questions of 5 ms a call, of 50 ms in all
shim_env=(SIMCUDA_NVML_US=500000 SIMCUDA_NVML=crowd) # in time that is a hundredth as fast
measured="FROM event WHERE op = 'module_load' AND size_bytes = 2097152"
# the time between the first load and the last: the questions, and nothing near 200 calls' worth
in_time="SELECT (max(t_ns) - min(t_ns)) / 1000000 < 400 FROM event WHERE op = 'module_load'"
seen "SELECT count(*) > 0 FROM sample" -- slowly run_shimmed "$tests/prog_pace" asking
expect_sql "SELECT count(*) BETWEEN 1 AND 6 $measured" 1
expect_sql "SELECT count(*) >= 94 FROM event WHERE op = 'module_load' AND size_bytes IS NULL" 1
# each is told, and the report has a line for all of them
expect_sql "SELECT count(*) >= 94 FROM event WHERE op = 'overhead' AND api = 'cuStreamCreate' AND size_bytes IS NULL" 1
"$vramscope" report --all "$db" >"$run/report" || fail "report: $?"
tr -s '\n ' ' ' <"$run/report" | grep -q ' 1[89][0-9] calls could not be measured (.* asking had taken its share' || fail "no line: $(cat "$run/report")"
expect_sql "$in_time" 1
expect_clean
