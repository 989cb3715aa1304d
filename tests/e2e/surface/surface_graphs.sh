#!/bin/bash
# Graphs with memory nodes: a node is no memory; what outlives a launch is, from the launch to its free, whoever frees it;
# what the device's graphs hold beyond that is in the total as their pool.
. "$(dirname "$0")/../lib/lib.bash"

run_shimmed "$tests/prog_graphs"
expect_events "op NOT IN ('sample', 'pool_reserved')" <<'END'
graph_node|graph|cuGraphAddMemAllocNode|8388608|0|0
graph_node|graph|cuGraphAddNode_v2|0|0|0
graph_node|graph|cuGraphAddMemAllocNode|3145728|0|0
alloc|graph|cuGraphLaunch|3145728|0|0
free|graph|cuMemFree_v2|3145728|0|0
alloc|graph|cuGraphLaunch|3145728|0|0
free|graph|cuMemFreeAsync|3145728|0|0
graph_node|graph|cuGraphAddMemAllocNode|2097152|0|0
alloc|graph|cuGraphLaunch|2097152|0|0
free|graph|cuGraphLaunch|2097152|0|0
alloc|graph|cuGraphLaunch|2097152|0|0
free|graph|cuMemFree_v2|2097152|0|0
alloc|graph|cuGraphLaunch|2097152|0|0
free|graph|cuMemFree_v2|2097152|0|0
graph_node|graph|cuGraphAddMemAllocNode|1048576|0|0
graph_node|graph|cuGraphAddNode_v2|0|0|0
alloc|graph|cuGraphLaunch|1048576|0|0
free|graph|cuGraphLaunch|1048576|0|0
free|graph|cuGraphLaunch|0|-1|0
free_failed|graph||0|-1|1
END
# what the graphs' pool held as the driver said: 8 MiB, trimmed; 4 (of 3) kept through all the others; trimmed
expect_sql "SELECT group_concat(size_bytes / 1048576) FROM (SELECT size_bytes FROM event WHERE op = 'pool_reserved' AND space = 'graph' ORDER BY seq)" 8,0,4,0
expect_sql "SELECT peak_bytes, end_bytes FROM peak WHERE device = 0 AND kind = 'reserved'" '8388608|0'
expect_sql "SELECT max(allocated_bytes) FROM event WHERE device = 0" 3145728
expect_sql "$unknown_frees" 0
expect_clean
