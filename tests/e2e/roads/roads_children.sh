#!/bin/bash
# Each child that uses the driver, however it was started, has a file of its own with exactly its events, its parent's file has the parent's, and an
# exec in place leaves a file for each program.
. "$(dirname "$0")/../lib/lib.bash"

worker='alloc|device|cuMemAlloc_v2|1111|0|0
free|device|cuMemFree_v2|1111|0|0'
memory="op IN ('alloc', 'free', 'free_failed')"

for how in vfork posix_spawn system daemon; do
    run_shimmed "$tests/prog_children" $how
    [ "$(databases | wc -l)" = 2 ] || fail "$how: not two files: $(ls "$run")"
    expect_events "$memory" <<'END'
alloc|device|cuMemAlloc_v2|4096|0|0
alloc|device|cuMemAlloc_v2|8192|0|0
free|device|cuMemFree_v2|4096|0|0
END
    expect_sql "SELECT count(*) FROM process" 1
    db=$run/run-2.db
    expect_events "$memory" <<<"$worker"
    expect_clean
done

# The program before an exec did not end in good order: its journal completes its file, which says so.
run_shimmed "$tests/prog_children" exec
[ "$(databases | wc -l)" = 2 ] || fail "exec: not two files: $(ls "$run")"
recover_run
[ -z "$(find "$run" -name '*.vsj')" ] || fail "exec: the journal stayed"
expect_events "$memory" <<<'alloc|device|cuMemAlloc_v2|4096|0|0'
expect_sql "SELECT value FROM meta WHERE key = 'clean_end'" 0
expect_sql "SELECT events, why FROM loss" ''
db=$run/run-2.db
expect_events "$memory" <<<"$worker"
expect_clean

# The same under run, which completes the file by itself.
new_run
"$BUILD/bin/vramscope" run --simulated -q -o "$db" --journal-dir "$run" -- "$tests/prog_children" exec >"$run/out" 2>"$run/err" || fail "run, exec"
[ -z "$(find "$run" -name '*.vsj')" ] || fail "run, exec: a journal stayed"
expect_events "$memory" <<<'alloc|device|cuMemAlloc_v2|4096|0|0'
db=$(databases | grep -v '/run\.db$')
expect_events "$memory" <<<"$worker"
