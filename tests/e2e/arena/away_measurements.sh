#!/bin/bash
# What tests/gpu shows of memory that goes away, suspended and parked, as far as it goes without a GPU; with nothing to run on both scripts say so.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
has_arena || skip "this build has no arena"
find_torch
gpu=$here/../../gpu
new_run
cmake --install "$BUILD" --prefix "$dir/tree" >/dev/null || fail "cmake --install"
CUDA_INCLUDE=$(sed -n 's/^CUDA_INCLUDE_DIR:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
export CUDA_INCLUDE TEST_PYTHON=$python
unset LD_LIBRARY_PATH

for script in suspend park spill; do
    SIMULATED=1 SUSPEND_SECONDS=1500 PARK_SECONDS=1500 SPILL_SECONDS=1500 timeout 1600 "$gpu/$script.sh" "$dir/tree" "$run/$script" >"$run/out" 2>"$run/err" ||
        fail "$script.sh: status $?: $(grep ^FAIL "$run/out" | head -n 3)"
    shown=$(grep -c '^PASS' "$run/out")
    [ "$shown" -ge "$([ $script = suspend ] && echo 41 || echo 4)" ] || fail "$script.sh shows $shown things"
    [ -e /dev/nvidiactl ] && continue
    "$gpu/$script.sh" "$dir/tree" "$run/none" >"$run/out" 2>&1
    [ $? = 77 ] || fail "$script.sh without a GPU: not 77"
done
echo "what goes away, without a GPU"
