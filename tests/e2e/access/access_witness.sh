#!/bin/bash
# What the access ledger calls idle is idle: a second run, in which each block is inaccessible while it is said to be unused, gives the
# same.  Taken one use
# too early, the program dies of it.
. "$(dirname "$0")/../lib/lib.bash"
has_arena || skip "there is no arena in this build"
plan=$(dirname "$0")/../../witness/plan.py
shim=$tests/witness/libvramscope.so
[ -f "$shim" ] || skip "$shim is not built"

witnessed() { # NAME [VARIABLE=VALUE]
    shim_env=(VRAMSCOPE_STACKS=off VRAMSCOPE_ACCESS=on VRAMSCOPE_ALLOCATOR=arena WITNESS_LOG="$dir/$1.log" "${@:2}")
    slowly shimmed "$tests/prog_witness"
}

"$tests/prog_witness" >"$dir/plain" || fail "it ends with $? by itself"
witnessed first
[ "$status" = 0 ] || fail "the first run ended with $status"
cmp -s "$run/out" "$dir/plain" || fail "another output in the first run"
expect_clean
# what is used again within a millisecond has no pause
expect_sql "SELECT count(idle_ns) FROM block_use WHERE alloc_seq IN (SELECT min(alloc_seq) FROM block_use WHERE size_bytes >> 20 IN (4, 14) GROUP BY size_bytes)" 0
expect_sql "SELECT group_concat(size_bytes >> 20, ' ') FROM (SELECT * FROM allocation WHERE space = 'arena' ORDER BY alloc_seq)" '2 4 6 8 4 4 4 4 4 10 12 14 0'
first=$db
python3 "$plan" make "$first" "$dir/first.log" "$dir/plan" >"$dir/says" || fail "no plan: $(cat "$dir/says")"
grep -q '^13 blocks of 76 MiB, .*left alone 0 MiB$' "$dir/says" || fail "$(cat "$dir/says")"
# never used: for good; used late: up to that, and then from its last use on; paused: also in between
expect() { [ "$(grep -c "^$1 " "$dir/plan")" = "$2" ] || fail "block $1: $(grep "^$1 " "$dir/plan"), not $2 spans"; }
grep -q '^1 2097152 0 0$' "$dir/plan" || fail "the block that is never used: $(grep '^1 ' "$dir/plan")"
expect 2 2
expect 4 3
expect 12 2

witnessed second WITNESS_PLAN="$dir/plan"
[ "$status" = 0 ] || fail "the second run ended with $status: what is idle was used"
cmp -s "$run/out" "$dir/plain" || fail "another output in the second run"
python3 "$plan" same "$dir/first.log" "$dir/second.log" || fail "the second run did something else"
# but for the block that is freed in the capture that it was born in: nothing is taken then
grep -q "access taken $(($(wc -l <"$dir/plan") - 1)) times" "$run/err" || fail "not all of $(wc -l <"$dir/plan") spans were taken"

# a driver that takes no PROT_NONE: the memory is unmapped instead
witnessed unmapped WITNESS_PLAN="$dir/plan" SIMCUDA_FAIL=cuMemSetAccess:2=801
grep -q 'by unmapping' "$run/err" || fail "access was not taken by unmapping"
[ "$status" = 0 ] || fail "by unmapping: it ended with $status"
cmp -s "$run/out" "$dir/plain" || fail "by unmapping: another output"

python3 "$plan" make "$first" "$dir/first.log" "$dir/planted" 1 >"$dir/says" || fail "no plan: $(cat "$dir/says")"
witnessed third WITNESS_PLAN="$dir/planted"
[ "$status" = 4 ] || fail "one use too early: the program ended with $status"
grep -q 'refused: 700' "$run/out" || fail "one use too early: '$(cat "$run/out")'"

# a plan for another program is refused
sed 's/^2 [0-9]* /2 2097152 /' "$dir/plan" >"$dir/other"
witnessed fourth WITNESS_PLAN="$dir/other"
[ "$status" = 86 ] || fail "a plan of other blocks: the program ended with $status"
