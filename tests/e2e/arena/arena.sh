#!/bin/bash
# VRAMSCOPE_ALLOCATOR=arena: the program's memory comes from the arena, the program does not notice, the record tells it.
. "$(dirname "$0")/../lib/lib.bash"

# the same program, served by the driver and by the arena, waiting for the device at a free or not
for free in wait defer; do
    shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ARENA_FREE="$free" SIMCUDA_CAPACITY=1GiB)
    [ $free = wait ] || program=gaps
    run_shimmed "$tests/prog_arena" ${program:+"$program"}
    expect_sql "SELECT count(*) FROM event WHERE op = 'alloc' AND status = 0 AND space <> 'arena'" 0
    expect_sql "SELECT count(*) > 0 FROM event WHERE op = 'arena_reserved'" 1
    expect_sql "$unknown_frees" 0 # the driver refused them
    expect_clean
done

# 24 blocks of 2 MiB, half of them freed, 24 MiB more: the idle half is mapped again, nothing is reserved for it
shim_env=(VRAMSCOPE_ALLOCATOR=arena)
run_shimmed "$tests/prog_arena" gaps
expect_sql "SELECT max(reserved_bytes) / 1048576 FROM event WHERE device = 0" 48
expect_sql "SELECT max(allocated_bytes) / 1048576 FROM event WHERE device = 0" 48
expect_sql "SELECT allocated_bytes FROM event WHERE device = 0 AND op = 'free' ORDER BY seq DESC LIMIT 1" 0
shim_env=()
run_shimmed "$tests/prog_arena" gaps
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc' AND status = 0 AND space = 'device'" 25

# stream-ordered memory: the same words, and none of it the driver's pool's
for free in wait defer; do
    shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ARENA_FREE="$free" SIMCUDA_CAPACITY=256MiB)
    run_shimmed "$tests/prog_arena_async"
    # the driver serves cuMemAlloc while a graph is captured
    expect_sql "SELECT count(*), sum(size_bytes) / 1048576 FROM event WHERE op = 'alloc' AND status = 0 AND space NOT IN ('arena', 'pinned')" '1|6'
    expect_sql "SELECT count(DISTINCT address) FROM event WHERE op = 'pool_reserved' AND size_bytes > 0" 0
    expect_sql "SELECT allocated_bytes FROM event WHERE device = 0 AND op = 'free' ORDER BY seq DESC LIMIT 1" 0
    expect_clean
done

# what the arena is refused the driver is asked for, and its error is the program's
shim_env=(VRAMSCOPE_ALLOCATOR=arena 'SIMCUDA_FAIL=cuMemCreate:*=1')
shimmed "$tests/prog_arena" gaps
[ "$status" = 0 ] || fail "status $status where the driver itself had memory"
shim_env=(VRAMSCOPE_ALLOCATOR=arena 'SIMCUDA_FAIL=cuMemCreate:*=1,cuMemAlloc_v2:*=719')
shimmed "$tests/prog_arena" gaps
[ "$status" = 3 ] || fail "status $status where all memory was refused"
grep -q 'gave 719' "$run/err" || fail "the driver's error did not reach the program"

# other programs of the tests are served as well
for program in prog_threads prog_linked prog_steps prog_caching "prog_memory async" "prog_memory host" "prog_graphs capture" prog_graphs prog_vmm prog_devices prog_arrays prog_contexts "prog_idle reset" prog_ipc prog_faults_memory; do
    shim_env=(VRAMSCOPE_ALLOCATOR=arena)
    # shellcheck disable=SC2086 # words
    run_shimmed "$tests/"$program
done
echo "the arena serves"
