#!/bin/bash
# SIGKILL at any moment, four threads allocating: after recover every call that had returned is in the file, and at most one more for each thread.
. "$(dirname "$0")/../lib/lib.bash"

# a full ring drops events and counts them: here it must not come to that
shim_env=(SIMCUDA_LATENCY_US=20)
for after in 0 0.03 0.1 0.2 0.3 0.5 0.9; do
    new_run
    env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$run" "${shim_env[@]}" \
        "$tests/prog_threads" "$run/counts" >"$run/out" 2>"$run/err" </dev/null &
    pid=$!
    for ((i = 0; i < 500; i++)); do
        [ ! -s "$run/counts" ] || [ -z "$(head -c 4096 "$run/counts" | tr -d '\0')" ] || break
        sleep 0.02
    done
    sleep $after
    kill -KILL $pid
    wait $pid 2>/dev/null
    # od: 4 x (allocations, frees)
    read -r allocs frees < <(od -An -v -tu8 -w16 -N64 "$run/counts" | awk '{a += $1; f += $2} END {print a, f}')
    [ "$allocs" -gt 0 ] || skip "nothing had run after $after s: the machine is too slow"
    recover_run
    got=$(ask "SELECT (SELECT count(*) FROM event WHERE op = 'alloc') || ' ' || (SELECT count(*) FROM event WHERE op = 'free')")
    [ "${got% *}" -ge "$allocs" ] && [ "${got% *}" -le $((allocs + 4)) ] || fail "after $after s: $allocs allocations, recorded $got"
    # a free is written before its call
    [ "${got#* }" -ge "$frees" ] && [ "${got#* }" -le $((frees + 4)) ] || fail "after $after s: $frees frees, recorded $got"
    expect_sql "PRAGMA integrity_check" ok
    # a thread that is killed between taking its place in the ring and filling it costs that event
    expect_sql "SELECT count(*) FROM loss WHERE events > 0 AND code <> 'dead_slot'" 0
    expect_sql "SELECT ifnull(sum(events), 0) <= 4 FROM loss WHERE code = 'dead_slot'" 1
    expect_sql "SELECT count(*) FROM mismatch" 0
    expect_sql "SELECT max(allocated_bytes) <= 4 * 4096, min(allocated_bytes) >= 0 FROM event" '1|1'
done
