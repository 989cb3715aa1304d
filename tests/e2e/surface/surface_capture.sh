#!/bin/bash
# A captured allocation is a node and no memory; the shim's own questions to the driver disturb no capture.
. "$(dirname "$0")/../lib/lib.bash"

run_shimmed "$tests/prog_graphs" capture
expect_events "op NOT IN ('sample', 'pool_reserved')" <<'END'
alloc|pool|cuMemAllocAsync|1048576|0|0
graph_node|graph|cuMemAllocAsync|5242880|0|0
graph_node|graph|cuMemAllocAsync|2097152|0|0
graph_node|graph|cuMemFreeAsync|0|0|0
alloc|graph|cuGraphLaunch|5242880|0|0
free|graph|cuMemFreeAsync|5242880|0|0
graph_node|graph|cuMemAllocAsync|2097152|0|0
alloc|device|cuMemAlloc_v2|1048576|0|900
free|pool|cuMemFreeAsync|1048576|0|0
END
# the pool's 32 MiB and the graph's 6 + 2
expect_sql "SELECT max(reserved_bytes) / 1048576 FROM event WHERE device = 0" 40
expect_sql "$unknown_frees" 0
expect_clean

shim_env=(VRAMSCOPE_SAMPLE_MS=1 SIMCUDA_NVML=off)
run_shimmed "$tests/prog_graphs" capture
expect_clean
