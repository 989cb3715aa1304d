#!/bin/bash
# VRAMSCOPE_ARENA_VIEWS=off maps nothing twice; VRAMSCOPE_ARENA_KEEP says how much stays idle in a program past its peak.
. "$(dirname "$0")/../lib/lib.bash"

last_reserved="SELECT size_bytes / 1048576 FROM event WHERE op = 'arena_reserved' ORDER BY seq DESC LIMIT 1"

# 24 blocks of 2 MiB, half of them freed, 24 MiB more: with views the idle half serves, without it does not
for views in on off; do
    shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ARENA_VIEWS="$views")
    run_shimmed "$tests/prog_arena" gaps
    [ $views = on ] && most=48 || most=72
    expect_sql "SELECT max(reserved_bytes) / 1048576 FROM event WHERE device = 0" "$most"
    expect_clean
done

# 256 MiB were live; of what idles since, so much stays, beside the granule that is in use
for keep in 32MiB 0; do
    shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ARENA_KEEP="$keep")
    run_shimmed "$tests/prog_arena" idle
    [ $keep = 0 ] && stays=64 || stays=32
    expect_sql "SELECT max(reserved_bytes) / 1048576 FROM event WHERE device = 0" 258
    expect_sql "SELECT abs(($last_reserved) - $stays) <= 2" 1
    expect_clean
done
echo "views and idle memory are as asked for"
