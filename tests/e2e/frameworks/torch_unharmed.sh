#!/bin/bash
# A training prints the same, bit by bit, and ends the same under `vramscope run` as without, while its blocks, their lines and layers
# are recorded; and what is taken for granted of this PyTorch is so, as far as the CPU says.
here=$(cd "$(dirname "$0")" && pwd)
python=${TEST_PYTHON:-python3}
"$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' 2>/dev/null ||
    { echo "SKIPPED: $python has no torch (TEST_PYTHON names one that has)"; exit 77; }
# shellcheck source-path=SCRIPTDIR
. "$here/../lib/lib.bash"
"${CC:-cc}" -O1 -shared -fPIC -o "$dir/cpu_blocks.so" "$here/cpu_blocks.c" || fail "cpu_blocks.c"

"$python" "$here/torch_unharmed.py" >"$dir/plain.out" 2>"$dir/plain.err" || fail "without vramscope: $(tail -n 5 "$dir/plain.err")"
new_run
LD_PRELOAD=$dir/cpu_blocks.so timeout 300 "$BUILD/bin/vramscope" run -q --simulated -o "$db" -- "$python" "$here/torch_unharmed.py" >"$run/out" 2>"$run/err"
status=$?
[ "$status" = 0 ] || fail "exit status $status"
cmp -s "$dir/plain.out" "$run/out" || fail "other output: $(diff "$dir/plain.out" "$run/out" | head -n 10)"
expect_sql "SELECT count(*) > 500 FROM event WHERE op = 'block_alloc'" 1
expect_sql "SELECT count(*) > 50 FROM allocation a JOIN stack s ON s.id = a.stack WHERE s.node IS NOT NULL AND a.line LIKE '%torch_unharmed.py:%'" 1
expect_sql "SELECT count(DISTINCT layer) > 5 FROM allocation" 1
expect_sql "SELECT count(*) FROM step" 8
# who reports blocks is cpu_blocks.so, which calls no CUDA events as PyTorch's allocator does
ask "SELECT 'contract ' || name || ' ' || state FROM contract WHERE name <> 'got_rebind' ORDER BY name"
[ "${CONTRACTS:-}" = told ] || expect_sql "SELECT name, detail FROM contract WHERE state <> 'proven' AND name <> 'got_rebind'" ''
echo "a program prints the same"
