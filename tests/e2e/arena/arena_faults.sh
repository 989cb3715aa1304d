#!/bin/bash
# Every driver function that the arena calls fails, at its first call, its second, ...: the program gets memory or the error that the real call would
# have given, words are right, and all memory is given back in the end.
. "$(dirname "$0")/../lib/lib.bash"
here=$(dirname "$0")/../../..

# all that the arena calls (backing_cuda.h), as the driver exports it
mapfile -t functions < <(sed -nE 's/^ +X\((cu[A-Za-z0-9_]+),.*/\1/p' "$here/shim/arena/device/backing_cuda.h")
[ ${#functions[@]} -ge 15 ] || fail "only ${#functions[@]} functions found in backing_cuda.h"
export SIMCUDA_BANNER=0 VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ENABLED=off

played() { # HOW ERROR FUNCTION...: each in turn, two at a time
    local how=$1 error=$2
    shift 2
    printf '%s\n' "$@" | timeout 300 xargs -P 2 -I{} env LD_PRELOAD="$shim" "$tests/prog_arena_faults" {} "$error" "$how" \
        >>"$dir/said" 2>>"$dir/wrong" || fail "$how, error $error: $(cat "$dir/wrong")"
}
played both 2 "${functions[@]}"
VRAMSCOPE_ARENA_FREE=defer played sync 719 cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap cuMemRelease cuCtxSynchronize
! in_full || played async 1 cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap cuEventRecord cuEventQuery cuStreamWaitEvent
for function in cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap cuMemRelease cuMemAddressReserve cuCtxSynchronize cuEventRecord; do
    grep -q "^$function .* failed in [1-9]" "$dir/said" || fail "$function never failed: $(cat "$dir/said")"
done
grep -q '^cuCtxSynchronize .* noticed in [1-9]' "$dir/said" || fail "no program noticed that the device's error was its own"
echo "$(wc -l <"$dir/said") functions failed in $(awk '{ n += $(NF - 4) } END { print n }' "$dir/said") runs"
