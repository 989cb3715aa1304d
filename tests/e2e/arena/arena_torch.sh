#!/bin/bash
# The functions that PyTorch is given, driven as PyTorch does; the record says to the byte what torch's own counter would.
. "$(dirname "$0")/../lib/lib.bash"

# in_arena PROGRAM [PART]: it prints peak, live, blocks, frees
in_arena() {
    local what="$*"
    shim_env=(VRAMSCOPE_ALLOCATOR=arena SIMCUDA_CAPACITY=1GiB)
    shimmed "$tests/$1" "${@:2}"
    [ "$status" = 0 ] || fail "$what: exit status $status"
    read -r peak live blocks frees <"$run/out"
    expect_sql "SELECT sum(op = 'block_alloc'), sum(op = 'block_free') FROM event" "$blocks|$frees"
    [ "${2:-}" = oom ] || expect_sql "SELECT max(framework_bytes) FROM event WHERE device = 0" "$peak"
    expect_sql "SELECT framework_bytes, reserved_bytes > 0 OR framework_bytes = 0 FROM event WHERE op = 'block_free' ORDER BY seq DESC LIMIT 1" "$live|1"
    expect_sql "SELECT count(*) FROM event WHERE op IN ('block_alloc', 'block_free') AND (space <> 'arena' OR device <> 0)" 0
    expect_sql "SELECT count(*) FROM event WHERE op = 'block_alloc' AND (size_bytes % 512 OR address % 512)" 0
    expect_sql "$unknown_frees" 0
}

in_arena prog_arena_torch streams
expect_sql "SELECT count(DISTINCT stream), min(stream) FROM event WHERE op = 'block_alloc'" '4|0'
expect_sql "SELECT count(*) FROM event WHERE allocated_bytes > reserved_bytes" 0
expect_clean
in_arena prog_arena_torch threads
expect_sql "SELECT count(DISTINCT thread) FROM event WHERE op = 'block_alloc'" 4
expect_clean
in_arena prog_arena_torch_pools
expect_clean
in_arena prog_arena_torch fork
expect_clean
[ "$(databases | wc -l)" = 1 ] || fail "the child recorded"
shim_env=(VRAMSCOPE_ALLOCATOR=arena SIMCUDA_DEVICES=2)
shimmed "$tests/prog_arena_torch" devices
[ "$status" = 0 ] || fail "devices: exit status $status"
expect_sql "SELECT device, count(*), max(framework_bytes) FROM event WHERE op = 'block_alloc' GROUP BY device" $'0|102|6291456\n1|1|3145728'
expect_sql "SELECT framework_bytes FROM event WHERE op = 'block_free' ORDER BY seq DESC LIMIT 1" 0
in_arena prog_arena_torch first
expect_clean
in_arena prog_arena_torch oom
expect_sql "SELECT op, status FROM event WHERE op = 'oom' OR status = 2 ORDER BY seq" $'alloc|2\noom|0\noom|0' # the second is a limit that torch was given
grep -q 'no PyTorch here' "$run/err" || fail "nothing was said"

# cudaFree waits for nothing here: what was freed is reused when an event that stands for the whole context is reached, and some
# 16 MiB wait for that; where the driver has no such event, the device is waited for now and then
for fault in '' "cuCtxRecordEvent:*=801"; do
    shim_env=(VRAMSCOPE_ALLOCATOR=arena PYTORCH_NO_CUDA_MEMORY_CACHING=1 SIMCUDA_FAIL="$fault")
    shimmed "$tests/prog_arena_torch" uncached
    [ "$status" = 0 ] || fail "uncached: exit status $status"
    expect_sql "SELECT mallocs, free_waits, settles > 0, order_calls > 0, peak_reserved_bytes <= (8 * 8 + 20 + 16) * 1048576 FROM arena" \
        "2000|0|$([ -z "$fault" ] && echo 0 || echo 1)|1|1"
    expect_sql "SELECT allocated_bytes FROM event WHERE device = 0 AND op = 'free' ORDER BY seq DESC LIMIT 1" 0
    expect_clean
done

# without the option they are the driver's memory, and count just the same
shim_env=(SIMCUDA_CAPACITY=1GiB)
shimmed "$tests/prog_arena_torch" plain
[ "$status" = 0 ] || fail "plain: exit status $status"
expect_sql "SELECT sum(op = 'alloc' AND space = 'device'), sum(op = 'block_alloc'), sum(op = 'arena_reserved' OR op = 'pool_reserved') FROM event" '2|2|0'
expect_sql "SELECT max(framework_bytes), max(allocated_bytes) FROM event WHERE device = 0" '5243392|5243392'
echo "torch is served"
