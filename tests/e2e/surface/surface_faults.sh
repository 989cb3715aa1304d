#!/bin/bash
# The memory surface's functions fail once each: the program is given exactly the driver's error and ends by itself, the
# failed call is recorded with it, and what is alive is still what the curves end at.
. "$(dirname "$0")/../lib/lib.bash"

consistent() {
    local alive="(SELECT ifnull(sum(size_bytes), 0) FROM allocation WHERE free_seq IS NULL AND space"
    expect_sql "SELECT (SELECT count(*) FROM loss WHERE events > 0), (SELECT value FROM meta WHERE key = 'clean_end'),
        (SELECT count(*) FROM peak WHERE end_bytes < 0 OR peak_bytes < end_bytes),
        (SELECT ifnull(sum(end_bytes), 0) FROM peak WHERE kind = 'allocated') = $alive IN ('device', 'pool', 'array', 'graph')),
        integrity_check FROM pragma_integrity_check" '0|1|0|1|ok'
}

# fails PROGRAM FUNCTION...
fails() {
    local program=$1 symbol
    shift
    for symbol; do
        shim_env=("SIMCUDA_DEVICES=2" "SIMCUDA_FAIL=$symbol:1=719")
        run_shimmed "$tests/$program" # output and exit status as without us
        [ "$status" = 3 ] || fail "$program: $symbol was not called"
        consistent
        [ "$(ask "SELECT count(*) > 0 FROM event WHERE status = 719")" = 1 ] || fail "$program: $symbol failed and is not recorded"
    done
}

fails prog_arrays cuArrayCreate_v2 cuArray3DCreate_v2 cuArrayDestroy cuMipmappedArrayCreate cuMipmappedArrayDestroy cuMemMapArrayAsync
fails prog_graphs cuGraphAddMemAllocNode cuGraphAddNode_v2
fails prog_imports cuImportExternalMemory cuExternalMemoryGetMappedBuffer cuExternalMemoryGetMappedMipmappedArray cuDestroyExternalMemory
fails prog_multicast cuMulticastCreate cuMulticastBindMem cuMulticastBindAddr cuMulticastUnbind
fails prog_contexts cuCtxDestroy_v2 cuGreenCtxCreate cuGreenCtxDestroy cuDevicePrimaryCtxReset_v2
fails prog_modules cuModuleLoadData cuModuleLoadDataEx cuModuleUnload cuLibraryLoadData cuLibraryUnload cuCtxSetLimit
echo "faults stay the driver's"
