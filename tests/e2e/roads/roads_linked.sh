#!/bin/bash
# Linked with the driver, by dlopen and dlsym, by cuGetProcAddress in every way: every allocation is recorded, once, under the entry point that was
# called, and no program notices.
. "$(dirname "$0")/../lib/lib.bash"

run_shimmed "$tests/prog_linked"
expect_events <<'END'
alloc|device|cuMemAlloc_v2|4096|0|0
alloc|device|cuMemAlloc_v2|3145729|0|0
alloc|device|cuMemAllocPitch_v2|10240|0|0
alloc|managed|cuMemAllocManaged|5242880|0|0
free|none|cuMemFree_v2|0|-1|0
free_failed|none||0|-1|1
free|device|cuMemFree_v2|3145729|0|0
free|managed|cuMemFree_v2|5242880|0|0
free|device|cuMemFree_v2|10240|0|0
alloc|device|cuMemAlloc_v2|1099511627776|0|2
alloc|device|cuMemAlloc_v2|4096|0|1
free|device|cuMemFree_v2|4096|0|0
free|none|cuMemFree_v2|0|-1|0
free_failed|none||0|-1|1
END
expect_sql "$unknown_frees" 0 # the driver refused them
expect_clean

run_shimmed "$tests/prog_dlopen"
expect_events <<'END'
alloc|device|cuMemAlloc_v2|1000|0|0
free|device|cuMemFree_v2|1000|0|0
alloc|device|cuMemAlloc_v2|2000|0|0
alloc|device|cuMemAlloc|3000|0|0
free|device|cuMemFree|3000|0|0
alloc|pinned|cuMemHostAlloc|4096|-1|0
END
expect_clean

run_shimmed "$tests/prog_getproc"
expect_events "op NOT IN ('sample', 'pool_reserved')" <<'END'
alloc|device|cuMemAlloc_v2|1024|0|0
free|device|cuMemFree_v2|1024|0|0
alloc|pool|cuMemAllocAsync|2048|0|0
free|pool|cuMemFreeAsync_ptsz|2048|0|0
alloc|pool|cuMemAllocAsync_ptsz|4096|0|0
free|pool|cuMemFreeAsync|4096|0|0
alloc|device|cuMemAlloc_v2|8192|0|0
free|device|cuMemFree_v2|8192|0|0
alloc|device|cuMemAlloc_v2|16384|0|0
free|device|cuMemFree_v2|16384|0|0
alloc|device|cuMemAlloc|512|0|0
free|device|cuMemFree|512|0|0
END
expect_clean
