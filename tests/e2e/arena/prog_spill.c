// link: cuda
/*
 * prog_spill.c HOW ROUNDS - works on more memory than the device may have.  Every byte is looked at, before
 * each use.  Says what was alive at the most, and the time of a round by the device's clock, of the last
 * ones.
 *
 *     train      layers' activations in forward, gradients in backward, two states of each weight used
 *                in the optimizer alone
 *     layers     weights, used one after the other, again and again
 *     little     blocks each of which begins in the middle of a chunk, and a large one
 *     eases      the same as layers, and a large block that lives for ten rounds alone
 *     random     blocks of many sizes, used, freed and made at random
 *     threads    the same by two threads with a stream each
 *     sharing    four threads use the same blocks beside their own
 *     freed      blocks that were not used for long are freed
 *     unknown    a kernel that finds addresses in memory, where all fits on the device and where it does
 *                not; then all goes on
 *     together   one kernel is given more than the device has, then less
 *     small      blocks too small to go: says how many there are until memory is out
 *     graph      a captured graph's block is used by launches
 *     stored     kernels find blocks by addresses in device memory, which the road STORES (stored.h)
 *                put there; then these end, and others in their places may go
 *
 * MOST=MIB: of random and threads, what is alive at the most (each).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "prog.h"
#include "stored.h"
#include "vramscope.h"

enum { LAYERS = 12, WEIGHT = 8, ACTIVATION = 7, BLOCKS = 64, TOGETHER = 16, SHARERS = 4, SHARED = 4 * MIB };

static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry simcuda_nothing_one(.param .u64 a) { ret; }\n"
                          ".visible .entry simcuda_nothing_all(.param .align 8 .b8 a[128]) { ret; }\n"
                          ".visible .entry simcuda_nothing_ncclDevKernel(.param .u64 work) { ret; }\n";

static CUcontext context;
static CUfunction one, all, reaching;
static __thread CUstream stream;
static __thread uint32_t *words;
static _Atomic uint64_t alive, most;

struct block {
    CUdeviceptr at;
    size_t bytes;
    uint32_t value;
};

static CUresult launch(CUfunction f, CUdeviceptr at)
{
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&at}, NULL);
}

/* Each word of it another. */
static void fill(struct block *b, uint32_t value)
{
    b->value = value;
    for (size_t i = 0; i < b->bytes / 4; i++)
        words[i] = value + (uint32_t)i;
    OK(launch(one, b->at));
    OK(cuMemcpyHtoDAsync(b->at, words, b->bytes, stream));
    OK(cuStreamSynchronize(stream));
}

static void look(const struct block *b)
{
    OK(cuMemcpyDtoHAsync(words, b->at, b->bytes, stream));
    OK(cuStreamSynchronize(stream));
    for (size_t i = 0; i < b->bytes / 4; i++)
        CHECK(words[i] == b->value + (uint32_t)i);
}

static void use(struct block *b)
{
    OK(launch(one, b->at));
    look(b);
}

static void count(size_t bytes)
{
    uint64_t now = atomic_fetch_add(&alive, bytes) + bytes, before = most;
    while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
        ;
}

static void make(struct block *b, size_t bytes, uint32_t value)
{
    b->bytes = bytes;
    OK(cuMemAllocAsync(&b->at, bytes, stream));
    count(bytes);
    fill(b, value);
}

static void drop(struct block *b)
{
    OK(cuMemFreeAsync(b->at, stream));
    alive -= b->bytes;
    b->at = 0;
}

/* ---- rounds ---- */

static void train(int round)
{
    static struct block weight[LAYERS], state[2 * LAYERS], gradient[LAYERS], activation[2 * LAYERS];
    for (int i = 0; i < LAYERS && round == 0; i++)
        make(&weight[i], WEIGHT * MIB, (uint32_t)i);
    for (int i = 0; i < 2 * LAYERS; i++) {
        use(&weight[i / 2]);
        make(&activation[i], ACTIVATION * MIB - 512, (uint32_t)(round * 1000 + i));
    }
    for (int i = 2 * LAYERS; i-- > 0; drop(&activation[i])) {
        use(&activation[i]);
        use(&weight[i / 2]);
        if (i % 2 == 0)
            make(&gradient[i / 2], WEIGHT * MIB, (uint32_t)(round * 1000 + 500 + i));
    }
    for (int i = 0; i < LAYERS; drop(&gradient[i++])) {
        use(&gradient[i]);
        for (int k = 2 * i; k < 2 * i + 2; k++) {
            if (round == 0)
                make(&state[k], WEIGHT * MIB, (uint32_t)k);
            use(&state[k]);
            fill(&state[k], state[k].value + 7);
        }
        use(&weight[i]);
        fill(&weight[i], weight[i].value + 3);
    }
}

static void layers(int round)
{
    static struct block weight[5 * LAYERS];
    for (int i = 0; i < 5 * LAYERS; i++) {
        struct block between;
        if (round == 0)
            make(&weight[i], WEIGHT * MIB, (uint32_t)i);
        use(&weight[i]);
        make(&between, ACTIVATION * MIB, (uint32_t)(round * 100 + i));
        use(&between);
        drop(&between);
    }
}

static void little(int round)
{
    static struct block first, weight[60], large;
    if (round == 0)
        make(&first, MIB, 0);
    for (int i = 0; i < 60; i++) {
        if (round == 0)
            make(&weight[i], 2 * MIB, (uint32_t)i);
        use(&weight[i]);
    }
    make(&large, 6 * WEIGHT * MIB, (uint32_t)round);
    use(&large);
    drop(&large);
}

/* From the tenth round on all fits. */
static void eases(int round)
{
    static struct block weight[30], more;
    if (round == 0)
        make(&more, 6 * WEIGHT * MIB, 1);
    for (int i = 0; i < 30; i++) {
        CUdeviceptr between;
        if (round == 0)
            make(&weight[i], WEIGHT * MIB, (uint32_t)i);
        for (int k = 0; k < 4; k++) {
            OK(launch(one, weight[i].at));
            OK(cuMemAllocAsync(&between, WEIGHT / 2 * MIB, stream));
            OK(launch(one, between));
            OK(cuMemFreeAsync(between, stream));
        }
    }
    if (round < 10)
        OK(launch(one, more.at));
    if (round == 10)
        drop(&more);
}

static uint32_t below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

static void play_random(struct block *block, uint64_t *seed, uint64_t limit)
{
    uint64_t here = 0;
    for (int i = 0; i < BLOCKS; i++)
        here += block[i].at ? block[i].bytes : 0;
    for (int i = 0; i < 2 * BLOCKS; i++) {
        struct block *b = &block[below(seed, BLOCKS)];
        size_t bytes = below(seed, 4) ? (1 + below(seed, 12)) * MIB + 512 * below(seed, 4096) : 4096;
        if (b->at && below(seed, 8) == 0) {
            here -= b->bytes;
            drop(b);
        } else if (b->at) {
            struct block *from = &block[below(seed, BLOCKS)];
            use(b);
            if (below(seed, 2))
                fill(b, below(seed, 1u << 30));
            if (from->at && from->bytes >= b->bytes) {
                OK(cuMemcpyDtoDAsync(b->at, from->at, b->bytes, stream));
                b->value = from->value;
            }
        } else if (here + bytes <= limit) {
            make(b, bytes, below(seed, 1u << 30));
            here += bytes;
        }
    }
}

static uint64_t limit_of(void)
{
    return strtoull(getenv("MOST") ? getenv("MOST") : "128", NULL, 0) * MIB;
}

static void random_rounds(int round)
{
    static struct block block[BLOCKS];
    static uint64_t seed = 1;
    play_random(block, &seed, limit_of());
}

static void begin_thread(void)
{
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    words = malloc(16 * MIB);
}

static void *thread(void *rounds)
{
    struct block block[BLOCKS] = {0};
    uint64_t seed = (uintptr_t)pthread_self();
    begin_thread();
    for (int i = *(int *)rounds; i > 0; i--)
        play_random(block, &seed, limit_of());
    for (int i = 0; i < BLOCKS; i++)
        if (block[i].at)
            look(&block[i]);
    return NULL;
}

/* Four threads copy between their own blocks and common ones, all of the same words.  A thread may wait for
 * memory after it was given a block: the block must still be there afterwards. */
static struct block common[3];

static void *sharing(void *rounds)
{
    struct block own[4], other[3];
    uint64_t seed = (uintptr_t)pthread_self();
    begin_thread();
    for (int i = 0; i < 4; i++)
        make(&own[i], SHARED, 5);
    for (int i = 0; i < 3; i++)
        make(&other[i], SHARED + i * MIB, below(&seed, 1u << 30));
    for (int i = 100 * *(int *)rounds; i > 0; i--) {
        struct block *mine = &own[below(&seed, 4)], *its = &common[below(&seed, 3)],
                     *not = &other[below(&seed, 3)];
        uint32_t what = below(&seed, 6);
        if (what < 4) {
            OK(cuMemcpyDtoDAsync(what < 2 ? mine->at : its->at, what < 2 ? its->at : mine->at, SHARED,
                                 stream));
        } else if (what == 4) {
            drop(not );
            make(not, not ->bytes, below(&seed, 1u << 30));
        } else {
            look(mine);
            look(not );
            look(its);
        }
    }
    return NULL;
}

static void threads(void *(*f)(void *), int count, int rounds)
{
    pthread_t other[SHARERS];
    for (int i = 0; i < count; i++)
        CHECK(pthread_create(&other[i], NULL, f, &rounds) == 0);
    for (int i = 0; i < count; i++)
        CHECK(pthread_join(other[i], NULL) == 0);
}

/* The first half was not used for long when it is freed; others come in its place. */
static void freed(int round)
{
    static struct block block[2 * LAYERS];
    for (int i = 0; i < 2 * LAYERS; i++)
        make(&block[i], WEIGHT * MIB - 128 * 1024 * (i % 3), (uint32_t)(round * 100 + i));
    for (int i = 0; i < LAYERS; i += 1 + round % 2)
        drop(&block[i]);
    for (int i = LAYERS; i < 2 * LAYERS; i++)
        use(&block[i]);
    for (int i = 0; i < 2 * LAYERS; i++)
        if (block[i].at) {
            use(&block[i]);
            drop(&block[i]);
        }
}

static void graph(int round)
{
    static struct block block[2 * LAYERS];
    static CUgraphExec exec;
    CUgraph captured;
    for (int i = 0; i < 2 * LAYERS && round == 0; i++)
        make(&block[i], WEIGHT * MIB, (uint32_t)i);
    if (round == 0) {
        use(&block[0]);
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        OK(launch(one, block[0].at));
        OK(cuMemsetD32Async(block[1].at, 5, block[1].bytes / 4, stream));
        OK(cuStreamEndCapture(stream, &captured));
        OK(cuGraphInstantiate(&exec, captured, 0));
    }
    for (int i = 2; i < 2 * LAYERS; i++)
        use(&block[i]);
    OK(cuGraphLaunch(exec, stream));
    OK(cuMemcpyDtoHAsync(words, block[1].at, block[1].bytes, stream));
    OK(cuStreamSynchronize(stream));
    for (size_t i = 0; i < block[1].bytes / 4; i++)
        CHECK(words[i] == 5);
    look(&block[0]);
    fill(&block[1], (uint32_t)round);
}

/* ---- once ---- */

static struct block block[BLOCKS];

static void make_blocks(int n)
{
    for (int i = 0; i < n; i++)
        make(&block[i], WEIGHT * MIB, (uint32_t)(100 * i));
}

static void use_blocks(int from, int n)
{
    for (int i = from; i < n; i++)
        use(&block[i]);
}

static void unknown(void)
{
    make_blocks(20);
    IS(launch(reaching, block[0].at), CUDA_ERROR_OUT_OF_MEMORY);
    use_blocks(0, 20);
    for (int i = 0; i < 10; i++)
        drop(&block[i]);
    OK(launch(reaching, block[10].at));
    use_blocks(10, 20);
}

static CUresult together(int n)
{
    CUdeviceptr at[TOGETHER] = {0};
    for (int i = 0; i < n; i++)
        at[i] = block[i].at;
    return cuLaunchKernel(all, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){at}, NULL);
}

static void play_together(void)
{
    make_blocks(TOGETHER);
    IS(together(TOGETHER), CUDA_ERROR_OUT_OF_MEMORY);
    OK(together(TOGETHER / 2));
    use_blocks(0, TOGETHER);
}

static void suspends(void)
{
    char why[512] = "";
    make_blocks(20);
    CHECK(vramscope_suspend(why, sizeof why) != 0 &&
          strstr(why, "has no memory for what is on the host already"));
    use_blocks(0, 20);
    for (int i = 0; i < 10; i++)
        drop(&block[i]);
    CHECK(vramscope_suspend(why, sizeof why) == 0);
    use_blocks(10, 20);
}

/* Six blocks are found by the table alone, and stay; others that come to lie there may go. */
static void stored(void)
{
    CUdeviceptr table, at[6];
    make_blocks(6);
    for (int i = 0; i < 6; i++)
        at[i] = block[i].at;
    OK(cuMemAllocAsync(&table, sizeof at, stream));
    store(getenv("STORES"), table, at, 6, stream);
    for (int i = 6; i < 20; i++)
        make(&block[i], WEIGHT * MIB, (uint32_t)(100 * i));
    for (int i = 0; i < 6; i++) {
        const uint32_t *found = reach(one, table, (size_t)i, stream);
        for (size_t k = 0; k < block[i].bytes / 4; k++)
            CHECK(found[k] == block[i].value + (uint32_t)k);
    }
    use_blocks(0, 20);
    for (int i = 0; i < 6; i++)
        drop(&block[i]);
    make_blocks(6);
    for (int i = 0, same = 0; i < 6; i++, same = 0) {
        for (int k = 0; k < 6; k++)
            same += block[i].at == at[k];
        CHECK(same == 1);
    }
    for (int i = 0; i < 4; i++)
        use_blocks(6, 20);
    use_blocks(0, 20);
}

static void waits(void)
{
    make_blocks(20);
    puts("ready");
    fflush(stdout);
    pause();
}

static void small(void)
{
    int n = 0;
    CUresult status = CUDA_SUCCESS;
    for (CUdeviceptr at; (status = cuMemAllocAsync(&at, MIB, stream)) == CUDA_SUCCESS; n++)
        ;
    IS(status, CUDA_ERROR_OUT_OF_MEMORY);
    printf("%d\n", n);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*round)(int);
        void (*once)(void);
    } ways[] = {{"train", train, NULL}, {"layers", layers, NULL},        {"little", little, NULL},
                {"eases", eases, NULL}, {"random", random_rounds, NULL}, {"freed", freed, NULL},
                {"graph", graph, NULL}, {"unknown", NULL, unknown},      {"together", NULL, play_together},
                {"small", NULL, small}, {"suspends", NULL, suspends},    {"stored", NULL, stored},
                {"waits", NULL, waits}};
    CUmodule module;
    CUevent from, to;
    float ms = 0, spent = 0;
    CHECK(argc == 3);
    int rounds = atoi(argv[2]);
    size_t left, total;
    begin();
    OK(cuMemGetInfo(&left, &total));
    OK(cuCtxGetCurrent(&context));
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&one, module, "simcuda_nothing_one"));
    OK(cuModuleGetFunction(&all, module, "simcuda_nothing_all"));
    OK(cuModuleGetFunction(&reaching, module, "simcuda_nothing_ncclDevKernel"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&from, 0));
    OK(cuEventCreate(&to, 0));
    words = malloc(6 * WEIGHT * MIB);
    if (!strcmp(argv[1], "threads"))
        threads(thread, 2, rounds);
    for (int i = 0; i < 3 && !strcmp(argv[1], "sharing"); i++)
        make(&common[i], SHARED, 5);
    if (!strcmp(argv[1], "sharing"))
        threads(sharing, SHARERS, rounds);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(ways[i].name, argv[1]) != 0)
            continue;
        if (ways[i].once)
            ways[i].once();
        for (int r = 0; r < rounds && ways[i].round; r++) {
            OK(cuEventRecord(from, stream));
            ways[i].round(r);
            OK(cuEventRecord(to, stream));
            OK(cuEventSynchronize(to));
            OK(cuEventElapsedTime(&ms, from, to));
            spent += r >= rounds - 3 ? ms / 3 : 0;
            if (getenv("TALKS"))
                fprintf(stderr, "round %d: %.1f ms\n", r, ms);
        }
    }
    fprintf(stderr, "free %llu most %llu MiB, a round %.1f ms\n", (unsigned long long)(left / MIB),
            (unsigned long long)(most / MIB), spent);
    puts("done");
    return 0;
}
