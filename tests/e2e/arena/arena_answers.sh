#!/bin/bash
# Nine hundred answers about memory are the same whoever serves it: the program of tests/gpu/arena_driver.sh on the simulated driver.
. "$(dirname "$0")/../lib/lib.bash"
source=$(dirname "$0")/../../gpu/arena/answers.c
include=$(sed -n 's/^CUDA_INCLUDE_DIR:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
"$compiler" -O1 -I"$include" -o "$dir/answers" "$source" -ldl -lpthread || fail "$source does not build"

SIMCUDA_BANNER=0 "$dir/answers" | grep '^=\|^done' >"$dir/driver" || fail "no answers of the driver's"
[ "$(wc -l <"$dir/driver")" -gt 800 ] || fail "only $(wc -l <"$dir/driver") answers"
for free in wait defer; do
    shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ARENA_FREE="$free" SIMCUDA_BANNER=0)
    shimmed "$dir/answers"
    grep '^=\|^done' "$run/out" | diff "$dir/driver" - >"$run/difference" || fail "free=$free: $(head -n 20 "$run/difference")"
done
echo "$(($(wc -l <"$dir/driver") - 1)) answers are the same"
