/*
 * prog_random.c - prog_random SEED LOG [TIMES]: see random.h. With one thread a seed always makes the same
 * calls.
 */
#define _GNU_SOURCE
#include "random.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

struct world world;

static struct bracket {
    _Atomic int64_t high, low, max_high, max_low;
} brackets[DEVICES];

/* ---- chance ---- */

static uint32_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

uint32_t pick(struct task *t, uint32_t below)
{
    return next(&t->state) % below;
}

bool chance(struct task *t, uint32_t percent)
{
    return pick(t, 100) < percent;
}

/* ---- the log ---- */

void fatal(const char *what)
{
    fprintf(stderr, "prog_random: %s\n", what);
    exit(3);
}

void say(struct task *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(t->log, "%d ", t->number);
    vfprintf(t->log, format, arguments);
    fputc('\n', t->log);
    va_end(arguments);
}

/* ---- what is held ---- */

static void raise_to(_Atomic int64_t *max, int64_t value)
{
    int64_t seen = atomic_load(max);
    while (value > seen && !atomic_compare_exchange_weak(max, &seen, value))
        ;
}

static void move(int device, int64_t high, int64_t low)
{
    if (device < 0)
        return;
    struct bracket *b = &brackets[device];
    if (high)
        raise_to(&b->max_high, atomic_fetch_add(&b->high, high) + high);
    if (low)
        raise_to(&b->max_low, atomic_fetch_add(&b->low, low) + low);
}

void takes(int device, uint64_t size)
{
    move(device, (int64_t)size, 0);
}

void took(int device, uint64_t size, bool done)
{
    move(device, done ? 0 : -(int64_t)size, done ? (int64_t)size : 0);
}

void gives(int device, uint64_t size)
{
    move(device, 0, -(int64_t)size);
}

void gave(int device, uint64_t size, bool done)
{
    move(device, done ? -(int64_t)size : 0, done ? 0 : (int64_t)size);
}

/* ---- objects ---- */

struct object *vacant(struct task *t)
{
    uint32_t from = pick(t, OBJECTS);
    for (uint32_t i = 0; i < OBJECTS; i++)
        if (t->object[(from + i) % OBJECTS].kind == NOTHING)
            return &t->object[(from + i) % OBJECTS];
    return NULL;
}

struct object *some(struct task *t, enum kind kind)
{
    uint32_t from = pick(t, OBJECTS);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        struct object *o = &t->object[(from + i) % OBJECTS];
        if (o->kind != NOTHING && (kind == NOTHING || o->kind == kind))
            return o;
    }
    return NULL;
}

uint64_t owner(const struct task *t)
{
    return (uint64_t)(uintptr_t)t->current;
}

static void give_back(struct task *t, struct object *o)
{
    if (o->kind == PHYSICAL)
        vmm_give_back(t, o);
    else if (o->kind == MODULE || o->kind == LIBRARY || o->kind == GRAPH_MEMORY)
        contexts_give_back(t, o);
    else if (o->kind == OPENED || o->kind == EXTERNAL)
        imports_give_back(t, o);
    else
        memory_give_back(t, o);
}

/* Things change hands between threads here: one may be freed by another thread than made it. */
static pthread_mutex_t exchange_lock = PTHREAD_MUTEX_INITIALIZER;
static struct object exchanged;

static void exchange(struct task *t)
{
    struct object *o = some(t, NOTHING), other;
    if (!o || (o->context && o->context != (uint64_t)(uintptr_t)world.primary[0] &&
               o->context != (uint64_t)(uintptr_t)world.primary[1]))
        return; /* it ends with its context, whose end is its thread's business */
    pthread_mutex_lock(&exchange_lock);
    other = exchanged;
    exchanged = *o;
    *o = other;
    pthread_mutex_unlock(&exchange_lock);
}

/* ---- threads ---- */

static void (*const turns[])(struct task *t) = {memory_turn, vmm_turn,    contexts_turn,
                                                blocks_turn, ranges_turn, imports_turn};
#define FAMILIES (sizeof turns / sizeof *turns)

static void turn(struct task *t)
{
    int all = 0, at = 0;
    for (size_t i = 0; i < FAMILIES; i++)
        all += world.weight[i];
    int n = (int)pick(t, (uint32_t)all);
    while (n >= world.weight[at])
        n -= world.weight[at++];
    struct object *o = chance(t, 35) ? some(t, NOTHING) : NULL;
    if (o)
        give_back(t, o);
    else
        turns[at](t);
    if (world.threads > 1 && chance(t, 10))
        exchange(t);
}

static void *work(void *argument)
{
    struct task *t = argument;
    char name[16];
    snprintf(name, sizeof name, "random %d", t->number);
    pthread_setname_np(pthread_self(), name);
    context_use(t, world.primary[pick(t, DEVICES)], -1);
    int n = world.times * (20 + (int)pick(t, 240 / (uint32_t)world.threads + 1));
    for (int i = 0; i < n; i++)
        turn(t);
    bool tidy = chance(t, 70);
    for (int i = 0; tidy && i < OBJECTS; i++)
        if (t->object[i].kind != NOTHING)
            give_back(t, &t->object[i]);
    if (tidy)
        contexts_end(t);
    ranges_end(t);
    return NULL;
}

/* ---- the seed ---- */

/* Which calls fail, and how: written into the variable that the simulated driver reads at its first call. */
static void choose_failures(struct task *t)
{
    static const char *const names[] = {
        "cuMemAlloc_v2",    "cuMemFree_v2",      "cuMemCreate",         "cuMemRelease",     "cuMemMap",
        "cuMemUnmap",       "cuMemAllocAsync",   "cuMemFreeAsync",      "cuArrayCreate_v2", "cuArrayDestroy",
        "cuMemHostAlloc",   "cuMemFreeHost",     "cuCtxCreate_v4",      "cuCtxDestroy_v2",  "cuModuleUnload",
        "cuMemAddressFree", "cuMemAllocManaged", "cuMemHostUnregister", "cuMulticastUnbind"};
    static const int results[] = {1, 2, 999, 700};
    char list[2048] = "", one[80];
    for (uint32_t n = chance(t, 60) ? pick(t, 12) : 0; n; n--) {
        snprintf(one, sizeof one, "%s%s:%u=%d", *list ? "," : "",
                 names[pick(t, sizeof names / sizeof *names)], 1 + pick(t, 8), results[pick(t, 4)]);
        strcat(list, one);
    }
    if (*list)
        setenv("SIMCUDA_FAIL", list, 1);
    fprintf(t->log, "# fail %s\n", *list ? list : "-");
}

static void choose(struct task *t)
{
    world.threads = chance(t, 50) ? 1 : 2 + (int)pick(t, 7);
    for (size_t i = 0; i < FAMILIES; i++)
        world.weight[i] = chance(t, 25) ? 0 : 1 + (int)pick(t, 10);
    world.framework = chance(t, 75);
    world.expandable = chance(t, 40);
    world.together = world.seed % 2 == 0; /* not drawn: what the other seeds do stays as it was */
    if (!world.framework)
        world.weight[3] = 0;
    if (!chance(t, 20))
        world.weight[5] = 0; /* another process takes its time */
    world.weight[0] +=
        !(world.weight[0] | world.weight[1] | world.weight[2] | world.weight[3] | world.weight[4]);
    setenv("SIMCUDA_CAPACITY", chance(t, 50) ? "96MiB" : "4GiB", 1);
    setenv("SIMCUDA_CONTEXT_BYTES", "4MiB", 1);
    setenv("SIMCUDA_DEVICES", "2", 1);
    choose_failures(t);
    fprintf(t->log, "# threads %d framework %d expandable %d\n", world.threads, world.framework,
            world.expandable);
}

static void begin(struct task *t)
{
    if (cuInit(0) != CUDA_SUCCESS)
        fatal("cuInit");
    for (int d = 0; d < DEVICES; d++) {
        if (cuDevicePrimaryCtxRetain(&world.primary[d], d) != CUDA_SUCCESS)
            fatal("no primary context");
        say(t, "context %llu %d 0", (unsigned long long)(uintptr_t)world.primary[d], d);
    }
}

static void end(struct task *t)
{
    if (world.weight[5])
        imports_end();
    if (exchanged.kind != NOTHING && world.threads > 1) {
        context_use(t, world.primary[0], 0);
        t->object[0] = exchanged;
        give_back(t, &t->object[0]);
    }
    for (int d = 0; d < DEVICES; d++)
        fprintf(t->log, "# held %d %lld %lld %lld %lld\n", d, (long long)brackets[d].low,
                (long long)brackets[d].high, (long long)brackets[d].max_low, (long long)brackets[d].max_high);
}

static void join(FILE *file, FILE *part, char *text)
{
    fclose(part);
    fputs(text, file);
    free(text);
}

int main(int argc, char **argv)
{
    static struct task task[9]; /* 0 begins and ends */
    static char *text[9];
    static size_t size[9];
    pthread_t thread[9];
    if (argc != 3 && argc != 4)
        fatal("prog_random SEED LOG [TIMES]");
    world.times = argc == 4 ? atoi(argv[3]) : 1;
    world.seed = strtoull(argv[1], NULL, 10);
    for (int i = 0; i < 9; i++) {
        task[i].number = i;
        task[i].state = world.seed * 1000003 + (uint64_t)i * 7919 + 1;
        next(&task[i].state);
        task[i].log = open_memstream(&text[i], &size[i]);
    }
    FILE *file = fopen(argv[2], "w");
    if (!file)
        fatal("the log can't be made");
    pthread_setname_np(pthread_self(), "random 0");
    choose(&task[0]);
    if (world.weight[5])
        imports_prepare();
    begin(&task[0]);
    if (world.threads == 1)
        work(&task[0]);
    for (int i = 1; world.threads > 1 && i <= world.threads; i++)
        if (pthread_create(&thread[i], NULL, work, &task[i]) != 0)
            fatal("no thread");
    for (int i = 1; world.threads > 1 && i <= world.threads; i++)
        pthread_join(thread[i], NULL);
    blocks_end(&task[0]);
    end(&task[0]);
    for (int i = 0; i < 9; i++)
        join(file, task[i].log, (fflush(task[i].log), text[i]));
    return fclose(file) != 0;
}
