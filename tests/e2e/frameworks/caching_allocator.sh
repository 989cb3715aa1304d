#!/bin/bash
# A caching allocator's own counters and the database agree to the byte, after a clean end and after a kill.
. "$(dirname "$0")/../lib/lib.bash"

agrees() {
    read -r allocations frees allocated max_allocated reserved max_reserved direct <"$run/out"
    expect_sql "SELECT count(*) FROM event WHERE op = 'block_alloc'" "$allocations"
    expect_sql "SELECT count(*) FROM event WHERE op = 'block_free' AND mate > 0" "$frees"
    expect_sql "SELECT end_bytes, peak_bytes FROM peak WHERE kind = 'framework'" "$allocated|$max_allocated"
    expect_sql "SELECT end_bytes, peak_bytes FROM peak WHERE kind = 'managed_reserved'" "$reserved|$max_reserved"
    expect_sql "SELECT end_bytes FROM peak WHERE kind = 'direct'" "$direct"
    expect_sql "SELECT group_concat(what || ' ' || ours_bytes || ' ' || theirs_bytes) FROM mismatch" ""
    expect_sql "SELECT count(*) FROM loss WHERE events > 0" 0
    expect_sql "SELECT count(*) FROM event WHERE op = 'reclassify'" 0
    # from birth: between a segment's allocation and its first block the direct total does not move
    expect_sql "SELECT count(*) FROM event WHERE direct_bytes % 12345 <> 0" 0
}

killed() { # MODE BLOCKS HOW
    if [ "$3" = wait ]; then
        killed_when_written "$tests/prog_caching" "$@"
    else
        shimmed "$tests/prog_caching" "$@"
    fi
    [ "$status" = 137 ] || fail "$*: status $status"
    recover_run
}

for mode in native expandable; do
    slowly shimmed "$tests/prog_caching" $mode 20000
    [ "$status" = 0 ] || fail "$mode: status $status"
    agrees
    expect_clean
    for how in kill wait; do
        for blocks in 300 20000; do
            slowly killed $mode $blocks $how
            agrees
        done
    done
done
