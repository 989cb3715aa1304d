// link: cuda
/* prog_arena_async.c - what a program may rely on of stream-ordered memory, whoever serves it. */
#include <stdint.h>
#include <string.h>

#include "prog.h"

#define STREAMS 3
#define BLOCKS  20
#define ROUNDS  1200
#define MANY    40

static CUstream stream[STREAMS];
static uint32_t random_state = 12345;

static uint32_t rnd(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static struct block {
    CUdeviceptr p;
    size_t bytes;
    unsigned stream, word;
} block[BLOCKS];
static unsigned (*seen)[2], wanted[ROUNDS], frees;

static void take(struct block *b)
{
    static unsigned words;
    b->stream = rnd(STREAMS);
    b->bytes = (rnd(4) ? 4 + rnd(6 * MIB) : 4 + rnd(100000)) & ~3ull;
    b->word = ++words;
    OK(cuMemAllocAsync(&b->p, b->bytes, stream[b->stream]));
    OK(cuMemsetD32Async(b->p, b->word, b->bytes / 4, stream[b->stream]));
}

static void give(struct block *b)
{
    OK(cuMemcpyDtoHAsync(&seen[frees][0], b->p, 4, stream[b->stream]));
    OK(cuMemcpyDtoHAsync(&seen[frees][1], b->p + b->bytes - 4, 4, stream[b->stream]));
    wanted[frees++] = b->word;
    if (rnd(30) == 0)
        OK(cuMemFree(b->p)); /* waits for the device */
    else
        OK(cuMemFreeAsync(b->p, stream[b->stream]));
    b->p = 0;
}

static void churn(void)
{
    for (unsigned n = 0; n < ROUNDS; n++) {
        struct block *b = &block[rnd(BLOCKS)];
        if (b->p)
            give(b);
        else
            take(b);
        if (n % 200 == 199) { /* another stream in the place of one, perhaps with its handle */
            unsigned s = rnd(STREAMS);
            for (unsigned i = 0; i < BLOCKS; i++)
                if (block[i].p && block[i].stream == s)
                    give(&block[i]);
            OK(cuStreamDestroy(stream[s]));
            OK(cuStreamCreate(&stream[s], CU_STREAM_NON_BLOCKING));
        }
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (block[i].p)
            give(&block[i]);
    OK(cuCtxSynchronize());
    for (unsigned f = 0; f < frees; f++)
        CHECK(seen[f][0] == wanted[f] && seen[f][1] == wanted[f]);
}

/* Freed on another stream than it was allocated on, after an event. */
static void handed_over(void)
{
    CUdeviceptr p, q;
    CUevent event;
    unsigned word = 0;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAllocAsync(&p, 8 * MIB, stream[0]));
    OK(cuMemsetD32Async(p, 5, 2 * MIB, stream[0]));
    OK(cuEventRecord(event, stream[0]));
    OK(cuStreamWaitEvent(stream[1], event, 0));
    OK(cuMemcpyDtoHAsync(&word, p + 8 * MIB - 4, 4, stream[1]));
    OK(cuMemFreeAsync(p, stream[1]));
    OK(cuMemAllocAsync(&q, 8 * MIB, stream[0]));
    OK(cuMemsetD32Async(q, 6, 2 * MIB, stream[0]));
    OK(cuMemFreeAsync(q, stream[0]));
    OK(cuCtxSynchronize());
    CHECK(word == 5);
    OK(cuEventDestroy(event));
}

static void captured(void)
{
    CUdeviceptr p, q, r;
    CUgraph graph;
    CUstreamCaptureStatus status;
    OK(cuMemAlloc(&p, 4 * MIB));
    OK(cuMemAllocAsync(&r, 4 * MIB, stream[1]));
    OK(cuStreamBeginCapture(stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD32Async(p, 1, 4, stream[0]));
    OK(cuMemAlloc(&q, 6 * MIB));
    OK(cuMemFreeAsync(r, stream[1]));
    OK(cuMemAllocAsync(&r, 2 * MIB, stream[1]));
    OK(cuStreamIsCapturing(stream[0], &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuStreamEndCapture(stream[0], &graph));
    OK(cuGraphDestroy(graph));
    OK(cuMemFreeAsync(r, stream[1]));
    OK(cuMemFree(p));
    OK(cuMemFree(q));
}

/* What a thread knows of a stream must not outlive a capture's beginning, or the stream. */
static void known(void)
{
    CUdeviceptr p, q;
    CUgraph graph;
    CUstream gone;
    size_t nodes = 0;
    OK(cuMemAllocAsync(&p, 4 * MIB, stream[0]));
    OK(cuStreamBeginCapture(stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAllocAsync(&q, 4 * MIB, stream[0])); /* the graph's */
    OK(cuMemFreeAsync(q, stream[0]));
    OK(cuStreamEndCapture(stream[0], &graph));
    OK(cuGraphGetNodes(graph, NULL, &nodes));
    CHECK(nodes == 2);
    OK(cuGraphDestroy(graph));
    OK(cuStreamBeginCapture(stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemFreeAsync(p, stream[0]) != CUDA_SUCCESS); /* no graph's */
    if (cuStreamEndCapture(stream[0], &graph) == CUDA_SUCCESS)
        OK(cuGraphDestroy(graph));
    OK(cuMemFreeAsync(p, stream[0]));
    IS(cuMemFreeAsync(p, stream[0]), CUDA_ERROR_INVALID_VALUE); /* freed once */
    OK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&p, 4 * MIB, gone));
    OK(cuStreamDestroy(gone));
    IS(cuMemAllocAsync(&q, 4 * MIB, gone), CUDA_ERROR_INVALID_HANDLE);
    IS(cuMemFreeAsync(p, gone), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemFreeAsync(p, stream[0]));
}

static void asked(void)
{
    CUdeviceptr p, base = 0;
    size_t bytes = 0, before, after, total;
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *answers[] = {&base, &bytes};
    OK(cuMemAlloc(&p, 10 * MIB));
    OK(cuMemGetAddressRange(&base, &bytes, p + 7 * MIB));
    CHECK(base == p && bytes == 10 * MIB);
    base = bytes = 0;
    OK(cuPointerGetAttributes(2, what, answers, p + 9 * MIB));
    CHECK(base == p && bytes == 10 * MIB);
    bytes = 0;
    OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + 1));
    CHECK(bytes == 10 * MIB);
    OK(cuMemGetInfo(&before, &total));
    OK(cuMemFree(p));
    OK(cuMemGetInfo(&after, &total));
    CHECK(after >= before + 10 * MIB); /* what is freed is free */
}

/* ---- figures ---- */

static cuuint64_t used_bytes(CUmemPool_attribute attribute)
{
    CUmemoryPool pool;
    cuuint64_t value = 0;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

/* Of the per-thread default stream, and of more streams than have an order of their own. */
static void counted(void)
{
    CUstream many[MANY];
    CUdeviceptr p[MANY], own, direct;
    cuuint64_t before = used_bytes(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    OK(cuMemAlloc(&direct, 9 * MIB)); /* is no pool's */
    OK(cuMemAllocAsync(&own, 3 * MIB, CU_STREAM_PER_THREAD));
    CHECK(used_bytes(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == before + 3 * MIB);
    for (int i = 0; i < MANY; i++) {
        OK(cuStreamCreate(&many[i], CU_STREAM_NON_BLOCKING));
        OK(cuMemAllocAsync(&p[i], MIB, many[i]));
        CHECK(used_bytes(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == before + (cuuint64_t)(4 + i) * MIB);
    }
    CHECK(used_bytes(CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= before + (3 + MANY) * MIB);
    CHECK(used_bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= before + (3 + MANY) * MIB);
    for (int i = 0; i < MANY; i++) {
        OK(i % 2 ? cuMemFreeAsync(p[i], many[i]) : cuMemFree(p[i]));
        OK(cuStreamDestroy(many[i]));
    }
    OK(cuMemFreeAsync(own, CU_STREAM_PER_THREAD));
    OK(cuMemFreeAsync(direct, NULL));
    OK(cuCtxSynchronize());
    CHECK(used_bytes(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == before);
}

int main(void)
{
    begin();
    OK(cuMemHostAlloc((void **)&seen, ROUNDS * sizeof *seen, 0));
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
    churn();
    handed_over();
    captured();
    known();
    asked();
    counted();
    puts("done");
    return 0;
}
