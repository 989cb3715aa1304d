// link: cuda
/*
 * prog_arena_contexts PART - work of other contexts on an arena's memory.  It needs the shim and the
 * simulated driver, which it tells which context is busy.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "prog.h"

CUresult simcuda_busy(CUcontext context, int busy);
unsigned long simcuda_waits(CUcontext context);
int simcuda_contexts(int device);

#define BLOCK (14 * MIB) /* one may wait, two may not */

static CUcontext primary;

static CUdeviceptr take(void)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, BLOCK));
    return p;
}

static CUcontext peer(void)
{
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 1));
    OK(cuCtxSetCurrent(context));
    OK(cuCtxEnablePeerAccess(primary, 0));
    OK(cuCtxSetCurrent(primary));
    return context;
}

static CUcontext own(void)
{
    CUcontext context;
    OK(cuCtxCreate(&context, NULL, 0, 0));
    OK(cuCtxPopCurrent(&context));
    return context;
}

/* ---- deferred ---- */

static atomic_bool idle, may_end; /* idle: a tenth of a second after it may end, which is said within ten */

static void *become_idle(void *context)
{
    for (int ms = 0; ms < 10000 && !may_end; ms++)
        usleep(1000);
    usleep(100000);
    idle = true;
    OK(simcuda_busy(context, 0));
    return NULL;
}

static pthread_t busy_for_a_while(CUcontext context)
{
    pthread_t t;
    idle = may_end = false;
    OK(simcuda_busy(context, 1));
    CHECK(pthread_create(&t, NULL, become_idle, context) == 0);
    return t;
}

/* Whatever was freed before is complete. */
static void complete_all(void)
{
    CUmemoryPool pool;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolTrimTo(pool, 0));
}

/* One block may be deferred, more are waited for: until whoever may touch them has done. */
static void frees_wait_for(CUcontext other)
{
    CUdeviceptr p[5];
    for (int i = 0; i < 5; i++)
        p[i] = take();
    complete_all();
    pthread_t t = busy_for_a_while(other);
    OK(cuMemFree(p[0]));
    CHECK(!idle);
    may_end = true;
    for (int i = 1; i < 5; i++)
        OK(cuMemFree(p[i]));
    CHECK(idle);
    pthread_join(t, NULL);
}

/* A block that is freed while OTHER is busy. */
static CUdeviceptr freed_under(CUcontext other)
{
    CUdeviceptr p = take();
    complete_all();
    OK(simcuda_busy(other, 1));
    OK(cuMemFree(p));
    return p;
}

/* It is given out again, without anybody waiting for what has ended. */
static void comes_again(CUdeviceptr p)
{
    bool came = false;
    for (int i = 0; i < 40 && !came; i++) {
        CUdeviceptr q[4];
        for (int k = 0; k < 4; k++)
            came = (q[k] = take()) == p || came;
        for (int k = 0; k < 4; k++)
            OK(cuMemFree(q[k]));
    }
    CHECK(came);
}

/* What is freed without waiting waits for a peer that is busy, until that has done or ended. */
static void deferred(void)
{
    CUcontext other = peer();
    frees_wait_for(other);
    CUdeviceptr p = freed_under(other);
    OK(cuDevicePrimaryCtxReset(1)); /* it has no work any more */
    comes_again(p);
}

/* The same of a context of the program's own on the same device. */
static void own_contexts(void)
{
    CUcontext current;
    for (int i = 0; i < 3; i++) {
        CUcontext other = own();
        frees_wait_for(other);
        CUdeviceptr p = freed_under(other);
        OK(cuCtxDestroy(other));
        comes_again(p);
        OK(cuCtxGetCurrent(&current));
        CHECK(current == primary);
    }
}

/* The same of more contexts than a mark can stand for. */
static void many(void)
{
    CUcontext other[12];
    for (int i = 0; i < 12; i++)
        other[i] = own();
    frees_wait_for(other[11]);
    for (int i = 0; i < 12; i++)
        OK(cuCtxDestroy(other[i]));
}

/* A free that waits waits for them, too. */
static void waiting(void)
{
    CUcontext other[] = {peer(), own()};
    for (int i = 0; i < 2; i++) {
        CUdeviceptr p = take();
        pthread_t t = busy_for_a_while(other[i]);
        may_end = true;
        OK(cuMemFree(p));
        CHECK(idle);
        pthread_join(t, NULL);
    }
    OK(cuCtxDestroy(other[1]));
    OK(cuMemFree(take()));
}

/* ---- ends ---- */

static atomic_bool done;

static void *churn(void *unused)
{
    OK(cuCtxSetCurrent(primary));
    while (!done)
        OK(cuMemFree(take()));
    return unused;
}

/* Contexts end while others wait for them. */
static void ending(void)
{
    pthread_t t[3];
    peer();
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&t[i], NULL, churn, NULL) == 0);
    for (int i = 0; i < 200; i++) {
        CUcontext other = own();
        CUdevice device;
        usleep(300);
        OK(cuCtxDestroy(other));
        OK(cuCtxGetDevice(&device));
        if (i % 10 == 0) {
            OK(cuDevicePrimaryCtxReset(1));
            OK(cuDevicePrimaryCtxRetain(&other, 1));
            OK(cuDevicePrimaryCtxRelease(1));
        }
    }
    done = true;
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
}

/* ---- references ---- */

/* No reference to the primary context is left over by PyTorch's allocations. Run with a driver that does not
 * say which context is the primary one, so that there is no arena. */
static void references(void)
{
    void *(*get)(ssize_t, int, CUstream) = dlsym(RTLD_DEFAULT, "vramscope_torch_malloc");
    void (*give)(void *, ssize_t, int, CUstream) = dlsym(RTLD_DEFAULT, "vramscope_torch_free");
    void *p[20];
    CHECK(get && give);
    for (int i = 0; i < 20; i++) {
        OK(cuCtxSetCurrent(NULL));
        p[i] = get(MIB, 1, NULL);
        CHECK(p[i]);
    }
    for (int i = 0; i < 20; i++)
        give(p[i], MIB, 1, NULL);
    CHECK(simcuda_contexts(1) == 1);
    OK(cuDevicePrimaryCtxRelease(1)); /* the one that stays, as the runtime's does */
    CHECK(simcuda_contexts(1) == 0);
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {{"deferred", deferred}, {"own", own_contexts},
                                        {"many", many},         {"waiting", waiting},
                                        {"ending", ending},     {"references", references}};
    begin();
    OK(cuCtxGetCurrent(&primary));
    return play_part(argc, argv, parts, sizeof parts / sizeof *parts);
}
