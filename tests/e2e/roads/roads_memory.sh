#!/bin/bash
# Pools, host memory and a device that runs full: what each entry point is recorded as, and which totals it moves.
. "$(dirname "$0")/../lib/lib.bash"

run_shimmed "$tests/prog_memory" async
expect_events "op NOT IN ('sample', 'pool_reserved')" <<'END'
alloc|pool|cuMemAllocAsync|1048576|0|0
alloc|pool|cuMemAllocAsync|41943040|0|0
free|pool|cuMemFreeAsync|41943040|0|0
alloc|pool|cuMemAllocAsync|2097152|0|0
alloc|pool|cuMemAllocFromPoolAsync|3145728|0|0
free|pool|cuMemFreeAsync|3145728|0|0
free|pool|cuMemFreeAsync|1048576|0|0
free|pool|cuMemFree_v2|2097152|0|0
free|none|cuMemFreeAsync|0|-1|0
free_failed|none||0|-1|1
END
# what the pools held of the device, as sampled: 32 MiB, 32 + 40, our own 32 on top and trimmed again
expect_sql "SELECT group_concat(size_bytes / 1048576) FROM (SELECT size_bytes FROM event WHERE op = 'pool_reserved' ORDER BY seq LIMIT 3)" 32,72,32
expect_sql "SELECT max(reserved_bytes) / 1048576 FROM event WHERE device = 0" 104
expect_sql "SELECT max(allocated_bytes) FROM event WHERE device = 0" 42991616
expect_sql "$unknown_frees" 0 # the driver refused it
expect_clean

run_shimmed "$tests/prog_memory" host
expect_events <<'END'
alloc|pinned|cuMemHostAlloc|10000|-1|0
alloc|pinned|cuMemAllocHost_v2|20000|-1|0
alloc|registered|cuMemHostRegister_v2|12288|-1|0
alloc|managed|cuMemAllocManaged|30000|0|0
alloc|registered|cuMemHostRegister_v2|12288|-1|712
free|registered|cuMemHostUnregister|12288|-1|0
free|pinned|cuMemFreeHost|10000|-1|0
free|pinned|cuMemFreeHost|0|-1|0
free_failed|pinned||0|-1|1
free|pinned|cuMemFreeHost|20000|-1|0
free|managed|cuMemFree_v2|30000|0|0
END
expect_sql "SELECT kind, sum(peak_bytes), sum(end_bytes) FROM peak WHERE kind IN ('pinned', 'registered', 'managed') GROUP BY kind ORDER BY kind" \
    $'managed|30000|0\npinned|30000|0\nregistered|12288|0'
expect_sql "SELECT ifnull(max(reserved_bytes), 0), ifnull(max(allocated_bytes), 0) FROM event WHERE device >= 0" '0|0'
expect_sql "$unknown_frees" 0 # the driver refused it
expect_clean

shim_env=(SIMCUDA_CAPACITY=1GiB)
run_shimmed "$tests/prog_oom"
expect_sql "SELECT count(*), sum(size_bytes) FROM event WHERE op = 'alloc' AND status = 2" '2|134217728'
expect_sql "SELECT peak_bytes / 1048576 FROM peak WHERE device = 0 AND kind = 'reserved'" 960
expect_clean

shim_env=(SIMCUDA_FAIL=cuMemFree_v2:2=719)
run_shimmed "$tests/prog_threads"
expect_sql "SELECT count(*), sum(status) FROM event WHERE op = 'free_failed'" '1|719'
