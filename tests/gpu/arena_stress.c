/*
 * arena_stress.c - a workload in which a block of device memory that is reused too early shows as a wrong
 * word.
 *
 *     arena_stress [--seconds N] [--ops N] [--threads N] [--streams N] [--largest MIB] [--live MIB]
 *                  [--seed N] [--plant late|race] [--by driver|torch]
 *
 * A kernel fills each block with words of its own. It is used on several streams, copied, handed to other
 * threads, checked by a kernel and freed: on its last stream, on one that waits, or by cuMemFree. --plant
 * shows that a wrong reuse is seen: `late` checks some blocks after their free, `race` frees some while
 * another stream has yet to check them.
 *
 * Exit status 1: a word was wrong; 3: the driver refused something.
 */
#define _GNU_SOURCE
#include "arena_torch.h"
#include "arena_words.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define THREADS_MAX 16
#define STREAMS_MAX 16
#define HELD        96 /* blocks that a thread holds at most */
#define LATE        24 /* freed blocks that are still to be checked: planted */
#define SHELF       64

enum plant { NOTHING, PLANT_LATE, PLANT_RACE };

static struct {
    double seconds;
    uint64_t operations, largest, live, seed;
    unsigned threads, streams;
    enum plant plant;
    bool torch;
} option = {60, UINT64_MAX, 1024 * MIB, 24 * 1024 * MIB, 1, 4, 4, NOTHING, false};

static struct torch_allocator torch;

struct block {
    CUdeviceptr p;
    uint64_t bytes;
    uint32_t seed, number;
    CUstream home;  /* that it was allocated for */
    CUstream last;  /* all work on it is ordered before what comes next here */
    CUevent handed; /* while on the shelf: what the taker waits for */
    bool ordered;   /* of cuMemAllocAsync */
};

struct counts {
    uint64_t operations, blocks, bytes, moves, copies, handed, same, other, synchronous, refused, streams,
        planted;
};

struct worker {
    pthread_t thread;
    uint64_t random;
    CUstream stream[STREAMS_MAX];
    CUevent event;
    struct block held[HELD], late[LATE];
    unsigned count, lates;
    struct counts n;
};

static struct worker worker[THREADS_MAX];
static CUcontext context;
static double ends;
static uint64_t live_bytes, live_peak;
static uint32_t numbers;

static struct {
    pthread_mutex_t lock;
    struct block block[SHELF];
    unsigned count;
} shelf = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t rnd(struct worker *w, uint64_t below)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (w->random >> 33) % below;
}

static CUstream any_stream(struct worker *w)
{
    return w->stream[rnd(w, option.streams)];
}

/* As many blocks between 512 and 1024 bytes as between 512 MiB and 1 GiB; one in four is no multiple of 512.
 */
static uint64_t any_size(struct worker *w)
{
    uint64_t doublings = 0;
    while (512ull << (doublings + 1) <= option.largest)
        doublings++;
    uint64_t base = 512ull << rnd(w, doublings ? doublings : 1);
    uint64_t bytes = base + rnd(w, base / 4) * 4;
    return rnd(w, 4) ? bytes & ~511ull : bytes;
}

/* ---- the order of streams ---- */

static void follow(struct worker *w, CUstream later, CUstream earlier)
{
    if (later == earlier)
        return;
    OK(cuEventRecord(w->event, earlier));
    OK(cuStreamWaitEvent(later, w->event, 0));
}

/* What comes next is on that stream. */
static void goes_to(struct block *b, CUstream to)
{
    b->last = to;
    if (option.torch && to != b->home)
        torch.record_stream((void *)b->p, to); // NOLINT: what the driver calls a number
}

static void move(struct worker *w, struct block *b, CUstream to)
{
    follow(w, to, b->last);
    goes_to(b, to);
}

static void check(const struct block *b)
{
    words_check(b->p, b->bytes / 4, b->seed, b->number, b->last);
}

/* ---- blocks come and go ---- */

static bool room(uint64_t bytes)
{
    if (__atomic_add_fetch(&live_bytes, bytes, __ATOMIC_RELAXED) <= option.live)
        return true;
    __atomic_sub_fetch(&live_bytes, bytes, __ATOMIC_RELAXED);
    return false;
}

/* What others are about to be refused is in it: an upper bound. */
static void note_peak(void)
{
    uint64_t live = __atomic_load_n(&live_bytes, __ATOMIC_RELAXED);
    uint64_t peak = __atomic_load_n(&live_peak, __ATOMIC_RELAXED);
    while (live > peak &&
           !__atomic_compare_exchange_n(&live_peak, &peak, live, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static CUresult ask_for(struct block *b, CUstream stream)
{
    if (!option.torch)
        return b->ordered ? cuMemAllocAsync(&b->p, b->bytes, stream) : cuMemAlloc(&b->p, b->bytes);
    b->p = (CUdeviceptr)torch.allocate((ssize_t)b->bytes, 0, stream);
    return b->p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* A block without words yet; false where there is no room. */
static bool allocate(struct worker *w, struct block *b, uint64_t bytes, CUstream stream)
{
    if (w->count == HELD || !room(bytes))
        return false;
    *b = (struct block){
        .bytes = bytes, .home = stream, .last = stream, .ordered = option.torch || rnd(w, 10) < 9};
    CUresult status = ask_for(b, stream);
    if (status == CUDA_ERROR_OUT_OF_MEMORY) {
        __atomic_sub_fetch(&live_bytes, bytes, __ATOMIC_RELAXED);
        w->n.refused++;
        return false;
    }
    OK(status);
    note_peak();
    b->number = __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
    b->seed = b->number * 0x85EBCA6Bu;
    w->n.blocks++;
    w->n.bytes += bytes;
    return true;
}

static void take(struct worker *w)
{
    struct block b;
    if (!allocate(w, &b, any_size(w), any_stream(w)))
        return;
    words_fill(b.p, b.bytes / 4, b.seed, b.last);
    w->held[w->count++] = b;
}

static void plant_late(struct worker *w, struct block *b)
{
    if (w->lates == LATE) {
        check(&w->late[0]);
        memmove(w->late, w->late + 1, --w->lates * sizeof *w->late);
    }
    w->late[w->lates++] = *b;
    w->n.planted++;
}

/* A stream of its own does it: it is slow, and nobody waits. */
static void plant_race(struct worker *w, const struct block *b)
{
    CUstream aside = w->stream[(unsigned)rnd(w, option.streams)];
    if (aside == b->last)
        return;
    follow(w, aside, b->last);
    words_delay(3000000, aside);
    words_check(b->p, b->bytes / 4, b->seed, b->number, aside);
    w->n.planted++;
}

static void release_plain(struct worker *w, struct block *b)
{
    if (b->ordered)
        OK(cuStreamSynchronize(b->last)); /* the driver's own free does not wait for such memory */
    OK(cuMemFree(b->p));
    w->n.synchronous++;
}

static void release_ordered(struct worker *w, struct block *b)
{
    if (!option.torch && rnd(w, 2))
        move(w, b, any_stream(w));
    *(b->last == b->home ? &w->n.same : &w->n.other) += 1;
    if (option.torch)
        torch.release((void *)b->p, (ssize_t)b->bytes, 0, b->home); // NOLINT: as above
    else
        OK(cuMemFreeAsync(b->p, b->last));
}

static void release(struct worker *w, struct block *b)
{
    __atomic_sub_fetch(&live_bytes, b->bytes, __ATOMIC_RELAXED);
    if (!b->ordered || (!option.torch && option.plant == NOTHING && rnd(w, 25) == 0)) {
        release_plain(w, b);
        return;
    }
    release_ordered(w, b);
    if (option.plant == PLANT_LATE && rnd(w, 4) == 0)
        plant_late(w, b);
}

static void give(struct worker *w, unsigned i)
{
    struct block b = w->held[i];
    w->held[i] = w->held[--w->count];
    check(&b);
    if (option.plant == PLANT_RACE && b.ordered && rnd(w, 4) == 0)
        plant_race(w, &b);
    release(w, &b);
}

/* ---- what is done with blocks ---- */

static void use_elsewhere(struct worker *w, struct block *b)
{
    move(w, b, any_stream(w));
    check(b);
    w->n.moves++;
}

/* In two pieces, so that one of them begins in the middle of a granule. */
static void copy(struct worker *w, const struct block *b)
{
    struct block c;
    if (!allocate(w, &c, b->bytes, b->last))
        return;
    uint64_t cut = rnd(w, b->bytes / 4) * 4;
    c.seed = b->seed;
    if (cut)
        OK(cuMemcpyDtoDAsync(c.p, b->p, cut, b->last));
    OK(cuMemcpyDtoDAsync(c.p + cut, b->p + cut, b->bytes - cut, b->last));
    w->held[w->count++] = c;
    w->n.copies++;
}

/* To the shelf, and another one from it. */
static void hand_over(struct worker *w, unsigned i)
{
    struct block b = w->held[i];
    pthread_mutex_lock(&shelf.lock);
    if (shelf.count < SHELF) {
        OK(cuEventCreate(&b.handed, CU_EVENT_DISABLE_TIMING));
        OK(cuEventRecord(b.handed, b.last));
        unsigned at = (unsigned)rnd(w, ++shelf.count);
        shelf.block[shelf.count - 1] = shelf.block[at];
        shelf.block[at] = b;
        w->held[i] = w->held[--w->count];
        w->n.handed++;
    }
    pthread_mutex_unlock(&shelf.lock);
}

static void fetch(struct worker *w)
{
    struct block b = {.p = 0};
    pthread_mutex_lock(&shelf.lock);
    if (shelf.count && w->count < HELD)
        b = shelf.block[--shelf.count];
    pthread_mutex_unlock(&shelf.lock);
    if (!b.p)
        return;
    CUstream to = any_stream(w);
    OK(cuStreamWaitEvent(to, b.handed, 0));
    goes_to(&b, to);
    OK(cuEventDestroy(b.handed));
    check(&b);
    w->held[w->count++] = b;
}

/* A stream ends with its work still queued, and another one begins, perhaps with its handle. */
static void renew_stream(struct worker *w)
{
    unsigned s = (unsigned)rnd(w, option.streams), next = (s + 1) % option.streams;
    if (next == s || option.torch) /* PyTorch's streams never end */
        return;
    CUstream old = w->stream[s];
    for (unsigned i = 0; i < w->count; i++)
        if (w->held[i].last == old)
            move(w, &w->held[i], w->stream[next]);
    for (unsigned i = 0; i < w->lates; i++)
        w->late[i].last = w->late[i].last == old ? w->stream[next] : w->late[i].last;
    OK(cuStreamDestroy(old));
    OK(cuStreamCreate(&w->stream[s], CU_STREAM_NON_BLOCKING));
    w->n.streams++;
}

static void one_operation(struct worker *w)
{
    unsigned what = (unsigned)rnd(w, 1000);
    unsigned i = w->count ? (unsigned)rnd(w, w->count) : 0;
    w->n.operations++;
    if (what < 400 || !w->count)
        take(w);
    else if (what < 720)
        give(w, i);
    else if (what < 830)
        use_elsewhere(w, &w->held[i]);
    else if (what < 900)
        copy(w, &w->held[i]);
    else if (what < 930)
        hand_over(w, i);
    else if (what < 960)
        fetch(w);
    else if (what < 998)
        words_delay(rnd(w, 400000), any_stream(w));
    else
        renew_stream(w);
    /* where room is short, more goes than comes */
    if (w->count && __atomic_load_n(&live_bytes, __ATOMIC_RELAXED) > option.live / 10 * 9)
        give(w, (unsigned)rnd(w, w->count));
}

static void *work(void *argument)
{
    struct worker *w = argument;
    OK(cuCtxSetCurrent(context));
    OK(cuEventCreate(&w->event, CU_EVENT_DISABLE_TIMING));
    for (unsigned s = 0; s < option.streams; s++)
        OK(cuStreamCreate(&w->stream[s], CU_STREAM_NON_BLOCKING));
    while (w->n.operations < option.operations && now() < ends)
        one_operation(w);
    fetch(w);
    for (unsigned i = 0; i < w->lates; i++)
        check(&w->late[i]);
    while (w->count)
        give(w, w->count - 1);
    return NULL;
}

/* ---- the whole ---- */

static void add(struct counts *sum, const struct counts *n)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)n;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

static void empty_shelf(void)
{
    for (unsigned i = 0; i < shelf.count; i++) {
        OK(cuStreamWaitEvent(worker[0].stream[0], shelf.block[i].handed, 0));
        goes_to(&shelf.block[i], worker[0].stream[0]);
        check(&shelf.block[i]);
        release(&worker[0], &shelf.block[i]);
    }
}

static int report(double seconds)
{
    struct counts n = {0};
    for (unsigned t = 0; t < option.threads; t++)
        add(&n, &worker[t].n);
    printf("%s%u threads with %u streams each, %.1f s: %llu operations, %llu blocks, %.1f GiB in all, %.3f "
           "GiB live at most\n",
           words.on_host ? "SIMULATED, no kernels: " : "", option.threads, option.streams, seconds,
           (unsigned long long)n.operations, (unsigned long long)n.blocks, (double)n.bytes / 1073741824.0,
           (double)live_peak / 1073741824.0);
    printf("  used on another stream %llu, copied %llu, handed over %llu; freed on the first stream %llu, on "
           "another %llu, "
           "by cuMemFree %llu; no memory %llu; streams ended %llu; planted %llu\n",
           (unsigned long long)n.moves, (unsigned long long)n.copies, (unsigned long long)n.handed,
           (unsigned long long)n.same, (unsigned long long)n.other, (unsigned long long)n.synchronous,
           (unsigned long long)n.refused, (unsigned long long)n.streams, (unsigned long long)n.planted);
    uint32_t wrong = words_wrong();
    if (!wrong)
        printf("every word was right\n");
    return wrong != 0;
}

/* What was freed stays where it is: a planted look at it must find words, not a fault. */
static void keep_pool(void)
{
    CUmemoryPool pool;
    cuuint64_t all = UINT64_MAX;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
}

static bool set_option(const char *name, const char *value)
{
    double number = strtod(value, NULL);
    if (!strcmp(name, "--plant"))
        option.plant = !strcmp(value, "late") ? PLANT_LATE : !strcmp(value, "race") ? PLANT_RACE : NOTHING;
    else if (!strcmp(name, "--by"))
        option.torch = !strcmp(value, "torch");
    else if (!strcmp(name, "--seconds"))
        option.seconds = number;
    else if (!strcmp(name, "--ops"))
        option.operations = (uint64_t)number;
    else if (!strcmp(name, "--threads"))
        option.threads = (unsigned)number;
    else if (!strcmp(name, "--streams"))
        option.streams = (unsigned)number;
    else if (!strcmp(name, "--largest"))
        option.largest = (uint64_t)number * MIB;
    else if (!strcmp(name, "--live"))
        option.live = (uint64_t)number * MIB;
    else if (!strcmp(name, "--seed"))
        option.seed = (uint64_t)number;
    else
        return false;
    return true;
}

static bool parse(int argc, char **argv)
{
    bool valid = argc % 2 == 1;
    for (int i = 1; valid && i < argc; i += 2)
        valid = set_option(argv[i], argv[i + 1]);
    return valid && option.threads >= 1 && option.threads <= THREADS_MAX && option.streams >= 1 &&
           option.streams <= STREAMS_MAX && option.largest >= 2048 && option.live >= option.largest;
}

int main(int argc, char **argv)
{
    if (!parse(argc, argv)) {
        fprintf(stderr, "arena_stress: bad arguments: see the head of arena_stress.c\n");
        return 2;
    }
    if (option.torch && !torch_allocator_find(&torch)) {
        fprintf(stderr, "arena_stress: --by torch: libvramscope.so is not preloaded\n");
        return 2;
    }
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    words_begin();
    words_planted = option.plant != NOTHING;
    keep_pool();
    double begin = now();
    ends = begin + option.seconds;
    for (unsigned t = 0; t < option.threads; t++) {
        worker[t].random = option.seed * 1000 + t;
        pthread_create(&worker[t].thread, NULL, work, &worker[t]);
    }
    for (unsigned t = 0; t < option.threads; t++)
        pthread_join(worker[t].thread, NULL);
    empty_shelf();
    OK(cuCtxSynchronize());
    return report(now() - begin);
}
