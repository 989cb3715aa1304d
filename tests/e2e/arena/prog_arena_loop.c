// link: cuda
/*
 * prog_arena_loop.c - steps whose sizes change, as training's do: blocks are made, and freed in reverse; some
 * stay.
 *
 *      direct     cuMemAlloc, cuMemFree
 *      streams    cuMemAllocAsync on three streams in turn; some blocks are freed on another one
 *      torch      the functions that PyTorch is given, on one stream (under the shim only)
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "arena/torch/abi.h"
#include "prog.h"

enum { STEPS = 40, BLOCKS = 30, STREAMS = 3 };

static uint32_t random_state = 2026;

static uint32_t rnd(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static enum { DIRECT, ASYNC, TORCH } road;
static CUstream stream[STREAMS];
static __typeof__(&vramscope_torch_malloc) torch_malloc;
static __typeof__(&vramscope_torch_free) torch_free;

static struct block {
    CUdeviceptr p;
    size_t bytes;
    unsigned stream;
} block[BLOCKS];

static void take(struct block *b, size_t bytes, unsigned on)
{
    *b = (struct block){.bytes = bytes, .stream = on};
    if (road == DIRECT)
        OK(cuMemAlloc(&b->p, bytes));
    else if (road == ASYNC)
        OK(cuMemAllocAsync(&b->p, bytes, stream[on]));
    else
        b->p = (uintptr_t)torch_malloc((ssize_t)bytes, 0, NULL);
    CHECK(b->p);
}

static void give(struct block *b)
{
    unsigned on = rnd(5) ? b->stream : (b->stream + 1) % STREAMS;
    if (road == DIRECT)
        OK(cuMemFree(b->p));
    else if (road == ASYNC)
        OK(cuMemFreeAsync(b->p, stream[on]));
    else
        torch_free((void *)(uintptr_t)b->p, (ssize_t)b->bytes, 0, NULL);
    b->p = 0;
}

static void step(unsigned n)
{
    size_t length = 100 + rnd(900);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (!block[i].p)
            take(&block[i], length * (i % 7 == 0 ? 12000 : 1 + rnd(4000)), n % STREAMS);
    for (unsigned i = BLOCKS; i-- > 0;)
        if (rnd(12))
            give(&block[i]);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    road = !strcmp(argv[1], "direct") ? DIRECT : !strcmp(argv[1], "streams") ? ASYNC : TORCH;
    torch_malloc = (__typeof__(torch_malloc))dlsym(RTLD_DEFAULT, "vramscope_torch_malloc");
    torch_free = (__typeof__(torch_free))dlsym(RTLD_DEFAULT, "vramscope_torch_free");
    begin();
    for (unsigned i = 0; i < STREAMS; i++)
        OK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
    for (unsigned n = 0; n < STEPS; n++)
        step(n);
    return 0;
}
