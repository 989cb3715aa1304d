#!/bin/bash
# Memory of another process is marked where it is opened and in no device's total there: the owner counts it, once.
. "$(dirname "$0")/../lib/lib.bash"

run_shimmed "$tests/prog_ipc"
expect_events "op NOT IN ('sample', 'pool_reserved')" <<'END'
alloc|device|cuMemAlloc_v2|6291456|0|0
alloc|pool|cuMemAllocFromPoolAsync|3145728|0|0
alloc|imported|cuIpcOpenMemHandle_v2|0|0|201
free|pool|cuMemFreeAsync|3145728|0|0
free|device|cuMemFree_v2|6291456|0|0
END
expect_sql "SELECT max(allocated_bytes) FROM event WHERE device = 0" "$((9 << 20))"
expect_clean

[ "$(databases | wc -l)" = 2 ] || fail "databases: $(databases)"
db=$(databases | grep -v '/run\.db$')
expect_events "op NOT IN ('sample', 'pool_reserved')" <<'END'
alloc|device|cuMemAlloc_v2|2097152|0|0
alloc|imported|cuIpcOpenMemHandle_v2|6291456|0|0
phys_retain|imported|cuIpcOpenMemHandle_v2|0|0|0
phys_release|imported|cuIpcCloseMemHandle|0|0|0
alloc|imported|cuMemPoolImportPointer|3145728|0|0
free|imported|cuMemFreeAsync|3145728|0|0
free|imported|cuIpcCloseMemHandle|6291456|0|0
free|imported|cuIpcCloseMemHandle|0|-1|0
free_failed|imported||0|-1|1
free|device|cuMemFree_v2|2097152|0|0
END
expect_sql "SELECT max(reserved_bytes), max(allocated_bytes) FROM event WHERE device = 0" '2097152|2097152'
expect_sql "SELECT peak_bytes, end_bytes FROM peak WHERE kind = 'imported'" "$((9 << 20))|0"
expect_sql "SELECT count(*) FROM event WHERE op = 'pool_reserved' AND size_bytes > 0" 0
expect_sql "$unknown_frees" 0
