#!/bin/bash
# Every hooked function is made to fail at its first call, in tests/run.sh full also at every call: the program gets exactly the driver's error, the
# call is recorded with it, and no total is bent. Where what we ask the driver for ourselves fails the program sees nothing.
. "$(dirname "$0")/../lib/lib.bash"
rows=$(dirname "$0")/../../../shim/trace/driver.def

# what is alive by the events' own pairing, and by the curves' last values
consistent() {
    local alive="(SELECT ifnull(sum(size_bytes), 0) FROM allocation WHERE free_seq IS NULL AND space"
    local end="(SELECT ifnull(sum(end_bytes), 0) FROM peak WHERE kind"
    # of each space the allocations without an end are what its curve ends at; pools may hold more than is allocated of them
    expect_sql "SELECT (SELECT count(*) FROM loss WHERE events > 0), (SELECT value FROM meta WHERE key = 'clean_end'),
        (SELECT count(*) FROM peak WHERE end_bytes < 0 OR peak_bytes < end_bytes),
        $end = 'allocated') = $alive IN ('device', 'pool')), $end = 'pinned') = $alive = 'pinned'),
        $end = 'registered') = $alive = 'registered'), $end = 'managed') = $alive = 'managed'),
        $end = 'reserved') >= $alive = 'device'), integrity_check FROM pragma_integrity_check" '0|1|0|1|1|1|1|1|ok'
}

run_shimmed "$tests/prog_faults"
consistent
expect_sql "SELECT count(*) FROM allocation WHERE free_seq IS NULL" 0
expect_sql "SELECT count(*) FROM event WHERE op = 'free_failed'" 0
# the program reaches every row of the table but start and look-up, and but for those that came with the rest of the
# memory surface and with overheads (numbers from 50): surface_every_fault.sh has them
reached=$(grep -o '^cu[^ ]*' "$run/out" | sort -u)
for symbol in $(sed -nEf "$(dirname "$0")/../lib/rows.sed" "$rows" | sed -nE 's/^([0-9]|[1-4][0-9]), (\w+),.*/\2/p' | grep -v '^cuInit\|^cuGetProcAddress'); do
    grep -qx "$symbol" <<<"$reached" || fail "prog_faults does not call $symbol"
done

for symbol in $reached; do
    faults=("1=2")
    ! in_full || faults+=("*=719")
    for fault in "${faults[@]}"; do
        call=${fault%=*} error=${fault#*=}
        shim_env=("SIMCUDA_FAIL=$symbol:$fault")
        run_shimmed "$tests/prog_faults" # output and exit status as without us
        grep -q "^$symbol $error" "$run/out" || fail "$symbol:$call: the fault was not given"
        consistent
        case $symbol in
        cuDeviceSetMemPool | cuMemSetMemPool | cuMemPool*) ;; # no event of their own
        *) [ "$(ask "SELECT count(*) > 0 FROM event WHERE status = $error")" = 1 ] || fail "$symbol:$call: the failed call is not recorded" ;;
        esac
        # tried once more, everything is gone again; what never succeeded is not there either
        if [ "$call" = 1 ]; then expect_sql "SELECT count(*) FROM allocation WHERE free_seq IS NULL" 0; fi
    done
done

# our own questions
for symbol in cuCtxGetCurrent cuCtxGetDevice cuPointerGetAttribute cuStreamGetCtx cuStreamIsCapturing cuDeviceGetMemPool \
    cuMemPoolGetAttribute cuDeviceGetName cuDeviceTotalMem_v2 cuDeviceGetUuid_v2 cuMemGetInfo_v2 cuDeviceGetCount; do
    shim_env=("SIMCUDA_FAIL=$symbol:*=719")
    run_shimmed "$tests/prog_faults"
    expect_sql "PRAGMA integrity_check" ok
    expect_sql "SELECT count(*) FROM event WHERE op IN ('alloc', 'phys_create') AND status = 0" 15
done
shim_env=("SIMCUDA_FAIL=cuInit:1=999")
run_shimmed "$tests/prog_faults"
[ "$status" = 3 ] || fail "cuInit failed, and the program did not notice: $status"
[ -z "$(databases)" ] || fail "a program without a driver has a database"
echo "faults stay the driver's"
