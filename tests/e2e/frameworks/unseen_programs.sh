#!/bin/bash
# Reports tell planted leaks by their line, and none where memory only seems to grow (tests/gpu/unseen), in a dry run.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch
programs=(leak_closure leak_exception leak_loss leak_outputs no_leak_warm no_leak_window)
JOBS=2 PRELOAD=$stand_ins SIMCUDA_DRY=1 LD_LIBRARY_PATH=$BUILD/sim:$BUILD/dry TEST_PYTHON=$python "$here/../../gpu/unseen.sh" "$BUILD" "$dir/unseen" "${programs[@]}" >"$dir/said" 2>&1 ||
    fail "$(grep -E 'FAIL|passed' "$dir/said")"
tail -n 1 "$dir/said"
