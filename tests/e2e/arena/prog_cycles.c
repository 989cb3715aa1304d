// link: cuda
/*
 * prog_cycles.c - a program whose memory goes to the host and back, and comes back with the same bytes.
 *
 *      cycles N      suspends itself N times; each way in which work can need the memory brings it back once;
 *                    what is away cannot be read; afterwards the process holds no more than before
 *      captures N    suspends itself N times while a thread captures streams
 *      large         blocks lie across what is page-locked at once on the host
 *      hold          works when it is told so, a line each on its standard input: is suspended from outside
 *      exported      a block is exported to another process
 *      faults N      the driver fails one call of the N cycles: what is refused is whole, can be tried again
 *
 *      refused       whatever the reason is, nothing has changed
 *
 *      short         suspends itself and takes the device's memory, until it is told to give it back
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/uio.h>

#include "prog.h"
#include "vramscope.h"

enum { BLOCKS = 48, ORDERED = 16 };

static struct block {
    CUdeviceptr at;
    size_t bytes;
    uint64_t seed;
} block[BLOCKS];
static CUstream stream;
static CUgraphExec graph;
static CUdeviceptr graph_from, graph_to;
static uint64_t *words; /* as large as the largest block */
static char why[512];

/* ---- contents ---- */

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 11;
}

static void fill(struct block *b, uint64_t seed)
{
    uint64_t state = b->seed = seed;
    for (size_t i = 0; i < b->bytes / 8; i++)
        words[i] = next(&state);
    OK(cuMemcpyHtoD(b->at, words, b->bytes));
}

/* How many words are not as they were written. */
static size_t wrong(const struct block *b)
{
    uint64_t state = b->seed;
    size_t n = 0;
    OK(cuMemcpyDtoH(words, b->at, b->bytes));
    for (size_t i = 0; i < b->bytes / 8; i++)
        n += words[i] != next(&state);
    return n;
}

static void check_all(void)
{
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK(!block[i].at || wrong(&block[i]) == 0);
}

/* ---- memory ---- */

static void take(struct block *b, size_t bytes, bool ordered)
{
    b->bytes = bytes;
    if (ordered)
        OK(cuMemAllocAsync(&b->at, bytes, stream));
    else
        OK(cuMemAlloc(&b->at, bytes));
}

/* Small ones and large ones, of which some lie in memory that others left apart: in alias mappings. */
static void take_all(void)
{
    for (size_t i = 0; i < BLOCKS; i++)
        take(&block[i], i % 3 == 0 ? 4096 * (i + 1) : (2 * MIB + 512 * 1024 * (i % 5)), i % 4 == 1);
    OK(cuStreamSynchronize(stream));
    for (size_t i = 0; i < BLOCKS; i += 2) {
        OK(cuMemFree(block[i].at));
        block[i].at = 0;
    }
    for (size_t i = 0; i < BLOCKS; i += 8)
        take(&block[i], 9 * MIB, false);
    for (size_t i = 0; i < BLOCKS; i++)
        if (block[i].at)
            fill(&block[i], i + 1);
}

static void make_graph(void)
{
    CUgraph made;
    OK(cuMemAlloc(&graph_from, MIB));
    OK(cuMemAlloc(&graph_to, MIB));
    OK(cuMemsetD32(graph_from, 0x5eed, MIB / 4));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemcpyDtoDAsync(graph_to, graph_from, MIB, stream));
    OK(cuStreamEndCapture(stream, &made));
    OK(cuGraphInstantiate(&graph, made, 0));
}

static void start(void)
{
    begin();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    words = malloc(16 * MIB);
    take_all();
    make_graph();
}

static size_t free_bytes(void)
{
    size_t left, total;
    OK(cuMemGetInfo(&left, &total));
    return left;
}

/* ---- the adversary: a look at what is away, as a kernel's would be an error ---- */

static bool is_readable(CUdeviceptr at)
{
    char byte;
    struct iovec to = {&byte, 1}, from = {(void *)(uintptr_t)at, 1};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

static void none_is_there(void)
{
    for (size_t i = 0; i < BLOCKS; i++)
        for (size_t at = 0; block[i].at && at < block[i].bytes; at += 4096)
            CHECK(!is_readable(block[i].at + at));
}

/* ---- cycles ---- */

static void by_resume(void)
{
    IS(vramscope_resume(why, sizeof why), 0);
}
static void by_copy(void)
{
    CHECK(wrong(&block[1]) == 0);
}
static void by_graph(void)
{
    uint32_t word = 0;
    OK(cuGraphLaunch(graph, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(&word, graph_to + MIB - 4, 4));
    CHECK(word == 0x5eed);
}
static void by_malloc(void)
{
    CUdeviceptr more;
    OK(cuMemAlloc(&more, 3 * MIB));
    OK(cuMemsetD8(more, 1, 3 * MIB));
    OK(cuMemFree(more));
}
static void by_ordered_malloc(void)
{
    CUdeviceptr more;
    OK(cuMemAllocAsync(&more, MIB, stream));
    OK(cuMemFreeAsync(more, stream));
}
static void by_write(void)
{
    fill(&block[3], block[3].seed + 1000);
}
/* A free does not need it. */
static void by_free(void)
{
    OK(cuMemFree(block[5].at));
    CHECK(!is_readable(block[5].at));
    by_resume();
    take(&block[5], block[5].bytes, false);
    fill(&block[5], block[5].seed + 1);
}
static void *copy_one(void *unused)
{
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    uint64_t word;
    OK(cuMemcpyDtoH(&word, block[7].at, 8));
    OK(cuDevicePrimaryCtxRelease(0));
    return NULL;
}
static void by_two_threads(void)
{
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&thread[i], NULL, copy_one, NULL) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
}

/* What the process holds: open files, and mappings of memory. */
static void held(size_t *files, size_t *mappings)
{
    DIR *d = opendir("/proc/self/fd");
    FILE *f = fopen("/proc/self/maps", "r");
    *files = *mappings = 0;
    while (readdir(d))
        ++*files;
    for (int c; (c = fgetc(f)) != EOF;)
        *mappings += c == '\n';
    closedir(d);
    fclose(f);
}

/* Captures all the while: none is spoilt by what another thread does. */
static _Atomic int captured;
static _Atomic bool enough;

static void *capture(void *context)
{
    CUstream own;
    CUgraph made;
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    while (!enough) {
        OK(cuStreamBeginCapture(own, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(cuStreamEndCapture(own, &made));
        OK(cuGraphDestroy(made));
        captured++;
    }
    return NULL;
}

static void captures(int n)
{
    CUcontext context;
    pthread_t thread;
    OK(cuCtxGetCurrent(&context));
    CHECK(pthread_create(&thread, NULL, capture, context) == 0);
    for (int i = 0; i < n; i++) {
        int before = captured;
        IS(vramscope_suspend(why, sizeof why), 0);
        by_resume();
        while (captured == before)
            sched_yield();
    }
    enough = true;
    pthread_join(thread, NULL);
    check_all();
}

static void cycles(int n)
{
    static void (*const ways[])(void) = {by_resume, by_copy, by_graph,       by_malloc,
                                         by_write,  by_free, by_two_threads, by_ordered_malloc};
    size_t files, mappings, files_then = 0, mappings_then = 0, most = free_bytes();
    for (int i = 0; i < n; i++) {
        int moved = vramscope_suspend(why, sizeof why);
        if (moved != 0)
            fprintf(stderr, "suspend: %s\n", why);
        CHECK(moved == 0 && free_bytes() > most);
        none_is_there();
        ways[(size_t)i % (sizeof ways / sizeof *ways)]();
        if (i % 16 == 0 || i == n - 1)
            check_all();
        if (i == n / 2)
            held(&files_then, &mappings_then);
    }
    held(&files, &mappings);
    CHECK(n < 64 || (files <= files_then && mappings <= mappings_then + 8));
    check_all();
    printf("%d cycles\n", n);
}

/* Of odd sizes, and more of them than are page-locked at once (256 MiB). */
static void large(void)
{
    enum { LARGE = 9 };
    CUdeviceptr at[LARGE];
    uint32_t *read = malloc(39 * MIB);
    for (uint32_t i = 0; i < LARGE; i++) {
        OK(cuMemAlloc(&at[i], 39 * MIB));
        OK(cuMemsetD32(at[i], i + 1, 39 * MIB / 4));
    }
    IS(vramscope_suspend(why, sizeof why), 0);
    by_resume();
    for (uint32_t i = 0; i < LARGE; i++) {
        OK(cuMemcpyDtoH(read, at[i], 39 * MIB));
        for (size_t k = 0; k < 39 * MIB / 4; k++)
            CHECK(read[k] == i + 1);
    }
    free(read);
    check_all();
}

/* ---- the others ---- */

static void tell(const char *word)
{
    puts(word);
    fflush(stdout);
}

static void hold(void)
{
    char line[64];
    tell("ready");
    while (fgets(line, sizeof line, stdin)) {
        printf("begins %s", line);
        fflush(stdout);
        check_all();
        by_graph();
        by_malloc();
        printf("%s", line);
        fflush(stdout);
    }
}

static void refused(void)
{
    size_t left = free_bytes();
    IS(vramscope_suspend(why, sizeof why), -1);
    CHECK(free_bytes() == left);
    check_all();
    puts(why);
}

static void exported(void)
{
    CUipcMemHandle handle;
    OK(cuIpcGetMemHandle(&handle, block[1].at));
    refused();
}

static void faults(int n)
{
    for (int i = 0; i < n; i++) {
        if (vramscope_suspend(why, sizeof why) != 0)
            fprintf(stderr, "suspend: %s\n", why);
        if (vramscope_resume(why, sizeof why) != 0) {
            fprintf(stderr, "resume: %s\n", why);
            by_resume();
        }
        check_all();
        by_graph();
        by_malloc();
    }
}

static void short_of_memory(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    char line[64];
    IS(vramscope_suspend(why, sizeof why), 0);
    OK(cuMemCreate(&handle, (free_bytes() / (2 * MIB) - 1) * 2 * MIB, &prop, 0));
    tell("short");
    CHECK(fgets(line, sizeof line, stdin));
    none_is_there();
    OK(cuMemRelease(handle));
    by_resume();
    check_all();
    tell("whole");
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    start();
    if (!strcmp(argv[1], "cycles"))
        cycles(atoi(argv[2]));
    else if (!strcmp(argv[1], "captures"))
        captures(atoi(argv[2]));
    else if (!strcmp(argv[1], "large"))
        large();
    else if (!strcmp(argv[1], "hold"))
        hold();
    else if (!strcmp(argv[1], "faults"))
        faults(atoi(argv[2]));
    else if (!strcmp(argv[1], "short"))
        short_of_memory();
    else if (!strcmp(argv[1], "exported"))
        exported();
    else if (!strcmp(argv[1], "refused"))
        refused();
    return 0;
}
