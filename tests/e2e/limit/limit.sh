#!/bin/bash
# None of eleven roads to device memory passes the limit of `run --limit`, what programs are told of memory has it as the total, and the report says what it refused.
. "$(dirname "$0")/../lib/lib.bash"

new_run
limited() { # LIMIT ROAD MIB [run's options]: prog_limit checks itself
    local limit=$1 road=$2 mib=$3
    shift 3
    db=$run/$road.db
    "$BUILD/bin/vramscope" run -q -f -o "$db" --simulated --limit="$limit" "$@" -- "$tests/prog_limit" "$road" "$mib" >"$run/out" 2>"$run/err" ||
        fail "$road, --limit=$limit $*: $(cat "$run/out" "$run/err")"
}
said() { grep -qF -- "$1" "$run/out" || fail "not '$1' but: $(head -n 20 "$run/out")"; }

for road in alloc large small pitch create create_alone pool own_pool array graph threads; do
    limited 1GiB "$road" 1024
    [ "$road" = small ] || limited 1GiB "$road" 1024 --allocator=arena
done
limited 30MiB context 30
limited 1:100MiB,0:1GiB alloc 1024

# the driver has no figure of this process: what the device has in use beyond others' counts, and stderr says so
for nvml in off nopid; do
    SIMCUDA_NVML=$nvml limited 1GiB alloc 1024
    SIMCUDA_NVML=$nvml limited 1GiB pool 1024
    grep -qF 'limit: the driver has no figure of this process alone' "$run/err" || fail "$nvml is not said: $(cat "$run/err")"
done
SIMCUDA_NVML=crowd limited 1GiB graph 1024
! grep -v simcuda: "$run/err" || fail "said without need"

# NVML has a new context's memory after a moment: it is the context's all the same, and nobody's else (unknown: on a machine where the moment took long)
db=$run/late.db
SIMCUDA_NVML=late SIMCUDA_CONTEXT_BYTES=514MiB "$BUILD/bin/vramscope" run -q -o "$db" --simulated --limit=2GiB -- "$tests/prog_linked" >"$run/out" 2>"$run/err" ||
    fail "prog_linked under a limit"
expect_sql "SELECT ifnull(size_bytes, 514 << 20) FROM event WHERE op = 'context_create'" $((514 << 20))
"$BUILD/bin/vramscope" report --all "$db" >"$run/out"
! grep UNSEEN "$run/out" || fail "the context is told as unseen"

# while nothing is recorded the limit holds as well
limited 1GiB threads 1024 --start-off

# ---- what the report says ----
limited 1GiB alloc 1024
"$BUILD/bin/vramscope" report "$db" >"$run/out"
said 'short by 20.00 MiB, under the limit of 1.00 GiB'
said 'simcuda simulated GPU 0, 4.00 GiB, limited to 1.00 GiB'
"$BUILD/bin/vramscope" report --all "$db" >"$run/out"
said 'the limit refused it to cuMemAlloc_v2; it left 0 B free'
said '=  the limit'
expect_sql "SELECT value FROM meta WHERE key = 'limit'" 1GiB
expect_sql "SELECT total_bytes FROM device" $((4 << 30))
# a device that is full is not the limit's doing
SIMCUDA_CAPACITY=512MiB "$BUILD/bin/vramscope" run -q -f -o "$run/full.db" --simulated --limit=600MiB -- "$tests/prog_limit" large 600 >/dev/null 2>&1
"$BUILD/bin/vramscope" report --all "$run/full.db" >"$run/out"
said 'cuMemAlloc_v2 refused it; the driver had 148.0 MiB free'

# ---- what is no limit ----
for wrong in '' 0 20XiB 0:1GiB,0:2GiB 1GiB,2GiB 64:1GiB 0: :1GiB; do
    "$BUILD/bin/vramscope" run --simulated --limit="$wrong" -- true >"$run/out" 2>&1
    [ $? = 2 ] && [ "$(wc -l <"$run/out")" = 1 ] || fail "--limit='$wrong': $(cat "$run/out")"
done
VRAMSCOPE_LIMIT=20XiB "$BUILD/bin/vramscope" run --simulated -- true 2>"$run/out"
[ $? = 2 ] || fail "VRAMSCOPE_LIMIT=20XiB: $(cat "$run/out")"
