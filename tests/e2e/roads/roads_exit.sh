#!/bin/bash
# However a process ends, no event is lost, and exit status and output stay its own: in good order the file is complete when it is gone, after a kill
# recover completes it.
. "$(dirname "$0")/../lib/lib.bash"

# counts COUNT: that many allocations of 4096 bytes, every second one freed
counts() {
    expect_sql "SELECT count(*) FROM event WHERE op = 'alloc' AND size_bytes = 4096" "$1"
    expect_sql "SELECT count(*) FROM event WHERE op = 'free'" $(($1 / 2))
    expect_sql "SELECT max(allocated_bytes) FROM event" $(($1 * 2048 + 4096))
}

for how in return exit thread pthread_exit; do
    run_shimmed "$tests/prog_exit" $how 3000
    counts 3000
    expect_clean
done
# destructors and atexit handlers run after ours: their allocations are in the file, or in the journal that is left
run_shimmed "$tests/prog_exit" late 100
[ -z "$(find "$run" -name '*.vsj')" ] || recover_run
expect_sql "SELECT group_concat(size_bytes) FROM (SELECT size_bytes FROM event WHERE op = 'alloc' AND size_bytes > 4096 ORDER BY seq)" 7777,8888

for how in _exit quick_exit abort segv term kill; do
    run_shimmed "$tests/prog_exit" $how 3000 2>/dev/null
    [ -z "$(find "$run" -name '*.vsj')" ] || recover_run
    counts 3000
    expect_sql "PRAGMA integrity_check" ok
    expect_sql "SELECT count(*) FROM loss WHERE events > 0" 0
    [ -z "$(find "$run" -name '*.vsj')" ] || fail "$how: the journal is still there after recover"
done

# a killed process that had no time to write a single row
shim_env=(SIMCUDA_LATENCY_US=0)
run_shimmed "$tests/prog_exit" kill 1 2>/dev/null
recover_run
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 1

# exec: what was recorded before stays whole; a new program under the shim gets a file of its own
run_shimmed "$tests/prog_exit" exec 200
[ -z "$(find "$run" -name '*.vsj')" ] || recover_run
counts 200
run_shimmed "$tests/prog_exit" reexec 200
for journal in "$run"/*.vsj; do
    [ ! -e "$journal" ] || recover_run
done
[ "$(databases | wc -l)" = 2 ] || fail "reexec: not two files: $(ls "$run")"
for db in $(databases); do
    counts 200
done
