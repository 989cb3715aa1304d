#!/bin/bash
# Every function of the memory surface is made to fail at its first call, in tests/run.sh full also at every call, and the programs go on: they are
# given exactly the driver's error, the failed call is recorded with it, and what is alive is still what the curves end at.  A row of driver.def that
# is not called so has its reason here.
. "$(dirname "$0")/../lib/lib.bash"
root=$(dirname "$0")/../../..

consistent() {
    local alive="(SELECT ifnull(sum(size_bytes), 0) FROM allocation WHERE free_seq IS NULL AND space"
    expect_sql "SELECT (SELECT count(*) FROM loss WHERE events > 0), (SELECT value FROM meta WHERE key = 'clean_end'),
        (SELECT count(*) FROM peak WHERE end_bytes < 0 OR peak_bytes < end_bytes),
        (SELECT ifnull(sum(end_bytes), 0) FROM peak WHERE kind = 'allocated') = $alive IN ('device', 'pool', 'array', 'graph')),
        integrity_check FROM pragma_integrity_check" '0|1|0|1|ok'
}

# What failed without an event of its own: nothing was taken or given back, and nothing is to be told from it.
without_event() {
    case $1 in
    cuMemPoolImportFromShareableHandle) ;;                                     # a pool: its memory comes with pointers
    cuGraphInstantiate* | cuGraphExec* | cuGraphUpload* | cuDeviceGraphMemTrim) ;; # memory comes with launches
    cuGraphLaunch*) ;;                                                         # a launch that fails allocates nothing
    cuDevicePrimaryCtxRetain | cuDevicePrimaryCtxRelease*) ;;                  # counts, but the one that begins or ends
    cuLibraryGetModule | cuStreamCreate* | cuCtxEnablePeerAccess) ;;           # costs, measured where they succeed
    cuLaunch* | cuFunc* | cuKernelSetAttribute | cuModuleGetFunction | cuLibraryGetKernel | cuKernelGetFunction) ;; # likewise
    cuStreamDestroy*) ;;                                                       # counts, and takes or gives nothing
    *) return 1 ;;
    esac
}

# The free that fails is tried once more: then all is gone as without the fault.
fails() { # PROGRAM SYMBOL CALL ERROR
    local program=$1 symbol=$2 call=$3 error=$4
    shim_env=(SIMCUDA_DEVICES=2 "SIMCUDA_FAIL=$symbol:$call=$error")
    run_shimmed "$tests/$program" # output and exit status as without us
    grep -q "^$symbol $error" "$run/out" || fail "$symbol:$call: the fault was not given"
    consistent
    without_event "$symbol" || [ "$(ask "SELECT count(*) > 0 FROM event WHERE status = $error")" = 1 ] ||
        fail "$symbol:$call: the failed call is not recorded"
    if [ "$call" = 1 ] && [ "$status" = 0 ]; then expect_sql "SELECT count(*) FROM allocation WHERE free_seq IS NULL" 0; fi
}

called=()
for program in prog_faults_memory prog_faults_contexts; do
    shim_env=(SIMCUDA_DEVICES=2)
    run_shimmed "$tests/$program"
    [ "$status" = 0 ] || fail "$program ends with $status"
    consistent
    expect_sql "SELECT count(*) FROM allocation WHERE free_seq IS NULL" 0
    expect_sql "SELECT count(*) FROM event WHERE op = 'free_failed'" 0
    ! grep -v ' 0$' "$run/out" | grep -v '^done$' || fail "$program: a call fails without a fault"
    mapfile -t symbols < <(grep -o '^cu[^ ]*' "$run/out" | sort -u)
    for symbol in "${symbols[@]}"; do
        # the hooks ask for a primary context's handle by a retain and a release, which would be the first
        [ "$symbol" = cuDevicePrimaryCtxRelease_v2 ] || fails "$program" "$symbol" 1 719
        # and a program that gets no context at all records nothing
        ! in_full || [ "$symbol" = cuDevicePrimaryCtxRetain ] || fails "$program" "$symbol" '*' 2
    done
    called+=("${symbols[@]}")
done

# All rows but these: the simulated driver lacks some, or refuses them outside dry mode whatever it is asked (variables of device
# code), so there is no success to differ from; of PASS, GIVEN, CAPTURE, WORK, TEXTURE no event is recorded.
served=$(sed -nE 's/^(FN|PT)\(.*[ ,]([A-Za-z0-9_]+)\)$/\2/p' "$root/dry/driver/functions.def")
for symbol in $(sed -nEf "$root/tests/e2e/lib/rows.sed" "$root/shim/trace/driver.def" |
    sed -nE '/, (PASS|GIVEN|CAPTURE|WORK|TEXTURE),/d; s/^([5-9][0-9]|[0-9]{3}), (\w+),.*/\2/p'); do
    grep -qx "$symbol" <<<"$served" || continue
    [[ $symbol != *GetGlobal* ]] || continue
    [[ " ${called[*]} " == *" $symbol "* ]] || fail "$symbol is called by no program under a fault"
done
echo "${#called[@]} functions fail as the driver lets them"
