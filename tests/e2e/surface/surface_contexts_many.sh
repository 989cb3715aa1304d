#!/bin/bash
# Contexts beyond the number that events can tell apart: the end of each ends its own memory, and nothing else.
. "$(dirname "$0")/../lib/lib.bash"

shim_env=(SIMCUDA_CONTEXT_BYTES=1MiB)
run_shimmed "$tests/prog_contexts_many"
expect_sql "SELECT count(*) FROM event WHERE op = 'context_create'" 701
expect_sql "SELECT count(*), sum(size_bytes) FROM event WHERE op = 'context_freed'" "650|$((650 << 20))"
expect_sql "SELECT peak_bytes >> 20, end_bytes >> 20 FROM peak WHERE kind = 'allocated' AND device = 0" '103|53'
expect_sql "SELECT count(*), sum(size_bytes) >> 20 FROM open_allocation o JOIN allocation a USING (alloc_seq)" '51|53'
# each by the end of the context that it was made in: the one whose row came last before it
expect_sql "SELECT count(*) FROM event f JOIN event a ON a.seq = f.mate WHERE f.op = 'context_freed' AND
  (SELECT max(seq) FROM event c WHERE c.op = 'context_create' AND c.seq < a.seq) <>
  (SELECT d.mate FROM event d WHERE d.op = 'context_destroy' AND d.seq < f.seq ORDER BY d.seq DESC LIMIT 1)" 0
expect_clean
