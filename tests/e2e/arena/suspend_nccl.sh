#!/bin/bash
# What NCCL holds of the device goes and comes with vramscope.suspended(), where PyTorch can have that, and it comes back whatever fails.
. "$(dirname "$0")/../lib/lib.bash"
has_arena || skip "this build has no arena"
find_torch
[ -f "$BUILD/dry/libnccl.so.2" ] || skip "the stand-ins for CUDA's libraries are not built"
. "$(dirname "$0")/../lib/dry.bash"
export PYTHONDONTWRITEBYTECODE=1 SIMCUDA_DRY=1 SIMCUDA_CAPACITY=8GiB LD_LIBRARY_PATH=$BUILD/sim:$BUILD/dry

# suspends CASE ALLOCATOR [NAME=VALUE...]
suspends() {
    new_run
    timeout --kill-after=1 $limit env LD_PRELOAD="$stand_ins" "${@:3}" "$V" run -q --simulated --allocator="$2" -o "$db" -- "$python" "$here/nccl_suspends.py" "$1" \
        >"$run/out" 2>"$run/err" </dev/null
    status=$?
    [ $status = 0 ] || fail "$1: status $status"
    ! grep -q 'Guessing device ID' "$run/err" || fail "$1: PyTorch warns"
    expect_clean
}
suspends arena arena
[ "$(wc -l <"$run/out")" = 8 ] || fail "cases did not run"
suspends refused arena SIMCUDA_FAIL='cuMemHostRegister_v2:*=2'
suspends without off TORCH_DIST_USE_NCCL2=0 # as with the arena
echo "NCCL's memory goes and comes"
