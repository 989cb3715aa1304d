#!/bin/bash
# What a report says of growth and of lines, of programs that plant a leak and of programs that only look so (tests/gpu/unseen), on the
# CPU's blocks. On a GPU tests/gpu/unseen.sh runs them all, and judges roles too.
here=$(cd "$(dirname "$0")" && pwd)
python=${TEST_PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null || { echo "SKIPPED: $python has no torch (TEST_PYTHON names one that has)"; exit 77; }
# shellcheck source-path=SCRIPTDIR
. "$here/../lib/lib.bash"
"${CC:-cc}" -O1 -shared -fPIC -o "$dir/cpu_blocks.so" "$here/cpu_blocks.c" || fail "cpu_blocks.c"
programs=(leak_closure leak_exception leak_loss leak_outputs no_leak_warm no_leak_window reinforce)
JOBS=2 CPU_BLOCKS=$dir/cpu_blocks.so TEST_PYTHON=$python "$here/../../gpu/unseen.sh" "$BUILD" "$dir/unseen" "${programs[@]}" >"$dir/said" 2>&1 ||
    fail "$(grep -E 'FAIL|passed' "$dir/said")"
tail -n 1 "$dir/said"
