#!/bin/bash
# A multicast object is an address without memory of its own; what is bound into it lives for as long as it is.
. "$(dirname "$0")/../lib/lib.bash"

shim_env=(SIMCUDA_DEVICES=2)
run_shimmed "$tests/prog_multicast"
expect_events <<'END'
phys_create|device|cuMemCreate|2097152|0|0
phys_create|device|cuMemCreate|2097152|1|0
phys_create|multicast|cuMulticastCreate|4194304|-1|0
bind|multicast||2097152|0|0
va_reserve|address|cuMemAddressReserve|2097152|-1|0
map|device||2097152|1|0
bind|multicast||2097152|1|0
bind|multicast||2097152|-1|1
phys_release|device|cuMemRelease|0|0|0
phys_release|device|cuMemRelease|0|1|0
unmap|device|cuMemUnmap|2097152|1|0
va_reserve|address|cuMemAddressReserve|4194304|-1|0
map|multicast||4194304|-1|0
unbind|multicast||2097152|-1|0
free_failed|multicast||0|-1|1
unbind|multicast||2097152|0|0
phys_freed|device||2097152|0|0
unmap|multicast|cuMemUnmap|4194304|-1|0
phys_release|multicast|cuMemRelease|4194304|-1|0
phys_freed|device||2097152|1|0
END
expect_sql "SELECT device, peak_bytes, end_bytes FROM peak WHERE device >= 0 AND kind = 'reserved' ORDER BY device" $'0|2097152|0\n1|2097152|0'
expect_clean
