// link: cuda
/*
 * prog_arena_hang PART - while one thread waits for the device in the arena, others get on: the device may be
 * waiting for one of them (cuLaunchHostFunc).  Under the shim and the simulated driver only.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "arena/torch/abi.h"
#include "prog.h"

CUresult simcuda_busy(CUcontext context, int busy);
unsigned long simcuda_waits(CUcontext context);

#define FUNCTIONS(X)                                                                                         \
    X(malloc)                                                                                                \
    X(free)                                                                                                  \
    X(reset)                                                                                                 \
    X(begin_allocate_to_pool)                                                                                \
    X(end_allocate_to_pool)                                                                                  \
    X(release_pool)                                                                                          \
    X(pool_uses)
#define X(name) static __typeof__(&vramscope_torch_##name) torch_##name;
FUNCTIONS(X)
#undef X

static CUcontext primary;
static atomic_bool through, begun;

static void find_functions(void)
{
#define X(name)                                                                                              \
    CHECK((torch_##name = (__typeof__(torch_##name))dlsym(RTLD_DEFAULT, "vramscope_torch_" #name)));
    FUNCTIONS(X)
#undef X
}

/* Runs WHAT in another thread until it waits for the device, which is busy. */
static pthread_t until_it_waits(void *(*what)(void *))
{
    pthread_t t;
    through = false;
    OK(simcuda_busy(primary, 1));
    unsigned long waits = simcuda_waits(primary);
    CHECK(pthread_create(&t, NULL, what, NULL) == 0);
    while (simcuda_waits(primary) == waits)
        usleep(1000);
    return t;
}

/* What the thread waits for is done, now that this one got on. */
static void let_go(pthread_t t)
{
    CHECK(!through);
    OK(simcuda_busy(primary, 0));
    pthread_join(t, NULL);
    CHECK(through);
}

/* ---- pools ---- */

static void use_pool(struct vs_mempool id)
{
    struct vs_function all = {.manage = NULL};
    torch_begin_allocate_to_pool(0, id, &all);
    void *p = torch_malloc(4 * MIB, 0, NULL);
    torch_end_allocate_to_pool(0, id);
    CHECK(p);
    torch_free(p, 4 * MIB, 0, NULL);
}

static void *empty_cache(void *unused)
{
    OK(cuCtxSetCurrent(primary));
    torch_reset();
    through = true;
    return unused;
}

/* PyTorch's empty_cache ends a pool; pools are used, begun and ended meanwhile. */
static void pools(void)
{
    struct vs_mempool one = {0, 1}, other = {0, 2};
    use_pool(one);
    use_pool(other);
    torch_release_pool(0, one); /* its last owner: it ends when the device is waited for */
    pthread_t t = until_it_waits(empty_cache);
    CHECK(torch_pool_uses(0, other) == 1);
    use_pool(other);
    use_pool(one); /* in use again, just while it ends */
    CHECK(torch_pool_uses(0, one) == 1 && torch_pool_uses(0, other) == 2);
    let_go(t);
    CHECK(torch_pool_uses(0, one) == 1);
    use_pool(one);
    for (int i = 0; i < 2; i++) {
        torch_release_pool(0, one);
        torch_release_pool(0, other);
    }
    torch_reset();
    CHECK(torch_pool_uses(0, one) == 0 && torch_pool_uses(0, other) == 0);
}

/* ---- cached ---- */

static void *too_much(void *unused)
{
    OK(cuCtxSetCurrent(primary));
    CHECK(torch_malloc(2500 * MIB, 0, NULL) == NULL);
    through = true;
    return unused;
}

static void use_cache(void)
{
    CUdeviceptr p;
    for (int i = 0; i < 100; i++) {
        void *block = torch_malloc(4 * MIB, 0, NULL);
        CHECK(block);
        torch_free(block, 4 * MIB, 0, NULL);
        OK(cuMemAllocAsync(&p, 2 * MIB, NULL));
        OK(cuMemFreeAsync(p, NULL));
    }
}

/* As pools(), and an allocation that finds no memory; others are served from what is cached. */
static void cached(void)
{
    void *(*waits[])(void *) = {empty_cache, too_much};
    for (int i = 0; i < 2; i++) {
        use_cache();
        pthread_t t = until_it_waits(waits[i]);
        use_cache();
        let_go(t);
    }
    use_cache();
}

/* ---- crowd ---- */

#define CROWD  4
#define BLOCKS 12

struct owned {
    CUdeviceptr p;
    size_t words;
    unsigned word;
};

static void check_and_give(struct owned *b, CUstream stream)
{
    unsigned ends[2] = {0};
    OK(cuMemcpyDtoH(&ends[0], b->p, 4));
    OK(cuMemcpyDtoH(&ends[1], b->p + 4 * (b->words - 1), 4));
    CHECK(ends[0] == b->word && ends[1] == b->word);
    OK(b->word % 5 ? cuMemFreeAsync(b->p, stream) : cuMemFree(b->p));
    b->p = 0;
}

static void *in_crowd(void *number)
{
    unsigned me = (unsigned)(uintptr_t)number, random = me + 1, refused = 0;
    struct owned block[BLOCKS] = {0};
    CUstream stream;
    OK(cuCtxSetCurrent(primary));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned n = 0; n < 150; n++) {
        random = random * 1664525u + 1013904223u;
        struct owned *b = &block[(random >> 8) % BLOCKS];
        if (b->p)
            check_and_give(b, stream);
        b->words = ((random >> 1) % (16 * MIB) + 4096) / 4;
        b->word = me * 100000 + n;
        CUresult status =
            n % 7 ? cuMemAllocAsync(&b->p, 4 * b->words, stream) : cuMemAlloc(&b->p, 4 * b->words);
        CHECK(status == CUDA_SUCCESS || status == CUDA_ERROR_OUT_OF_MEMORY);
        if (status == CUDA_SUCCESS)
            OK(cuMemsetD32Async(b->p, b->word, b->words, stream));
        else
            b->p = 0;
        refused += status != CUDA_SUCCESS;
    }
    for (int i = 0; i < BLOCKS; i++)
        if (block[i].p)
            check_and_give(&block[i], stream);
    CHECK(refused > 10);
    OK(cuStreamDestroy(stream));
    return NULL;
}

/* Threads that find no memory all the time: each has what is its own, and all comes back. */
static void crowd(void)
{
    pthread_t t[CROWD];
    CUdeviceptr p;
    size_t left, total;
    OK(cuMemGetInfo(&left, &total));
    for (uintptr_t i = 0; i < CROWD; i++)
        CHECK(pthread_create(&t[i], NULL, in_crowd, (void *)i) == 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(t[i], NULL);
    OK(cuCtxSynchronize());
    OK(cuMemAlloc(&p, left - 8 * MIB)); /* all of it */
    OK(cuMemFree(p));
}

/* More streams than have a lane: who allocates on one of them waits for nothing. */
static void streams(void)
{
    CUstream stream[40];
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 1024 * MIB)); /* beside which a granule more is little */
    for (int i = 0; i < 40; i++) {
        OK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
        OK(cuMemAllocAsync(&p, MIB, stream[i]));
        OK(cuMemFreeAsync(p, stream[i]));
    }
    OK(cuMemAllocAsync(&p, MIB, stream[39])); /* earlier frees are seen to */
    OK(simcuda_busy(primary, 1));             /* until the end */
    for (int i = 0; i < 40; i++)
        OK(cuMemAllocAsync(&p, MIB, stream[i]));
}

/* ---- spilled ---- */

enum { SPILLED = 8, BLOCK = 8 * MIB };

/* A device that has more blocks than it has room for. */
struct full {
    CUcontext context;
    CUfunction uses;
    CUstream stream;
    CUdeviceptr block[64];
};
static struct full full[2];

static void use(struct full *f, int i)
{
    OK(cuLaunchKernel(f->uses, 1, 1, 1, 1, 1, 1, 0, f->stream, (void *[]){&f->block[i]}, NULL));
}

static void fill(struct full *f)
{
    static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                              ".visible .entry simcuda_nothing_one(.param .u64 a) { ret; }\n";
    CUmodule module;
    size_t left, total;
    OK(cuCtxSetCurrent(f->context));
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&f->uses, module, "simcuda_nothing_one"));
    OK(cuStreamCreate(&f->stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemGetInfo(&left, &total));
    int count = (int)(left / BLOCK) + SPILLED;
    CHECK(count >= 2 * SPILLED && count < 64);
    for (int i = 0; i < count; i++) {
        OK(cuMemAllocAsync(&f->block[i], BLOCK, f->stream));
        use(f, i);
    }
}

/* Others are alive in the block's chunks. */
static void *kernel_on_spilled(void *unused)
{
    OK(cuCtxSetCurrent(primary));
    use(&full[0], 0);
    through = true;
    return unused;
}

/* The other context's stream cannot wait for the block, so the thread does. */
static void *copy_of_spilled(void *unused)
{
    unsigned word;
    OK(cuCtxSetCurrent(full[1].context));
    begun = true;
    OK(cuMemcpyDtoH(&word, full[0].block[1], sizeof word));
    through = true;
    return unused;
}

/* Another device's blocks go and come back meanwhile. */
static void spilled(void)
{
    CUdeviceptr p;
    full[0].context = primary;
    OK(cuDevicePrimaryCtxRetain(&full[1].context, 1));
    fill(&full[0]);
    fill(&full[1]);
    pthread_t t = until_it_waits(kernel_on_spilled);
    use(&full[1], 0);
    OK(cuMemAllocAsync(&p, BLOCK, full[1].stream));
    OK(cuMemFreeAsync(p, full[1].stream));
    let_go(t);
    through = false;
    OK(simcuda_busy(primary, 1));
    OK(cuCtxSetCurrent(primary));
    for (int i = 2; full[0].block[i]; i++)
        OK(cuMemFreeAsync(full[0].block[i], full[0].stream)); /* nobody is alive in its chunks */
    OK(cuCtxSetCurrent(full[1].context));
    CHECK(pthread_create(&t, NULL, copy_of_spilled, NULL) == 0);
    while (!begun)
        usleep(1000);
    for (int i = 1; i < SPILLED; i++) {
        usleep(20000); /* by then it waits, or the test sees less */
        use(&full[1], i);
    }
    let_go(t);
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"pools", pools}, {"cached", cached}, {"crowd", crowd}, {"streams", streams}, {"spilled", spilled}};
    begin();
    find_functions();
    OK(cuCtxGetCurrent(&primary));
    return play_part(argc, argv, parts, sizeof parts / sizeof *parts);
}
