#!/bin/bash
# Eight threads at once: every call is there, the totals come back to zero, and a signal storm loses nothing.
. "$(dirname "$0")/../lib/lib.bash"

run_shimmed "$tests/prog_threads"
expect_sql "SELECT op, count(*), sum(size_bytes) FROM event WHERE op IN ('alloc', 'free') GROUP BY op" \
    $'alloc|8000|147456000\nfree|8000|147456000'
expect_sql "SELECT count(DISTINCT thread) FROM event WHERE op = 'alloc'" 8
expect_sql "SELECT allocated_bytes, reserved_bytes FROM event WHERE op = 'free' ORDER BY seq DESC LIMIT 1" '0|0'
# never more live than eight threads can hold, and each free is of an allocation before it
expect_sql "SELECT max(allocated_bytes) <= 4 * 36 * 4096, min(allocated_bytes) FROM event WHERE device = 0" '1|0'
expect_sql "SELECT count(*) FROM event WHERE op = 'free' AND (mate = 0 OR mate >= seq)" 0
expect_clean

run_shimmed "$tests/prog_signals"
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 20000
expect_sql "SELECT count(*) FROM event WHERE op = 'free'" 20000
expect_sql "SELECT (SELECT count(*) FROM event WHERE op = 'range_push') = (SELECT count(*) FROM event WHERE op = 'range_pop')" 1
expect_sql "SELECT count(*) >= 20 FROM event WHERE op = 'range_push'" 1
expect_clean
