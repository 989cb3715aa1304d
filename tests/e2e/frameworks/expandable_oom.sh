#!/bin/bash
# Of segments that expand each piece is managed from birth, and an out-of-memory adds up to the device: with the allocator in libc10_cuda.so
# and linked
# into the program.
. "$(dirname "$0")/../lib/lib.bash"
include=$(sed -n 's/^CUDA_INCLUDE_DIR:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
mib=$((1 << 20))
build() { "${CC:-cc}" -std=gnu11 -O2 -I"$include" -I"$here/../lib" "$@" "$BUILD/sim/libcuda.so.1" || fail "the program can't be built"; }
mkdir "$dir/lib"
build -DALLOCATOR -shared -fPIC -o "$dir/lib/libc10_cuda.so" "$here/expandable_fake.c"
build -DMAIN -o "$dir/shared" "$here/expandable_fake.c" -L"$dir/lib" -Wl,-rpath,"$dir/lib" -l:libc10_cuda.so
build -DALLOCATOR -DMAIN -o "$dir/static" "$here/expandable_fake.c"

# the program's own counters are the recording's, and at no event is anything direct but what was asked for directly
agrees() {
    [ "$status" = 0 ] || fail "status $status"
    read -r max_allocated reserved direct <"$run/out"
    expect_clean
    expect_sql "SELECT peak_bytes FROM peak WHERE kind = 'allocated'" $((max_allocated + direct))
    expect_sql "SELECT peak_bytes, end_bytes FROM peak WHERE kind = 'direct'" "$direct|$direct"
    expect_sql "SELECT end_bytes FROM peak WHERE kind = 'managed_reserved'" "$reserved"
    expect_sql "SELECT max(direct_bytes) FROM event" "$direct"
    expect_sql "SELECT count(*) FROM event WHERE op = 'reclassify'" 0
}
count() { echo "SELECT ifnull(sum(value), 0) FROM counter WHERE name = 'driver_out_of_memory$1'"; }
report() { "$BUILD/bin/vramscope" report --all "$db" >"$run/report" 2>&1 || fail "report: $(cat "$run/report")"; }
says() { grep -qE -- "$1" "$run/report" || fail "the report does not say '$1': $(head -n 24 "$run/report")"; }

for program in shared static; do
    for stacks in $(! in_full || echo off driver) $([ $program = shared ] && echo driver || echo off); do
        shim_env=(SIMCUDA_CAPACITY=1GiB VRAMSCOPE_STACKS="$stacks")
        seen "SELECT count(*) > 0 FROM sample WHERE source = 'nvml_process'" -- slowly run_shimmed "$dir/$program" oom
        agrees
        # 958 MiB are free beside the context and the direct allocation: 46 pieces lie under the blocks, one more is got
        expect_sql "SELECT requested_bytes, asked_driver_bytes, refusals, free_bytes, managed_reserved_bytes FROM oom" \
            "$((100 * mib))|$((20 * mib))|2|$((18 * mib))|$reserved"
        expect_sql "SELECT free_reserved_bytes - reserved_bytes FROM oom" $((20 * mib))
        expect_sql "SELECT total_bytes - free_bytes - process_used_bytes, process_used_bytes - free_reserved_bytes >> 20
                    FROM oom JOIN device ON id = oom.device" "0|65"
        expect_sql "$(count '_absorbed')" 0
        report
        says 'asked for 100.0 MiB: short by 62.00 MiB'
        says 'it had given 20.00 MiB for the request, and had 18.00 MiB free'
        says '\+  got for the request, and given back +20.00 MiB'
        says '\+  other processes, and what the driver keeps +0 B'
        says '=  the device +1.00 GiB'

        slowly run_shimmed "$dir/$program" retry
        agrees
        expect_sql "SELECT count(*) FROM oom" 0
        expect_sql "$(count '')" 1
        expect_sql "$(count '_absorbed')" 1

        SLOW_CLOCK=20 slowly run_shimmed "$dir/$program" grow # longer than the 50 ms of its time that a piece waits to be heard of
        agrees
    done
done

# where the process's own figure can't be had there is one row for both
shim_env=(SIMCUDA_CAPACITY=1GiB SIMCUDA_NVML=off)
run_shimmed "$dir/shared" oom
agrees
report
says '\+  residual and other processes +65.9[0-9] MiB'
says '=  the device +1.00 GiB'
echo "what a growing segment gets is its own"
