#!/bin/bash
# Under the arena every byte counts once, whoever gives the blocks.  No event has more allocated than reserved; what is reserved is what the device
# gave.  After a kill too.
. "$(dirname "$0")/../lib/lib.bash"
shim_env=(VRAMSCOPE_ALLOCATOR=arena)

# What holds of every recording; LATEST: the last event of device 0 that has totals
holds() {
    expect_sql "SELECT count(*) FROM event WHERE device >= 0 AND allocated_bytes > reserved_bytes" 0
    # what a block needs was told before it: no block moves what is reserved
    expect_sql "SELECT count(*) FROM (SELECT op, space, reserved_bytes <> lag(reserved_bytes) OVER (PARTITION BY device ORDER BY seq) AS moved FROM event)
        WHERE moved AND ((op IN ('alloc', 'free', 'free_failed') AND space = 'arena') OR op IN ('block_alloc', 'block_free'))" 0
    expect_sql "SELECT count(*) FROM event WHERE device >= 0 AND (framework_bytes < 0 OR direct_bytes < 0)" 0
    expect_sql "SELECT count(*) FROM event WHERE op = 'reclassify'" 0
    expect_sql "SELECT group_concat(what || ' ' || ours_bytes || ' ' || theirs_bytes) FROM mismatch" ""
    expect_sql "SELECT count(*) FROM loss WHERE events > 0" 0
    expect_sql "SELECT sum(size_bytes) - (SELECT peak_bytes FROM peak WHERE kind = 'allocated') FROM live_at_peak" 0
    # the arena's own figures say the same as the events
    expect_sql "SELECT count(*) FROM arena WHERE reserved_bytes <> granule_bytes * (created - released - lost)" 0
    expect_sql "SELECT count(*) FROM arena WHERE peak_allocated_bytes > peak_reserved_bytes OR at_peak_reserved_bytes < peak_allocated_bytes OR idle_bytes > reserved_bytes" 0
}
ended() { # in good order: figures of the very end
    expect_sql "SELECT a.reserved_bytes - p.end_bytes FROM arena a, peak p WHERE p.kind = 'reserved' AND p.device = a.device" "${1:-0}"
    expect_sql "SELECT a.mallocs - (SELECT count(*) FROM event WHERE op = 'alloc' AND status = 0 AND space = 'arena') FROM arena a" 0
    # the driver's own figure: what is reserved, and the context
    expect_sql "SELECT driver_used_bytes - reserved_bytes FROM sample WHERE device = 0 ORDER BY t_ns DESC LIMIT 1" 67108864
}

# a plain program: 24 blocks of 2 MiB, 12 of them freed, one of 24 MiB in their place; all freed, nothing given back
slowly run_shimmed "$tests/prog_arena" gaps
holds
ended
expect_sql "SELECT group_concat(DISTINCT category) FROM live_at_peak" direct
expect_sql "SELECT group_concat(kind || ' ' || (peak_bytes >> 20) || ' ' || (end_bytes >> 20)) FROM (SELECT * FROM peak WHERE device = 0 ORDER BY kind)" \
    'allocated 48 0,direct 48 0,framework 0 0,managed_reserved 0 0,reserved 48 48,unknown_use 0 0'
expect_sql "SELECT number, mallocs, frees, created, aliased, released, reserved_bytes / 1048576, idle_bytes / 1048576, at_peak_idle_bytes, free_waits FROM arena" \
    '1|25|25|24|12|0|48|48|0|25'

# a training program allocates the same at each of its steps, whoever serves it
for who in off arena; do
    shim_env=(VRAMSCOPE_ALLOCATOR="$who")
    shimmed "$BUILD/bin/train_lm" --steps 3 --batch 32 "$(dirname "$0")/../../../LICENSE"
    ask "SELECT op, size_bytes, phase, direct_bytes, status FROM event WHERE op IN ('alloc', 'free') AND device >= 0 ORDER BY seq" >"$dir/$who"
done
cmp "$dir/off" "$dir/arena" || fail "another run of allocated bytes under the arena: $(diff "$dir/off" "$dir/arena" | head -n 5)"
[ -s "$dir/off" ] || fail "the training program allocated nothing"
holds

# a device run full; several threads; pitched ones
shim_env=(VRAMSCOPE_ALLOCATOR=arena SIMCUDA_CAPACITY=1GiB)
slowly run_shimmed "$tests/prog_arena"
holds
ended
for free in wait defer; do
    shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ARENA_FREE="$free")
    run_shimmed "$tests/prog_threads"
    holds
    run_shimmed "$tests/prog_arena_async"
    holds
    expect_sql "SELECT lanes > 1, order_calls > 0, aliased > 0 FROM arena" '1|1|1'
done

# a primary context's end ends its arena; the next one is another, with figures of its own
shim_env=(VRAMSCOPE_ALLOCATOR=arena)
run_shimmed "$tests/prog_idle" reset again
holds
expect_sql "SELECT group_concat(size_bytes >> 20) FROM (SELECT size_bytes FROM event WHERE op = 'arena_reserved' ORDER BY seq)" 8,0,4
expect_sql "SELECT group_concat(number || ' ' || mallocs || ' ' || created || ' ' || (allocated_bytes >> 20)) FROM arena" '1 1 4 8,2 1 2 4'
expect_sql "SELECT group_concat(op || ' ' || (reserved_bytes >> 20)) FROM event WHERE space = 'arena' AND device = 0" \
    'arena_reserved 8,alloc 8,context_freed 8,arena_reserved 0,arena_reserved 4,alloc 4'

# a caching allocator: its segments are reserved, its blocks allocated, neither twice
agrees() { # of prog_caching
    read -r allocations frees allocated max_allocated reserved max_reserved direct <"$run/out"
    expect_sql "SELECT count(*) FROM event WHERE op = 'block_alloc'" "$allocations"
    expect_sql "SELECT count(*) FROM event WHERE op = 'block_free' AND mate > 0" "$frees"
    expect_sql "SELECT end_bytes, peak_bytes FROM peak WHERE kind = 'framework'" "$allocated|$max_allocated"
    expect_sql "SELECT end_bytes, peak_bytes FROM peak WHERE kind = 'managed_reserved'" "$reserved|$max_reserved"
    expect_sql "SELECT end_bytes FROM peak WHERE kind = 'direct'" "$direct"
    expect_sql "SELECT sum(size_bytes) FROM leak WHERE category = 'framework block'" "$allocated"
}
slowly shimmed "$tests/prog_caching" native 20000
agrees
holds
ended
expect_sql "SELECT p.peak_bytes - a.peak_reserved_bytes FROM peak p, arena a WHERE p.kind = 'reserved'" 0
expect_clean
slowly shimmed "$tests/prog_caching" expandable 20000 # its segments are its own; the arena has the library's blocks alone
agrees
holds
ended -"$reserved"
expect_clean
killed() { # MODE BLOCKS HOW
    if [ "$3" = wait ]; then
        killed_when_written "$tests/prog_caching" "$@"
    else
        shimmed "$tests/prog_caching" "$@"
    fi
    [ "$status" = 137 ] || fail "status $status"
    recover_run
}
kills=("300 kill" "20000 wait")
! in_full || kills+=("20000 kill" "300 wait")
for kill in "${kills[@]}"; do
    # shellcheck disable=SC2086 # two words
    slowly killed native $kill
    agrees
    holds
done

# where its memory runs out, the same is told as where the driver serves: what it lived with, and what it gave up on
for how in absorb giveup fragmented limit caught; do
    for who in off arena; do
        shim_env=(VRAMSCOPE_ALLOCATOR="$who" SIMCUDA_CAPACITY=1GiB)
        run_shimmed "$tests/prog_oom_caching" $how
        ask "SELECT name, value FROM counter WHERE name LIKE '%out_of_memory%' ORDER BY name" >"$dir/$who"
        ask "SELECT op, role, requested_bytes, refusals, framework_bytes, direct_bytes, managed_reserved_bytes FROM oom ORDER BY role" >>"$dir/$who"
    done
    [ -s "$dir/off" ] || fail "$how: nothing ran out"
    cmp "$dir/off" "$dir/arena" || fail "$how under the arena: $(diff "$dir/off" "$dir/arena")"
    holds
done
shim_env=(VRAMSCOPE_ALLOCATOR=arena)

# no cache: the driver's allocations are the blocks.  Reported as well (told), they are a framework's
for how in '' kill; do
    for mode in silent told; do
        shimmed "$tests/prog_uncached" $mode 3000 $how
        [ -z "$how" ] || recover_run
        read -r allocations frees allocated max_allocated <"$run/out"
        holds
        whose=$([ $mode = told ] && echo framework || echo direct)
        other=$([ $mode = told ] && echo direct || echo framework)
        expect_sql "SELECT group_concat(kind || ' ' || peak_bytes || ' ' || end_bytes) FROM (SELECT * FROM peak WHERE kind IN ('allocated', '$whose') ORDER BY kind)" \
            "allocated $max_allocated $allocated,$whose $max_allocated $allocated"
        expect_sql "SELECT peak_bytes FROM peak WHERE kind = '$other'" 0
        expect_sql "SELECT count(*) FROM event WHERE op = 'alloc' AND space = 'arena'" "$allocations"
        expect_sql "SELECT count(*) FROM event WHERE op = 'free' AND space = 'arena' AND mate > 0" "$frees"
        # before a kill a sample was due after a 32nd part of the requests, and a thread that looked for it after another one of its own
        [ -z "$how" ] || expect_sql "SELECT requests > ($allocations + $frees) * 15 / 16 - 20, requests <= $allocations + $frees FROM arena" '1|1'
    done
done
# PyTorch's allocator is the arena: blocks of a framework, no allocation of the driver's beside them
for what in "torch streams" "torch threads" torch_pools; do
    shim_env=(VRAMSCOPE_ALLOCATOR=arena SIMCUDA_CAPACITY=1GiB)
    # shellcheck disable=SC2086
    shimmed "$tests"/prog_arena_$what
    [ "$status" = 0 ] || fail "$what: status $status"
    read -r peak alive blocks frees <"$run/out"
    holds
    expect_sql "SELECT group_concat(kind || ' ' || peak_bytes || ' ' || end_bytes) FROM (SELECT * FROM peak WHERE device = 0 AND kind <> 'reserved' ORDER BY kind)" \
        "allocated $peak $alive,direct 0 0,framework $peak $alive,managed_reserved 0 0,unknown_use 0 0"
    expect_sql "SELECT mallocs, frees, peak_allocated_bytes, allocated_bytes FROM arena" "$blocks|$frees|$peak|$alive"
    expect_sql "SELECT a.reserved_bytes - p.end_bytes, a.peak_reserved_bytes - p.peak_bytes FROM arena a, peak p WHERE p.kind = 'reserved'" '0|0'
    expect_sql "SELECT count(*) > 10 FROM arena_sample" 1
    expect_clean
done
echo "every byte once"
