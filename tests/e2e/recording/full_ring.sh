#!/bin/bash
# Allocations that a full ring drops have their bytes in the totals: no figure is higher than what the program held, and at the end all are 0. Where
# ends of recorded allocations were dropped as well (test_store.c), figures are called upper bounds.
. "$(dirname "$0")/../lib/lib.bash"

shim_env=(VRAMSCOPE_RING_EVENTS=1024)
run_shimmed "$tests/prog_pace" spin
ends="EXISTS (SELECT 1 FROM loss WHERE code = 'ring_full_ends')" # on a machine that starves the drain: those are bounds, and said
expect_sql "SELECT sum(events) > 1000 FROM loss" 1
expect_sql "SELECT max(peak_bytes) >= 40 << 20 AND (max(peak_bytes) <= (42 << 20) + (512 << 10) OR $ends) FROM peak" 1
expect_sql "SELECT kind, end_bytes FROM peak WHERE device = 0 AND end_bytes AND NOT $ends" ''
expect_sql "SELECT count(*) FROM leak WHERE NOT $ends" 0
expect_sql "SELECT count(*) FROM upper_bound WHERE NOT $ends" 0
expect_sql "SELECT count(*) FROM counter WHERE name IN ('missed_frees', 'unknown_frees') AND value AND NOT $ends" 0

# 32 threads that fill the ring hide nothing of what another one holds
include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$BUILD/CMakeCache.txt")
"${CC:-cc}" -O1 -I"${include:-/usr/local/cuda/include}" "$(dirname "$0")/../../gpu/roads/crowd.c" -o "$dir/crowd" "$BUILD/sim/libcuda.so.1" -lpthread ||
    fail "crowd.c does not build"
spun=$db
run_shimmed "$dir/crowd"
expect_sql "SELECT sum(events) > 1000 FROM loss" 1
expect_sql "SELECT CASE WHEN max(peak_bytes) BETWEEN 1280 << 20 AND 1281 << 20 THEN 'all' ELSE max(peak_bytes) END FROM peak WHERE kind = 'allocated'" all
# their ends may not all find a place: then the figure is an upper bound to the end, and says so
expect_sql "SELECT kind, end_bytes FROM peak WHERE device = 0 AND end_bytes AND NOT EXISTS (SELECT 1 FROM upper_bound u WHERE u.device = 0 AND u.t_to_ns IS NULL)" ''
db=$spun

says() {
    grep -qF "$1" "$run/report" || fail "the report does not say '$1': $(cat "$run/report")"
}
shown() {
    "$BUILD/bin/vramscope" "$@" >"$run/report"
    local code=$?
    [ $code = 3 ] || fail "$1: exit status $code, not 3 (shown, but incomplete)"
}
shown report --all "$db"
says "LOST: "
if [ "$(sqlite3 "$db" "SELECT $ends")" = 0 ]; then
    says "peak: at least "
    grep -q "UPPER BOUND\|at most\|≤" "$run/report" && fail "an upper bound without a reason: $(cat "$run/report")"
fi
sqlite3 "$db" "DELETE FROM upper_bound; INSERT INTO upper_bound VALUES(1, 0, 'allocated', 1, 1000000, NULL, NULL),
    (1, 0, 'reserved', 1, 1000000, 2, 2000000)"
shown report --all "$db"
says "UPPER BOUND: allocated of device 0 may be too high from 1 ms to the end: ends of allocations or ranges were lost"
says "UPPER BOUND: reserved of device 0 may be too high from 1 ms to 2 ms: ends of allocations or ranges were lost; then a framework's own total, or that nothing was alive, showed it right"
peak=$(sqlite3 "$db" "SELECT printf('%.2f', max(peak_bytes) / 1048576.0) FROM peak WHERE device = 0 AND kind = 'allocated'")
says "peak: at most $peak MiB" # less than 42 where events of the largest were lost
shown report --json "$db"
for key in '"is_upper_bound": true' '"peak_is_upper_bound": true' '"end_is_upper_bound": true' '"to_t_ns": 2000000'; do
    says "$key"
done
shown peak "$db"
says "the peak may have been higher, or lower"
says "UPPER BOUND: allocated of device 0"
