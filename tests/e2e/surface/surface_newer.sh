#!/bin/bash
# Memory that functions of CUDA 13.1 to 13.5 move: nodes of the third form, bindings that name their device, logical endpoints,
# parts of a device. By each road, with exact events.
. "$(dirname "$0")/../lib/lib.bash"

for road in linked dlsym proc; do
    shim_env=(SIMCUDA_DEVICES=2)
    run_shimmed "$tests/prog_newer" $road
    [ "$status" = 0 ] || fail "$road: status $status"
    expect_events "op NOT IN ('sample', 'pool_reserved')" <<'END'
graph_node|graph|cuGraphAddNode_v3|3145728|0|0
alloc|graph|cuGraphLaunch|3145728|0|0
free|graph|cuMemFree_v2|3145728|0|0
phys_create|device|cuMemCreate|2097152|0|0
phys_create|device|cuMemCreate|2097152|1|0
va_reserve|address|cuMemAddressReserve|2097152|-1|0
map|device||2097152|1|0
phys_release|device|cuMemRelease|0|1|0
phys_create|multicast|cuMulticastCreate|4194304|-1|0
bind|multicast||2097152|0|0
bind|multicast||2097152|-1|1
bind|multicast||2097152|1|0
phys_release|device|cuMemRelease|0|0|0
unmap|device|cuMemUnmap|2097152|1|0
unbind|multicast||2097152|0|0
phys_freed|device||2097152|0|0
phys_release|multicast|cuMemRelease|4194304|-1|0
phys_freed|device||2097152|1|0
phys_create|multicast|cuLogicalEndpointCreate|8388608|-1|0
phys_create|multicast|cuLogicalEndpointCreate|8388608|-1|1
phys_create|device|cuMemCreate|2097152|0|0
phys_create|device|cuMemCreate|2097152|0|0
phys_create|device|cuMemCreate|2097152|1|0
va_reserve|address|cuMemAddressReserve|2097152|-1|0
map|device||2097152|1|0
phys_release|device|cuMemRelease|0|1|0
bind|multicast||2097152|0|0
bind|multicast||2097152|0|0
bind|multicast||2097152|1|0
phys_release|device|cuMemRelease|0|0|0
phys_release|device|cuMemRelease|0|0|0
unmap|device|cuMemUnmap|2097152|1|0
unbind|multicast||8388608|0|0
phys_freed|device||2097152|0|0
phys_freed|device||2097152|0|0
free_failed|multicast||0|0|1
unbind|multicast||4194304|0|0
phys_freed|device||2097152|0|0
phys_freed|device||2097152|0|0
phys_create|multicast|cuLogicalEndpointImport|0|-1|0
phys_release|multicast|cuLogicalEndpointDestroy|8388608|-1|0
phys_freed|device||2097152|1|0
phys_release|multicast|cuLogicalEndpointDestroy|0|-1|0
phys_create|device|cuMemCreate|2097152|1|0
phys_release|device|cuMemRelease|2097152|1|0
END
    # the graphs of device 0 keep 4 MiB
    expect_sql "SELECT device, peak_bytes, end_bytes FROM peak WHERE device >= 0 AND kind = 'reserved' ORDER BY device" $'0|8388608|4194304\n1|2097152|0'
    expect_sql "$unknown_frees" 0
    expect_clean
done
