#!/bin/bash
# A training prints the same, bit by bit, under `vramscope run`, and what is taken for granted of this PyTorch is so.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch

"$python" "$here/torch_unharmed.py" >"$dir/plain.out" 2>"$dir/plain.err" || fail "without vramscope: $(tail -n 5 "$dir/plain.err")"
recorded "$python" "$here/torch_unharmed.py"
[ "$status" = 0 ] || fail "exit status $status"
cmp -s "$dir/plain.out" "$run/out" || fail "other output: $(diff "$dir/plain.out" "$run/out" | head -n 10)"
expect_sql "SELECT count(*) > 500 FROM event WHERE op = 'block_alloc'" 1
expect_sql "SELECT count(*) > 50 FROM allocation a JOIN stack s ON s.id = a.stack WHERE s.node IS NOT NULL AND a.line LIKE '%torch_unharmed.py:%'" 1
expect_sql "SELECT count(DISTINCT layer) > 5 FROM allocation" 1
expect_sql "SELECT count(*) FROM step" 16
ask "SELECT 'contract ' || name || ' ' || state FROM contract ORDER BY name"
[ "${CONTRACTS:-}" = told ] || expect_sql "SELECT name, detail FROM contract WHERE state <> 'proven'" ''
echo "a program prints the same"
