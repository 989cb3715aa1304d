#!/bin/bash
# A context's end is the end of what it owned; the primary one's of its device's pools too; a green one's of nothing.
. "$(dirname "$0")/../lib/lib.bash"

# shellcheck disable=SC2034 # what lib.bash leaves out of the lists
costs="'overhead'"

shim_env=(SIMCUDA_CONTEXT_BYTES=10MiB)
slowly run_shimmed "$tests/prog_contexts"
# the order in which a context's allocations end is nobody's business
expect_events "op NOT IN ('sample', 'pool_reserved', 'context_freed')" <<'END'
context_create|none|cuCtxCreate_v4|10485760|0|0
alloc|device|cuMemAlloc_v2|4194304|0|0
alloc|array|cuArrayCreate_v2|2097152|0|0
alloc|pinned|cuMemHostAlloc|8192|-1|0
context_destroy|none|cuCtxDestroy_v2|10485760|0|0
context_destroy|none|cuCtxDestroy_v2|0|-1|0
free_failed|none||0|-1|709
context_create|none|cuDevicePrimaryCtxRetain|10485760|0|0
alloc|device|cuMemAlloc_v2|4194304|0|0
alloc|array|cuArrayCreate_v2|2097152|0|0
alloc|pinned|cuMemHostAlloc|8192|-1|0
alloc|pool|cuMemAllocAsync|1048576|0|0
context_destroy|none|cuDevicePrimaryCtxRelease_v2|10485760|0|0
context_create|none|cuDevicePrimaryCtxRetain|10485760|0|0
alloc|device|cuMemAlloc_v2|4194304|0|0
alloc|array|cuArrayCreate_v2|2097152|0|0
alloc|pinned|cuMemHostAlloc|8192|-1|0
context_destroy|none|cuDevicePrimaryCtxReset_v2|10485760|0|0
context_create|none|cuDevicePrimaryCtxRetain|10485760|0|0
context_create|none|cuGreenCtxCreate|2097152|0|0
alloc|device|cuMemAlloc_v2|2097152|0|0
context_destroy|none|cuGreenCtxDestroy|2097152|0|0
free|device|cuMemFree_v2|2097152|0|0
END
expect_sql "SELECT space, count(*), sum(size_bytes) FROM event WHERE op = 'context_freed' GROUP BY space ORDER BY space" \
    $'array|3|6291456\ndevice|3|12582912\npinned|3|24576\npool|1|1048576'
expect_sql "SELECT max(reserved_bytes) / 1048576 FROM event WHERE device = 0" 38
expect_sql "SELECT end_bytes FROM peak WHERE kind IN ('reserved', 'pinned') AND peak_bytes > 0 ORDER BY kind" $'0\n0'
expect_sql "SELECT count(*) FROM leak" 0
expect_sql "$unknown_frees" 0
expect_clean

# contexts beyond the number that events can tell apart: the end of each ends its own memory, and nothing else
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
