#!/bin/bash
# A host that closes every descriptor and takes their numbers, and one that opens our database with its own SQLite: neither
# finds its own files touched, and the recording is whole.
. "$(dirname "$0")/../lib/lib.bash"

mkdir "$dir/own"
ulimit -n 1024
# Without samples: NVML shares the host's descriptors, and while it is loaded a number is taken for a moment.
shim_env=(VRAMSCOPE_SAMPLE_MS=0)
run_shimmed "$tests/prog_closefds" "$dir/own"
shim_env=()
[ -z "$(find "$run" -name '*.vsj')" ] || recover_run
expect_sql "PRAGMA integrity_check" ok
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 1100
expect_sql "SELECT count(*) FROM event WHERE op = 'free'" 1100

# Once there is anything in the database, it is open in the drain thread's own table and in nobody else's (Linux 5.9): while it is
# empty, the host's thread may be taking the name, which opens and closes the file.  A tiny limit of the host's on descriptors is
# none for us.
look() { # sets table
    new_run
    table=""
    env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$run" GO="$run/go" "$@" bash -c 'ulimit -n 10; exec "$0"' "$tests/prog_idle" \
        >"$run/out" 2>"$run/err" </dev/null &
    local pid=$! task comm i
    for ((i = 0; i < 3000; i++)); do
        sleep 0.01
        [ -e /proc/$pid/exe ] || break # it has ended
        [ -s "$db" ] || continue
        for task in /proc/$pid/task/*; do
            [ "$(readlink "$task"/fd/* 2>/dev/null | grep -c "^$db")" = 0 ] || ! read -r comm 2>/dev/null <"$task/comm" || table+=" $comm"
        done
        [ -z "$table" ] || : >"$run/go.1"
    done
    [ $i -lt 3000 ] || kill -KILL $pid
    wait $pid || fail "prog_idle with 10 descriptors: status $?: $(cat "$run/err")"
    ! grep -q vramscope "$run/err" || fail "prog_idle with 10 descriptors: a word"
    [ -n "$table" ] || fail "the database was open nowhere"
    [ -z "${table// vramscope/}" ] || fail "the database was open in:$table"
    expect_clean
}
if [ "$(printf '5.9\n%s\n' "$(uname -r)" | sort -V | head -n 1)" = 5.9 ]; then
    look env VRAMSCOPE_SAMPLE_MS=100
    look env VRAMSCOPE_SAMPLE_MS=0
fi

ldconfig -p | grep -q 'libsqlite3\.so\.0' || skip "descriptors: there is no libsqlite3.so.0 (the closed descriptors passed)"
# the program must know where our file is, so the two runs cannot share one command line
new_run
database=$dir/$((runs + 1))/run.db
shimmed "$tests/prog_ownsqlite" "$database"
[ "$status" = 0 ] || fail "prog_ownsqlite ended with $status"
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 1500
expect_sql "SELECT count(*) FROM event WHERE op = 'free'" 1500
expect_clean
