#!/bin/bash
# A host's own malloc, preloaded before or after us, gets what it got; nothing comes to it from inside a hook, and one that allocates on the GPU does
# not meet itself.
. "$(dirname "$0")/../lib/lib.bash"
command -v cc >/dev/null || skip "there is no C compiler"

# Counts the calls of the thread that asks, and ends the process when one comes while that thread is inside a driver call of its own.
cat >"$dir/malloc.c" <<'END'
#define _GNU_SOURCE
#include <stddef.h>
#include <unistd.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *);
__thread int inside __attribute__((tls_model("initial-exec")));
__thread long calls __attribute__((tls_model("initial-exec")));
static void came(void)
{
    calls++;
    if (inside && write(2, "malloc inside a hooked call\n", 28))
        _exit(9);
}
void *malloc(size_t n) { came(); return __libc_malloc(n); }
void *calloc(size_t a, size_t b) { came(); return __libc_calloc(a, b); }
void *realloc(void *p, size_t n) { came(); return __libc_realloc(p, n); }
void free(void *p) { if (p) came(); __libc_free(p); }
END
cc -O1 -w -shared -fPIC -o "$dir/malloc.so" "$dir/malloc.c" || fail "the allocator does not compile"
cat >"$dir/host.c" <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
extern __thread int inside __attribute__((weak));
extern __thread long calls __attribute__((weak));
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(unsigned long *, unsigned long), cuMemFree_v2(unsigned long);
static void *context;
static void *pairs(void *n)
{
    unsigned long p;
    cuCtxSetCurrent(context);
    /* The simulated driver allocates for its own books, so the claim is about the difference: none. */
    long before = calls;
    for (long i = 0; i < (long)n; i++)
        cuMemAlloc_v2(&p, 4096), cuMemFree_v2(p);
    return (void *)(calls - before);
}
int main(void)
{
    pthread_t t[4];
    void *made;
    cuInit(0), cuDevicePrimaryCtxRetain(&context, 0);
    pairs((void *)10);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, pairs, (void *)1000L);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], &made), printf("calls %ld\n", (long)made);
    return 0;
}
END
cc -w -o "$dir/host" "$dir/host.c" "$dir/malloc.so" "$BUILD/sim/libcuda.so.1" -lpthread || fail "the program does not compile"
export LD_LIBRARY_PATH=$dir:$LD_LIBRARY_PATH
original=$shim
for stacks in off driver all; do
    for preload in "$dir/malloc.so:$original" "$original:$dir/malloc.so"; do
        LD_PRELOAD=$dir/malloc.so "$dir/host" >"$dir/plain.out" 2>"$dir/plain.err"
        shim=$preload shim_env=("VRAMSCOPE_STACKS=$stacks")
        shimmed "$dir/host"
        shim=$original
        [ "$status" = 0 ] || fail "$stacks: status $status"
        # as many calls of malloc by the host's threads as without us: a hook makes none
        cmp -s "$dir/plain.out" "$run/out" || fail "$stacks: $(diff "$dir/plain.out" "$run/out")"
        expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 4010
        expect_clean
    done
done
for perturb in 1 170 255; do
    shim_env=("MALLOC_PERTURB_=$perturb" MALLOC_CHECK_=3 VRAMSCOPE_STACKS=all)
    run_shimmed "$tests/prog_caching" native 100
    run_shimmed "$tests/prog_threads"
    expect_clean
done
echo "no hook has called malloc"
