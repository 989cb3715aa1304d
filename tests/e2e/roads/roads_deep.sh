#!/bin/bash
# A range that is too deep to be followed is a counted loss, and what is allocated in it is in no other thread's phase.
. "$(dirname "$0")/../lib/lib.bash"

run_shimmed "$tests/prog_deep"
expect_sql "SELECT size_bytes >> 20, phase FROM allocation ORDER BY alloc_seq" $'1|none\n2|forward'
expect_sql "SELECT count(*), sum(events) FROM loss" '1|1'
expect_sql "SELECT code FROM loss" ranges
