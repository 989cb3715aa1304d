#!/bin/bash
# What a suspension leaves on the device is said by its holders: NCCL's memory by its library's name, graphs', and contexts and code as the driver counts them.
. "$(dirname "$0")/../lib/lib.bash"
has_arena || skip "this build has no arena"
include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$BUILD/CMakeCache.txt")
"${CC:-cc}" -shared -fPIC -I"${include:-/usr/local/cuda/include}" "$here/nccl_takes.c" -o "$dir/libnccl.so.2" "$BUILD/sim/libcuda.so.1" || fail "nccl_takes.c"
export SIMCUDA_CONTEXT_BYTES=100MiB

# suspended [VARIABLE=VALUE...]: once all that the program took is written
suspended() {
    new_run
    mkfifo "$run/in"
    env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$run" VRAMSCOPE_ALLOCATOR=arena "$@" "$tests/prog_beside" "$dir/libnccl.so.2" <"$run/in" >"$run/out" 2>"$run/err" &
    pid=$!
    exec {in}>"$run/in"
    export VRAMSCOPE_JOURNAL_DIR=$run
    until grep -q ready "$run/out" && [ "$(sqlite3 -batch "$db" "SELECT count(*) FROM event WHERE (op = 'phys_create' AND size_bytes = 6 << 20) OR (op = 'alloc' AND space = 'graph')" 2>/dev/null)" = 2 ]; do
        kill -0 $pid 2>/dev/null || fail "the program ended"
        sleep 0.02
    done
    "$V" suspend $json $pid >"$dir/said" 2>&1 || fail "suspend: $(cat "$dir/said")"
    "$V" resume $pid >"$dir/resumed" 2>&1 || fail "resume: $(cat "$dir/resumed")"
    ! grep -q "^beside" "$dir/resumed" || fail "resume says of what stayed: $(cat "$dir/resumed")"
    exec {in}>&-
    wait $pid || fail "prog_beside: status $?"
}
says() { grep -qxE "$1" "$dir/said" || fail "not '$1' but: $(cat "$dir/said")"; }

json=
suspended
says "0 B of the arena's are left on the device"
says 'beside it 110\.0 MiB: graphs 4\.00 MiB, libnccl\.so\.2 6\.00 MiB, contexts and code 100\.0 MiB'
# without a figure of the driver's for the process, and without call stacks, what is known is said
suspended SIMCUDA_NVML=off
says 'beside it: graphs 4\.00 MiB, libnccl\.so\.2 6\.00 MiB; what contexts and code take is unknown'
suspended VRAMSCOPE_STACKS=off
says 'beside it 110\.0 MiB: graphs 4\.00 MiB, unknown callers 6\.00 MiB, contexts and code 100\.0 MiB'
json=--json
suspended
grep -q "\"beside_bytes\": $((110 << 20))," "$dir/said" || fail "JSON: $(cat "$dir/said")"
echo "what is left has names"
