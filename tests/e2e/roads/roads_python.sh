#!/bin/bash
# Python reaching the driver by ctypes, in itself and in the children of multiprocessing, which print what they print without
# the shim; helpers that never use the driver (resource_tracker, forkserver) leave no file.
. "$(dirname "$0")/../lib/lib.bash"
program=$(cd "$(dirname "$0")/../../gpu/roads" && pwd)/children.py
command -v python3 >/dev/null || skip "no Python here"
memory="op IN ('alloc', 'free', 'free_failed')"

# A child of multiprocessing that was forked leaves by _exit: its journal completes its file.
recover_all() {
    find "$run" -name '*.vsj' -exec "$BUILD/bin/vramscope" recover {} + >"$run/recover" 2>&1 || fail "recover: $(cat "$run/recover")"
}
events_of() { # events_of FILE SIZE
    db=$1
    expect_events "$memory" <<END
alloc|device|cuMemAlloc_v2|$2|0|0
free|device|cuMemFree_v2|$2|0|0
END
    expect_sql "SELECT events, why FROM loss" ''
    expect_sql "SELECT what FROM mismatch" ''
    [ -z "$(find "$run" -name '*.vsj' -o -name '*-wal')" ] || fail "left behind: $(ls "$run")"
}

run_shimmed python3 "$program" ctypes
events_of "$db" 3000
for how in fork spawn forkserver; do
    run_shimmed python3 "$program" $how
    recover_all
    [ "$(databases | wc -l)" = 2 ] || fail "$how: not two files: $(ls "$run")"
    events_of "$run/run.db" 1000
    events_of "$run/run-2.db" 2000
done
run_shimmed python3 "$program" subprocess
events_of "$db" 4000
