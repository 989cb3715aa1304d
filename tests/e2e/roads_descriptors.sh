#!/bin/bash
# A host that closes every descriptor and takes their numbers, and one that opens our database with its own SQLite: neither
# finds its own files touched, and the recording is whole.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.bash"

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

ldconfig -p | grep -q 'libsqlite3\.so\.0' || skip "descriptors: there is no libsqlite3.so.0 (the closed descriptors passed)"
# the program must know where our file is, so the two runs cannot share one command line
new_run
database=$dir/$((runs + 1))/run.db
shimmed "$tests/prog_ownsqlite" "$database"
[ "$status" = 0 ] || fail "prog_ownsqlite ended with $status"
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 1500
expect_sql "SELECT count(*) FROM event WHERE op = 'free'" 1500
expect_clean
