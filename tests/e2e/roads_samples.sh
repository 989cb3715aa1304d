#!/bin/bash
# The driver's own figure is sampled from the best source there is: NVML for this process, else cuMemGetInfo, and what was
# reserved is known beside it, so that the residual (here the context) can be told.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.bash"

# sources MODE SOURCE: with this NVML, samples come from that source (and at the start from the host's own question)
sources() {
    local mode=$1 wanted=$2
    shim_env=("SIMCUDA_NVML=$mode" SIMCUDA_CONTEXT_BYTES=100MiB VRAMSCOPE_SAMPLE_MS=20)
    run_shimmed "$tests/prog_idle"
    expect_sql "SELECT count(*) > 0 FROM sample WHERE source = '$wanted'" 1
    # the context, beside what was held; a sample between a call and its record may be one call off
    expect_sql "SELECT count(*) > 0 FROM sample WHERE source = '$wanted' AND driver_used_bytes - reserved_bytes = 104857600
                AND reserved_bytes >= 33554432" 1
    expect_sql "SELECT count(*) FROM sample WHERE host_rss_bytes <= 0" 0
    expect_clean
}
sources on nvml_process
sources off meminfo
sources nopid meminfo

shim_env=(VRAMSCOPE_SAMPLE_MS=0)
run_shimmed "$tests/prog_idle"
expect_sql "SELECT count(*) FROM sample" 0
expect_clean
