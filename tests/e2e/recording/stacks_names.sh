#!/bin/bash
# Call stacks have the right functions in order, are cut at the depth limit, and come from a moved tree, too; without the private libunwind
# there are none.
. "$(dirname "$0")/../lib/lib.bash"
vramscope=$BUILD/bin/vramscope
[ -x "$vramscope" ] || skip "$vramscope is not built"

# the functions of event SEQ's stack, innermost first
stack_of() {
    ask "WITH RECURSIVE s(n, id) AS (SELECT 0, stack FROM event WHERE seq = (SELECT seq FROM event WHERE size_bytes = $1 AND op = 'alloc' LIMIT 1)
         UNION ALL SELECT n + 1, parent FROM s JOIN stack ON stack.id = s.id WHERE parent > 0)
         SELECT group_concat(ifnull(function, '?'), ' ') FROM (SELECT function FROM s JOIN stack ON stack.id = s.id JOIN frame ON frame.id = stack.frame ORDER BY n)"
}
expect_stack() {
    local got
    got=$(stack_of "$1")
    # shellcheck disable=SC2053 # what is wanted is a pattern
    [[ "$got" == $2 ]] || fail "stack of $1 bytes: '$got', not '$2'"
}

run_shimmed "$tests/prog_stacks" 3
[ ! -s "$run/err" ] || grep -qv '^simcuda' "$run/err" && fail "something was said"
"$vramscope" peak "$db" >/dev/null || fail "peak"
# the function of libc that calls main is in no table of a stripped libc: then it has no name, never a neighbour's
expect_stack 4096 'allocate descend descend descend descend main @(__libc_start_call_main|[?]) __libc_start_main* _start'
expect_stack 8192 'allocate on_a_thread *'
expect_sql "SELECT count(DISTINCT stack) FROM event WHERE op = 'alloc' AND size_bytes = 512" 1
expect_sql "SELECT count(*) FROM event WHERE op = 'free' AND stack > 0" 0
expect_sql "SELECT count(*) FROM module WHERE build_id IS NULL OR path NOT LIKE '/%'" 0
expect_clean

shim_env=(VRAMSCOPE_STACK_DEPTH=16)
shimmed "$tests/prog_stacks" 5000
"$vramscope" peak "$db" >/dev/null || fail "peak"
expect_stack 4096 "allocate$(printf ' descend%.0s' {1..15})"

shim_env=(VRAMSCOPE_STACKS=off)
shimmed "$tests/prog_stacks" 3
expect_sql "SELECT count(*) FROM event WHERE stack > 0" 0
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 102
shim_env=()

# moved, relative, and the program changes its directory before the driver starts
mkdir -p "$dir/moved"
cp -r "$BUILD/lib" "$dir/moved/lib"
new_run
(cd "$dir/moved" && LD_PRELOAD=./lib/libvramscope.so VRAMSCOPE_OUTPUT=$db VRAMSCOPE_JOURNAL_DIR=$run "$tests/prog_stacks" 3 / >"$run/out" 2>"$run/err") ||
    fail "moved tree: status $?"
"$vramscope" peak "$db" >/dev/null || fail "peak"
expect_stack 4096 'allocate descend descend descend descend main *'

rm -r "$dir/moved/lib/vramscope"
new_run
LD_PRELOAD=$dir/moved/lib/libvramscope.so VRAMSCOPE_OUTPUT=$db VRAMSCOPE_JOURNAL_DIR=$run "$tests/prog_stacks" 3 >"$run/out" 2>"$run/err" ||
    fail "without the private libunwind: status $?"
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 102
[ "$(grep -c 'no native call stacks' "$run/err")" = 1 ] || fail "it must be said once that there are no native call stacks"
echo ok
