#!/bin/bash
# Step numbers count every call of the program, also those that were not recorded, and never go backwards, whatever threads step.
. "$(dirname "$0")/../lib/lib.bash"

run_shimmed "$tests/prog_steps_threads"
expect_clean
total=$((4 + 4 * 2000))
expect_sql "SELECT count(*), min(step), max(step) FROM step" "$((total - 3))|3|$total"
expect_sql "SELECT count(*) FROM (SELECT step, lag(step) OVER (ORDER BY seq) AS before FROM step) WHERE step <= before" 0
expect_sql "SELECT step FROM range WHERE name = 'the last'" $((total + 1))
