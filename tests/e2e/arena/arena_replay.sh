#!/bin/bash
# A recording under the arena, replayed: the arena's own code over counters makes the same granules and views, to the byte.
. "$(dirname "$0")/../lib/lib.bash"
[ -x "$tests/bench_arena_replay" ] || skip "bench_arena_replay is not built"
command -v python3 >/dev/null || skip "no python3"

figures="SELECT 'reserved ' || peak_reserved_bytes || ' B created ' || created || ' aliased ' || aliased || ' views ' || views FROM arena"
# replayed OPTION... : of $db; sets $told
replayed() {
    python3 "$here/../../bench/bench_arena_trace.py" "$db" >"$run/trace" 2>"$run/err" || fail "no trace of the recording"
    told=$("$tests/bench_arena_replay" "capacity=$((1 << 30))" "$@" "$run/trace") || fail "the replay failed: $?"
}
# same ROAD FREE OPTION...: recorded and replayed
same() {
    local road=$1 live
    shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ARENA_FREE="$2" SIMCUDA_CAPACITY=1GiB)
    shift 2
    shimmed "$tests/prog_arena_loop" "$road"
    [ "$status" = 0 ] || fail "$road: exit status $status"
    live=$(ask "$figures")
    replayed "$@"
    told=$(sed -E 's/.*(reserved [0-9]+ B created [0-9]+ aliased [0-9]+) .* views +([0-9]+) .*/\1 views \2/' <<<"$told")
    [ "$told" = "$live" ] || fail "$road $*: live $live, replayed $told"
    echo "ok $road $*: $told"
}
same direct wait
expect_sql "SELECT frees > 0 AND free_waits = frees FROM arena" 1
same direct defer defer=1
expect_sql "SELECT frees > 0 AND free_waits = 0 FROM arena" 1
same streams wait
expect_sql "SELECT lanes > 2 FROM arena" 1
same torch wait
expect_sql "SELECT aliased > 0 FROM arena" 1 # there is more to decide than where a heap ends

# a replay that could not be the same is refused, and says why
shim_env=(VRAMSCOPE_ALLOCATOR=arena SIMCUDA_CAPACITY=128MiB)
shimmed "$tests/prog_arena_loop" torch
python3 "$here/../../bench/bench_arena_trace.py" "$db" >"$run/trace" 2>"$run/err" && fail "memory ran out, and it was replayed"
grep -q 'memory ran out in it' "$run/err" || fail "not said why"
