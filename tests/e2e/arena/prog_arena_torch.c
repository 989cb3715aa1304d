// link: cuda
/*
 * prog_arena_torch.c - drives the functions that PyTorch is given as PyTorch does.  Under the shim only.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prog_torch.h"

/* ---- streams ---- */

#define STREAMS 4
#define SLOTS   40
#define ROUNDS  3000

static CUstream stream[STREAMS];
static uint32_t random_state = 4711;
static uint32_t seen[2 * ROUNDS + 2 * SLOTS][2], wanted[2 * ROUNDS + 2 * SLOTS], reads;

static uint32_t rnd(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

struct slot {
    CUdeviceptr p;
    size_t size;
    unsigned stream, word;
};

static void read_back(const struct slot *b, CUstream on)
{
    OK(cuMemcpyDtoHAsync(&seen[reads][0], b->p, 4, on));
    OK(cuMemcpyDtoHAsync(&seen[reads][1], b->p + (b->size - 4) / 4 * 4, 4, on));
    wanted[reads++] = b->word;
}

/* Another stream waits for the block's, reads it, and is recorded; nothing waits for it but the allocator. */
static void used_elsewhere(const struct slot *b, CUevent event)
{
    CUstream other = stream[(b->stream + 1 + rnd(STREAMS - 1)) % STREAMS];
    OK(cuEventRecord(event, stream[b->stream]));
    OK(cuStreamWaitEvent(other, event, 0));
    read_back(b, other);
    torch_record_stream((void *)(uintptr_t)b->p, (struct CUstream_st *)other);
}

static void fill(struct slot *b)
{
    static unsigned words;
    b->word = ++words;
    b->size = rnd(3) ? 4 + rnd(5 * MIB) : 4 + rnd(3000);
    b->p = take(b->size, stream[b->stream]);
    OK(cuMemsetD32Async(b->p, b->word, b->size / 4, stream[b->stream]));
}

/* Blocks on several streams, used by others (record_stream), filled and read back. */
static void test_streams(void)
{
    static struct slot slots[SLOTS];
    CUevent event;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 1; i < STREAMS; i++) /* the first is the default one */
        OK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
    for (int n = 0; n < ROUNDS; n++) {
        struct slot *b = &slots[rnd(SLOTS)];
        if (!b->p) {
            b->stream = rnd(STREAMS);
            fill(b);
            continue;
        }
        if (rnd(4) == 0)
            used_elsewhere(b, event);
        else
            read_back(b, stream[b->stream]);
        give(b->p, b->size, stream[b->stream]);
        b->p = 0;
        if (n % 500 == 0)
            torch_reset();
        if (n % 97 == 0)
            check_stats();
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].p)
            give(slots[i].p, slots[i].size, stream[slots[i].stream]);
    OK(cuCtxSynchronize());
    for (uint32_t i = 0; i < reads; i++)
        CHECK(seen[i][0] == wanted[i] && seen[i][1] == wanted[i]);
    torch_reset();
    CHECK(stat(RESERVED) == 0); /* nothing lives: all of it went back */
    check_stats();
}

/* ---- threads ---- */

#define THREADS 4
static pthread_barrier_t together;
static CUdeviceptr from[THREADS][64];

static void *thread(void *number)
{
    size_t t = (size_t)number;
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 64; i++)
            CHECK((from[t][i] = (CUdeviceptr)(uintptr_t)torch_malloc((ssize_t)(1000 * (i + 1)), 0, NULL)));
        pthread_barrier_wait(&together);
        for (int i = 0; i < 64; i++) /* those of another thread */
            torch_free((void *)(uintptr_t)from[(t + 1) % THREADS][i], 1000 * (i + 1), 0, NULL);
        pthread_barrier_wait(&together);
    }
    return NULL;
}

/* Blocks that one thread allocates and another frees. */
static void test_threads(void)
{
    pthread_t id[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (size_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&id[t], NULL, thread, (void *)t) == 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(id[t], NULL);
    for (int i = 0; i < 64; i++)
        peak += THREADS * rounded(1000 * ((uint64_t)i + 1));
    blocks = frees = THREADS * 50 * 64;
    check_stats();
}

/* More than there is, a fraction of it, and what is there afterwards. */
static void test_oom(void)
{
    size_t free_bytes, total;
    CUdeviceptr p = take(4 * MIB, NULL), q;
    OK(cuMemGetInfo(&free_bytes, &total));
    give(take(40 * MIB, NULL), 40 * MIB, NULL);
    CHECK(!torch_malloc((ssize_t)(total * 2), 0, NULL));
    CHECK(stat(OOMS) == 1);
    check_stats();

    /* what is idle is given back for what is asked */
    OK(cuMemAlloc(&q, total / 8));
    give(take(total / 4, NULL), total / 4, NULL);
    CUstream side;
    OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    CUdeviceptr large = take(total / 2, side);
    give(large, total / 2, side);
    OK(cuMemFree(q));

    /* a fraction of the device */
    CHECK(torch_get_memory_fraction(0) == 1.0);
    torch_memory_fraction(0.25, 0);
    CHECK(torch_get_memory_fraction(0) == 0.25);
    CHECK(!torch_malloc((ssize_t)(total / 4), 0, NULL)); /* 4 MiB of it are there */
    give(take(total / 8, NULL), total / 8, NULL);
    torch_memory_fraction(1.0, 0);
    give(take(total / 4, NULL), total / 4, NULL);
    CHECK(stat(OOMS) == 2);
    torch_reset_peaks(0);
    peak = live;
    torch_reset();
    CHECK(stat(PEAK_RESERVED) >= stat(RESERVED));
    torch_reset_peaks(0);
    CHECK(stat(PEAK_RESERVED) == stat(RESERVED));
    torch_reset_accumulated(0);
    CHECK(stat(BLOCKS + 2) == 0 && stat(OOMS) == 0 && stat(CREATED) == 0 && stat(BYTES) == live);
    give(p, 4 * MIB, NULL);
}

/* A child that frees its parent's blocks. */
static void test_fork(void)
{
    CUdeviceptr p = take(3 * MIB, NULL), q;
    size_t size = 0;
    CHECK((CUdeviceptr)(uintptr_t)torch_base_alloc((void *)(uintptr_t)(p + 1000), &size) == p &&
          size == 3 * MIB);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        uint64_t value[64];
        torch_free((void *)(uintptr_t)p, 3 * MIB, 0, NULL);
        torch_record_stream((void *)(uintptr_t)p, NULL);
        torch_reset();
        torch_reset_peaks(0);
        _exit(torch_stats(0, value, 64) == 0 && torch_malloc(1000, 0, NULL) == NULL ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    q = take(3 * MIB, NULL);
    CHECK(q != p);
    give(p, 3 * MIB, NULL);
    give(q, 3 * MIB, NULL);
    CHECK(torch_malloc(0, 0, NULL) == NULL);
    torch_free(NULL, 0, 0, NULL);
    check_stats();
}

/* Two devices: a free with the other one current, and a block that a stream of the other one uses. */
static void test_devices(void)
{
    CUcontext one, two;
    CUstream side;
    uint64_t value[64];
    OK(cuCtxGetCurrent(&one));
    OK(cuDevicePrimaryCtxRetain(&two, 1));
    CUdeviceptr a = take(4 * MIB, NULL), other;
    OK(cuCtxSetCurrent(two));
    OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    other = (CUdeviceptr)(uintptr_t)torch_malloc(3 * MIB, 1, NULL);
    CHECK(other);
    torch_record_stream((void *)(uintptr_t)a, (struct CUstream_st *)side);
    give(a, 4 * MIB, NULL); /* device 1 is current */
    CHECK(take(4 * MIB, NULL) == a);
    for (int i = 0; i < 100;
         i++) { /* more than are remembered: some blocks stay for good, none is lost track of */
        CUdeviceptr p = take(2 * MIB, NULL);
        torch_record_stream((void *)(uintptr_t)p, (struct CUstream_st *)side);
        torch_record_stream((void *)(uintptr_t)p, (struct CUstream_st *)side);
        give(p, 2 * MIB, NULL);
    }
    give(a, 4 * MIB, NULL);
    CHECK(torch_stats(1, value, 64) && value[BYTES] == 3 * MIB && value[RESERVED] == 4 * MIB);
    OK(cuCtxSetCurrent(one));
    torch_free((void *)(uintptr_t)other, 3 * MIB, 1, NULL);
    torch_reset();
    CHECK(torch_stats(1, value, 64) && value[BYTES] == 0 && value[RESERVED] == 0 && stat(RESERVED) == 0);
    check_stats();
}

/* An allocation before there is a context. */
static void test_first(void)
{
    CUcontext current;
    OK(cuInit(0));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == NULL);
    CUdeviceptr p = take(100, NULL);
    OK(cuMemsetD32(p, 1, 25)); /* in the context that was made for it */
    give(p, 100, NULL);
    check_stats();
}

/* As PyTorch without its cache: a cudaMalloc and a cudaFree for each tensor, no stream told. */
static void test_uncached(void)
{
    CUdeviceptr p[8] = {0};
    CUstream side;
    CUgraph captured;
    OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 2000; i++) {
        if (p[i % 8])
            OK(cuMemFree(p[i % 8]));
        OK(cuMemAlloc(&p[i % 8], (2 + (size_t)i % 7) * MIB));
        OK(cuMemsetD32(p[i % 8], (unsigned)i, 4));
        if (i == 1000) { /* nothing may be asked of the context while one of its streams is captured */
            OK(cuStreamBeginCapture(side, CU_STREAM_CAPTURE_MODE_RELAXED));
            for (int k = 0; k < 7; k++) {
                OK(cuMemFree(p[k]));
                p[k] = 0;
            }
            OK(cuStreamEndCapture(side, &captured));
        }
    }
    for (int i = 0; i < 8; i++)
        OK(cuMemFree(p[i]));
}

/* VRAMSCOPE_ALLOCATOR is off: the driver's memory, block by block. */
static void test_plain(void)
{
    CUdeviceptr a = take(5 * MIB, NULL), b = take(100, NULL);
    OK(cuMemsetD32(a, 1, MIB));
    torch_record_stream((void *)(uintptr_t)a, NULL);
    torch_reset();
    give(a, 5 * MIB, NULL);
    give(b, 100, NULL);
    CHECK(stat(BYTES) == 0 && stat(BYTES + 1) == peak && stat(RESERVED) == 0);
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {{"streams", test_streams},   {"threads", test_threads},
                                        {"oom", test_oom},           {"fork", test_fork},
                                        {"devices", test_devices},   {"first", test_first},
                                        {"uncached", test_uncached}, {"plain", test_plain}};
    CHECK(argc == 2);
    find_functions();
    if (strcmp(argv[1], "first"))
        begin();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(argv[1], parts[i].name)) {
            parts[i].play();
            say();
            return 0;
        }
    return 2;
}
