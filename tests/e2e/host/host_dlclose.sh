#!/bin/bash
# dlclose of a library that uses CUDA and of the driver itself, twenty times: each comes back and is recorded, and nothing calls
# into what is gone.  (The driver stays mapped once a hook has found its functions.)
. "$(dirname "$0")/../lib/lib.bash"
command -v cc >/dev/null || skip "there is no C compiler"

cat >"$dir/library.c" <<'END'
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(unsigned long *, unsigned long), cuMemFree_v2(unsigned long);
int pairs(int n)
{
    unsigned long p;
    void *context;
    int done = 0;
    cuInit(0), cuDevicePrimaryCtxRetain(&context, 0), cuCtxSetCurrent(context);
    while (done < n && cuMemAlloc_v2(&p, 4096) == 0 && cuMemFree_v2(p) == 0)
        done++;
    return done;
}
END
cc -shared -fPIC -w -o "$dir/library.so" "$dir/library.c" "$BUILD/sim/libcuda.so.1" || fail "the library does not compile"
for env in VRAMSCOPE_STACKS=driver VRAMSCOPE_STACKS=all VRAMSCOPE_SAMPLE_MS=0 VRAMSCOPE_SAMPLE_MS=1; do
    shim_env=("$env")
    # (not run_shimmed: a driver that comes back anew says on stderr again that it is simulated)
    shimmed "$tests/prog_dlclose" "$dir/library.so"
    [ "$status/$(cat "$run/out")" = 0/done ] || fail "status $status"
    ! grep -q '^vramscope' "$run/err" || fail "$env: a word"
    expect_sql "SELECT size_bytes, count(*) FROM event WHERE op = 'alloc' GROUP BY 1" $'4096|200\n8192|20'
    expect_sql "SELECT count(*) FROM allocation WHERE free_seq IS NULL" 0
    expect_clean
done
echo "closed and back again"
