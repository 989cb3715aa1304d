#!/bin/bash
# The arena among contexts, pools, threads and processes: programs cannot tell it from the driver's own allocator.
. "$(dirname "$0")/../lib/lib.bash"
export VRAMSCOPE_RING_EVENTS=1048576 # some of its programs have more events than the default

played() { # PART, as the driver serves it and as the arena does
    run_shimmed "$tests/prog_arena_world" "$@"
    [ "$status" = 0 ] || fail "$*: status $status"
}
for free in $(! in_full || echo wait) defer; do
    shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ARENA_FREE="$free" SIMCUDA_DEVICES=2 SIMCUDA_CAPACITY=512MiB)
    for part in contexts pools streams short managed late; do played $part; done
    expect_clean # of the last: what a destructor frees is recorded still
    shim_env+=(SIMCUDA_SHUTDOWN=1)
    played gone
done
shim_env=(VRAMSCOPE_ALLOCATOR=arena SIMCUDA_DEVICES=2)
shim_env+=(SIMCUDA_CAPACITY=512MiB)
for part in peers captures exported; do # which ask how virtual memory is mapped: nothing that the driver's own could answer
    shimmed "$tests/prog_arena_mapped" $part
    [ "$status" = 0 ] || fail "$part: status $status"
done
shim_env+=(SIMCUDA_FAIL=cuCtxSynchronize:2=719)
shimmed "$tests/prog_arena_mapped" far
[ "$status" = 0 ] || fail "far: status $status"
shim_env=(VRAMSCOPE_ALLOCATOR=arena SIMCUDA_CAPACITY=512MiB)
played fork
played race
# where the kernel makes no barrier for all threads, each makes its own
membarrier=324
[ "$(uname -m)" = x86_64 ] || membarrier=283
shimmed "$tests/prog_deny" 38 "$membarrier" "$tests/prog_arena_world" race
[ "$status" = 0 ] || [ "$status" = 77 ] || fail "race without membarrier: status $status"
echo "the arena is no hindrance to contexts, pools, threads, processes"
