#!/bin/bash
# bench_ce reads memory from a recording to the byte, sees a counter that is off, and its tables are what the numbers say.
. "$(dirname "$0")/../lib/lib.bash"
command -v python3 >/dev/null || skip "no python3"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here/../../gpu

new_run
timeout 300 "$BUILD/bin/vramscope" run --simulated -o "$db" -- python3 "$here/bench_ce_recorded.py" "$run/notes" >"$run/out" 2>"$run/err" ||
    fail "recording: status $?"
python3 "$here/bench_ce_tables.py" "$run" "$db" "$run/notes" >"$run/out" 2>"$run/err" || fail "tables"
cat "$run/out"
