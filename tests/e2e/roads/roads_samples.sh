#!/bin/bash
# The driver's own figure is sampled from the best source: NVML for this process, else cuMemGetInfo.  What was reserved is known beside it, so that
# the residual can be told.
. "$(dirname "$0")/../lib/lib.bash"

# sources MODE SOURCE: with this NVML, samples come from that source (and at the start from the host's own question)
sources() {
    local mode=$1 wanted=$2
    shim_env=("SIMCUDA_NVML=$mode" SIMCUDA_CONTEXT_BYTES=100MiB VRAMSCOPE_SAMPLE_MS=20)
    # the context, beside what was held; a sample between a call and its record may be one call off
    seen "SELECT count(*) > 0 FROM sample WHERE source = '$wanted' AND driver_used_bytes - reserved_bytes = 104857600
        AND reserved_bytes >= 33554432" -- run_shimmed "$tests/prog_idle"
    expect_sql "SELECT count(*) FROM sample WHERE host_rss_bytes <= 0" 0
    expect_clean
}
sources on nvml_process
sources off meminfo
sources nopid nvml_device

# steady SOURCE: as long as the program does something there is a sample at each tick, even if the figure stays the same;
# what is allocated last is in the last sample, though no call of the driver follows it
steady() {
    shim_env=("SIMCUDA_NVML=$1" SIMCUDA_CONTEXT_BYTES=100MiB VRAMSCOPE_SAMPLE_MS=1)
    seen "SELECT count(*) >= 10 FROM sample WHERE source = '$2'" -- slowly run_shimmed "$tests/prog_lastlook"
    # without work there is one a second: a thousandth of that
    expect_sql "SELECT count(*) > (SELECT max(t_ns) - min(t_ns) FROM event) / 20000000 FROM sample WHERE source = '$2'" 1
    expect_sql "SELECT driver_used_bytes / 1048576, reserved_bytes / 1048576, source, host_rss_bytes > 0 FROM sample
                ORDER BY t_ns DESC LIMIT 1" "124|24|$2|1"
    expect_clean
}
steady on nvml_process
steady off meminfo
steady nopid nvml_device

# Once its last context is gone, NVML lists the process no more: it uses nothing, whatever others have on the device.
last="SELECT driver_used_bytes / 1048576, source FROM sample ORDER BY t_ns DESC LIMIT 1"
shim_env=(SIMCUDA_NVML=on SIMCUDA_CONTEXT_BYTES=100MiB VRAMSCOPE_SAMPLE_MS=1)
at_most="SELECT max(driver_used_bytes) / 1048576 FROM sample WHERE source = 'nvml_process'"
emptied="SELECT count(*) > 0 FROM sample WHERE source = 'nvml_process' AND driver_used_bytes = 0"
seen "SELECT ($at_most) >= 108" "$emptied" -- slowly run_shimmed "$tests/prog_idle" reset
expect_sql "$last" '0|nvml_process'
expect_sql "$at_most" 108
expect_sql "SELECT size_bytes / 1048576 FROM event WHERE op = 'context_destroy'" 100
expect_clean
seen "SELECT ($at_most) >= 108" "$emptied" -- slowly run_shimmed "$tests/prog_idle" reset again
expect_sql "$last" '104|nvml_process'
expect_sql "SELECT group_concat(size_bytes / 1048576) FROM event WHERE op = 'context_create'" 100,100
expect_clean
# ... and where it never listed it, whose bytes they are stays unknown
shim_env[0]=SIMCUDA_NVML=nopid
slowly run_shimmed "$tests/prog_idle" reset
expect_sql "$last" '0|nvml_device'
expect_sql "SELECT count(*) FROM sample WHERE source = 'nvml_process'" 0

shim_env=(VRAMSCOPE_SAMPLE_MS=0)
run_shimmed "$tests/prog_idle"
expect_sql "SELECT count(*) FROM sample" 0
expect_clean
