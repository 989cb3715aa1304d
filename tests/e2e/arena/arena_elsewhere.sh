#!/bin/bash
# The report says where the arena had nothing to do, and gives no rate per 1000 requests of a program that made four.
. "$(dirname "$0")/../lib/lib.bash"

shim_env=(VRAMSCOPE_ALLOCATOR=arena)
run_shimmed "$tests/prog_maps"
"$BUILD/bin/vramscope" report --all "$db" >"$run/report" || fail "report: $?"
grep -qF "NOTE: prog_maps maps its memory itself (cuMemCreate, 64.00 MiB in all): the arena has nothing to do there" "$run/report" ||
    fail "not said: $(cat "$run/report")"
grep -q '2 allocations (.*), 2 frees$' "$run/report" || fail "the requests: $(cat "$run/report")"
calls=$(ask "SELECT driver_calls FROM arena")
grep -qx "    $calls driver calls for these" "$run/report" || fail "$calls driver calls: $(cat "$run/report")"
grep -q 'per 1000' "$run/report" && fail "a rate of 4 requests: $(cat "$run/report")"

# a program that the arena serves is not told so, and PyTorch's cache is no part of this one
run_shimmed "$tests/prog_arena" gaps
"$BUILD/bin/vramscope" report --all "$db" >"$run/report" || fail "report: $?"
grep -q 'maps its memory itself' "$run/report" && fail "$(cat "$run/report")"
grep -q "PyTorch's own allocator" "$run/report" && fail "$(cat "$run/report")"
echo "the report says where the arena can do nothing"
