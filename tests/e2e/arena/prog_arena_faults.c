// link: cuda
/*
 * prog_arena_faults FUNCTION ERROR HOW - FUNCTION of the driver fails once, at its first call, its second,
 * and so on until it is not called so often; each time in a process of its own, which goes on.
 *
 * HOW: sync (cuMemAlloc, cuMemFree), async (three streams), or both in turns.  A call may fail with ERROR or
 * for lack of memory; no word of a block is ever another's; what could not be freed is freed the second time;
 * in the end all memory is back, but for the one granule whose release failed.  Prints how often it failed,
 * and how often the program noticed.
 */
#include "prog.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS  12
#define ROUNDS  50
#define STREAMS 3

extern unsigned long simcuda_faults_given(void);
extern long long simcuda_used_bytes(int device);

struct outcome {
    unsigned long given, noticed;
    long long lost;
};
static struct outcome *outcome; /* of the child, in shared memory */
static int expected, how;
static CUstream stream[STREAMS];
static uint32_t random_state;

static uint32_t rnd(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

/* Whether it went well; a failure must be the injected one, or what comes of it. */
static int went_well(CUresult status)
{
    if (status == CUDA_SUCCESS)
        return 1;
    outcome->noticed++;
    CHECK((int)status == expected || status == CUDA_ERROR_OUT_OF_MEMORY);
    return 0;
}

/* A fault may be in the way of a copy too. */
static void fill(CUdeviceptr p, size_t bytes, unsigned word)
{
    if (!went_well(cuMemsetD32(p, word, bytes / 4)))
        OK(cuMemsetD32(p, word, bytes / 4));
}

static unsigned word_at(CUdeviceptr p)
{
    unsigned word = 0;
    if (!went_well(cuMemcpyDtoH(&word, p, 4)))
        OK(cuMemcpyDtoH(&word, p, 4));
    return word;
}

static struct block {
    CUdeviceptr p;
    size_t bytes;
    unsigned word, stream, async;
} block[BLOCKS];

static void take(struct block *b)
{
    static unsigned words;
    b->bytes = (rnd(3) ? 4 + rnd(5 * MIB) : 4 + rnd(100000)) & ~3ull;
    b->stream = rnd(STREAMS);
    b->async = how == 2 ? rnd(2) : (unsigned)how;
    if (!went_well(b->async ? cuMemAllocAsync(&b->p, b->bytes, stream[b->stream])
                            : cuMemAlloc(&b->p, b->bytes))) {
        b->p = 0;
        return;
    }
    b->word = ++words;
    fill(b->p, b->bytes, b->word);
}

static CUresult give_once(const struct block *b)
{
    return b->async ? cuMemFreeAsync(b->p, stream[b->stream]) : cuMemFree(b->p);
}

static void give(struct block *b)
{
    CHECK(word_at(b->p) == b->word && word_at(b->p + b->bytes - 4) == b->word &&
          word_at(b->p + b->bytes / 8 * 4) == b->word);
    if (!went_well(give_once(b)))
        OK(give_once(b)); /* the block is still there */
    b->p = 0;
}

static void trim(void)
{
    CUmemoryPool pool;
    if (!went_well(cuCtxSynchronize()))
        OK(cuCtxSynchronize());
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolTrimTo(pool, 0));
    OK(cuMemPoolTrimTo(pool, 0)); /* what a fault kept from the first */
}

static void play(void)
{
    begin();
    for (int i = 0; i < STREAMS; i++)
        if (!went_well(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING)))
            OK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
    long long before = simcuda_used_bytes(0);
    for (unsigned n = 0; n < ROUNDS; n++) {
        struct block *b = &block[rnd(BLOCKS)];
        if (b->p)
            give(b);
        else
            take(b);
        if (n == ROUNDS / 2)
            trim();
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (block[i].p)
            give(&block[i]);
    trim();
    outcome->lost = simcuda_used_bytes(0) - before;
    outcome->given = simcuda_faults_given();
}

/* Whether the fault was met. */
static int one_child(const char *function, unsigned call)
{
    char fault[128];
    int status;
    memset(outcome, 0, sizeof *outcome);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        snprintf(fault, sizeof fault, "%s:%u=%d", function, call, expected);
        setenv("SIMCUDA_FAIL", fault, 1);
        random_state = 1 + call;
        alarm(120);
        play();
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    if (status != 0) {
        fprintf(stderr, "%s:%u=%d: ended with %d\n", function, call, expected, status);
        exit(3);
    }
    return outcome->given != 0;
}

int main(int argc, char **argv)
{
    unsigned long met = 0, noticed = 0;
    CHECK(argc == 4);
    expected = atoi(argv[2]);
    how = !strcmp(argv[3], "async") ? 1 : !strcmp(argv[3], "both") ? 2 : 0;
    outcome = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(outcome != MAP_FAILED);
    long long may_lose =
        strcmp(argv[1], "cuMemRelease") == 0 ? 2 * (long long)MIB : 0; /* the handle itself */
    for (unsigned call = 1; call < 400 && one_child(argv[1], call); call += call < 12 ? 1 : call / 4) {
        if (outcome->lost > may_lose) {
            fprintf(stderr, "%s:%u: %lld bytes are not back\n", argv[1], call, outcome->lost);
            return 3;
        }
        met++;
        noticed += outcome->noticed != 0;
    }
    printf("%s %d %s: failed in %lu runs, noticed in %lu\n", argv[1], expected, argv[3], met, noticed);
    return 0;
}
