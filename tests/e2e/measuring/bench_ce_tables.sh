#!/bin/bash
# bench_ce's figures without a GPU: memory read from a recording is exact to the byte, and a counter that is off is seen;
# rounds, statistics and the table are what the numbers say.
. "$(dirname "$0")/../lib/lib.bash"
command -v python3 >/dev/null || skip "no python3"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here/../../gpu

new_run
timeout 300 "$BUILD/bin/vramscope" run --simulated -o "$db" -- python3 "$here/bench_ce_recorded.py" "$run/notes" >"$run/out" 2>"$run/err" ||
    fail "recording: status $?"
python3 "$here/bench_ce_tables.py" "$run" "$db" "$run/notes" >"$run/out" 2>"$run/err" || fail "tables"
cat "$run/out"
