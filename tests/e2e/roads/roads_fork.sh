#!/bin/bash
# Children of a recorded process: none writes into its parent's file, however it was made; one that uses CUDA itself gets
# a file of its own.
. "$(dirname "$0")/../lib/lib.bash"

for how in fork vfork clone _Fork; do
    run_shimmed "$tests/prog_fork" $how
    expect_events "op <> 'sample'" <<'END'
alloc|device|cuMemAlloc_v2|4096|0|0
alloc|device|cuMemAlloc_v2|8192|0|0
free|device|cuMemFree_v2|4096|0|0
END
    expect_clean
    [ "$(databases | wc -l)" = 1 ] || fail "$how: a child that recorded nothing left a file: $(ls "$run")"
done

run_shimmed "$tests/prog_fork" early
[ "$(databases | wc -l)" = 2 ] || fail "early: parent and child do not have one file each: $(ls "$run")"
for db in $(databases); do
    expect_events "op <> 'sample'" <<'END'
alloc|device|cuMemAlloc_v2|2222|0|0
free|device|cuMemFree_v2|2222|0|0
alloc|device|cuMemAlloc_v2|3333|0|0
END
    expect_sql "SELECT count(*) FROM process" 1
    expect_clean
done
