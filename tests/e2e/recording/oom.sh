#!/bin/bash
# When memory runs out the database has who owned what, after a SIGKILL, too, the report leads with it, and the program's end is its own.
. "$(dirname "$0")/../lib/lib.bash"

mib=$((1 << 20))
shim_env=(SIMCUDA_CAPACITY=1GiB SIMCUDA_NVML=off)
counter() { echo "SELECT ifnull(sum(value), 0) FROM counter WHERE name = '$1'"; }
sums="SELECT count(*) FROM oom o WHERE device >= 0 AND framework_bytes + direct_bytes <>
  (SELECT ifnull(sum(size_bytes), 0) FROM live_at_oom WHERE oom_seq = o.seq)"
says() { # TEXT
    "$BUILD/bin/vramscope" report --all "$db" >"$run/report" 2>&1 || fail "report: $(cat "$run/report")"
    grep -qF -- "$1" "$run/report" || fail "the report does not say '$1': $(head -n 12 "$run/report")"
}
leads() { head -n 1 "$run/report" | grep -q "^OUT OF MEMORY $1" || fail "the report does not lead with it: $(head -n 1 "$run/report")"; }

# ---- what the driver refuses a program that checks its calls ----
for how in alloc create async; do
    run_shimmed "$tests/prog_oom_exit" $how
    [ "$status" = 3 ] || fail "$how: status $status"
    expect_clean
    expect_sql "SELECT role, device, requested_bytes, asked_driver_bytes, refusals, free_bytes FROM oom" \
        "7|0|$((8192 * mib))|$((8192 * mib))|1|$((800 * mib))"
    expect_sql "SELECT count(*), sum(size_bytes), min(size_bytes) FROM live_at_oom" "10|$((160 * mib))|$((16 * mib))"
    expect_sql "SELECT count(DISTINCT stack), min(stack) > 0, min(owner) FROM live_at_oom" "1|1|prog_oom_exit"
    # what is left at the end has the same name
    expect_sql "SELECT (SELECT group_concat(DISTINCT category) FROM leak) = (SELECT group_concat(DISTINCT category) FROM live_at_oom)" 1
    expect_sql "SELECT stack > 0 FROM oom" 1
    expect_sql "$sums" 0
    says "the device could never have held it: it has 1.00 GiB in all"
    leads "on device 0"
done

run_shimmed "$tests/prog_oom_exit" first
[ "$status" = 3 ] || fail "first: status $status"
expect_sql "SELECT requested_bytes, framework_bytes + direct_bytes, free_bytes FROM oom" "$((8192 * mib))|0|$((960 * mib))"
expect_sql "SELECT count(*) FROM live_at_oom" 0
says "the driver had 960.0 MiB free"

shim_env+=(SIMCUDA_FAIL=cuMemHostAlloc:11=2)
run_shimmed "$tests/prog_oom_exit" host
[ "$status" = 3 ] || fail "host: status $status"
expect_sql "SELECT device, pinned_bytes FROM oom" "-1|$((160 * mib))"
expect_sql "SELECT count(*), sum(size_bytes), min(category) FROM live_at_oom" "10|$((160 * mib))|pinned"
expect_sql "SELECT DISTINCT category FROM leak" pinned
says "of space pinned"
leads "of the host"
shim_env[2]=SIMCUDA_FAIL=cuGraphLaunch:11=2
run_shimmed "$tests/prog_oom_exit" graph
[ "$status" = 3 ] || fail "graph: status $status"
expect_sql "SELECT device, requested_bytes, api.name FROM oom JOIN api ON api.id = oom.api" "0|0|cuGraphLaunch"
expect_sql "SELECT count(*), sum(size_bytes), min(category) FROM live_at_oom" "10|$((160 * mib))|direct graph"
expect_sql "$sums" 0
says "asked for memory of space graph: by how much it was short is unknown: the call does not say what it needs"
unset 'shim_env[2]'

# ---- again and again: three are kept, all are counted ----
run_shimmed "$tests/prog_oom_exit" loop
expect_clean
expect_sql "$(counter 'driver_out_of_memory')" 5001
expect_sql "SELECT group_concat(role || ' ' || requested_bytes) FROM (SELECT * FROM oom ORDER BY seq)" \
    "1 $((4096 * mib)),6 $((8192 * mib))"
expect_sql "SELECT oom_seq = (SELECT min(seq) FROM oom), count(*), sum(size_bytes) FROM live_at_oom GROUP BY oom_seq ORDER BY oom_seq" \
    "1|10|$((160 * mib))
0|10|$((160 * mib))"
says "this is the last of 5001 that reached the program"

# ---- a caching allocator ----
caching() { # HOW STATUS
    run_shimmed "$tests/prog_oom_caching" "$1"
    [ "$status" = "$2" ] || fail "$1: status $status"
    expect_clean
    read -r allocated reserved blocks <"$run/out"
    expect_sql "$sums" 0
}
at_oom() { # what lived is what the program had
    expect_sql "SELECT sum(size_bytes), count(*) FROM live_at_oom WHERE category = 'framework block'" "$allocated|$blocks"
    expect_sql "SELECT sum(size_bytes) FROM live_at_oom WHERE category = 'direct'" 12345
    expect_sql "SELECT op, framework_bytes, managed_reserved_bytes FROM oom" "22|$allocated|$reserved"
}
outcome() { # REFUSED ABSORBED REPORTED GAVE_UP
    expect_sql "$(counter 'driver_out_of_memory')" "$1"
    expect_sql "$(counter 'driver_out_of_memory_absorbed')" "$2"
    expect_sql "$(counter 'driver_out_of_memory_reported')" "$3"
    expect_sql "$(counter 'out_of_memory')" "$4"
}

caching absorb 0
outcome 1 1 0 0
expect_sql "SELECT count(*) FROM oom" 0
says "1 refusal by the driver reached no program"
grep -q "^OUT OF MEMORY" "$run/report" && fail "an absorbed refusal leads the report"

caching giveup 1
outcome 2 0 2 1
at_oom
expect_sql "SELECT refusals, asked_driver_bytes, free_bytes FROM oom" "2|$((512 * mib))|$((58 * mib))" # 1024 - 64 - 900 - 2, in granules
says "asked for 512.0 MiB: short by 454.0 MiB"
leads "on device 0"

caching fragmented 1
outcome 2 0 2 1
at_oom
says "asked for 400.0 MiB: short by 342.0 MiB; 897.0 MiB cached in pieces that are too small: fragmentation"
says "897.0 MiB (99.7 %) cached, free for other requests: in 6 pieces, the largest of 235.0 MiB; no segment of it is empty"

caching limit 1
outcome 0 0 0 1
at_oom
says "the framework did not ask the driver: a limit of its own"

# It went on, freed what lived then, and used the memory again.
caching caught 0
outcome 3 1 2 1
at_oom
"$BUILD/bin/vramscope" peak --at oom --bytes "$db" >"$run/peak" || fail "peak --at oom: $(cat "$run/peak")"
grep -q "allocated then *$((allocated + 12345)) " "$run/peak" || fail "peak --at oom: $(cat "$run/peak")"
"$BUILD/bin/vramscope" peak --at oom --json "$db" | python3 -c "
import json, sys
d = json.load(sys.stdin)['files'][0]['devices'][0]
o = d['out_of_memory']
assert d['held_bytes'] == d['allocated_bytes'] == $allocated + 12345 == o['framework_bytes'] + o['direct_bytes'], d
assert o['cause'] == 'short' and o['short_by_bytes'] == (512 - 58) << 20 and o['framework'] is True, o
assert sum(h['size_bytes'] for h in o['held']) == o['held_bytes'], o
" || fail "peak --at oom --json"

# ---- killed right after: recover gives the same ----
whole() { # without numbers and times: samples come in between
    ask "SELECT role, o.op, requested_bytes, refusals, free_bytes, framework_bytes, direct_bytes, managed_reserved_bytes, stored FROM oom o ORDER BY seq"
    ask "SELECT o.role, l.category, l.size_bytes, l.phase FROM live_at_oom l JOIN oom o ON o.seq = l.oom_seq ORDER BY o.seq, l.alloc_seq"
}
for program in "prog_oom_exit alloc" "prog_oom_exit loop" "prog_oom_caching fragmented" "prog_oom_caching caught"; do
    # shellcheck disable=SC2086 # two words
    shimmed "$tests/"$program
    whole >"$dir/undisturbed"
    # shellcheck disable=SC2086
    shimmed "$tests/"$program kill
    [ "$status" = 137 ] || fail "$program kill: status $status"
    recover_run
    whole | diff "$dir/undisturbed" - || fail "$program: recovered is not the same"
done

# ---- run: its status, and a line ----
(cd "$dir" && SIMCUDA_CAPACITY=1GiB "$BUILD/bin/vramscope" run --simulated -o line.db -- "$tests/prog_oom_caching" giveup >line.out 2>line.err)
[ $? = 1 ] || fail "run does not keep the status"
grep -q "^vramscope: out of memory on device 0 .*asked for 512.0 MiB; short by 454.0 MiB: vramscope report line.db" "$dir/line.err" ||
    fail "run says: $(cat "$dir/line.err")"
