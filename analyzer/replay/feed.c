/* feed.c - an allocator that is fed events one at a time (replay.h). */
#include "replay.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "addresses.h"
#include "arena/core/arena.h"
#include "arena/core/backing.h"

#define TOP           (UINT64_C(1) << 60) /* addresses that no driver gives, and below */
#define CHUNK         (UINT64_C(2) << 20)
#define ADDRESS_MOST  (UINT64_C(192) << 30)
#define CAPACITY_MOST (UINT64_C(320) << 30) /* more is no end, and too many addresses */
#define QUEUES        (VS_ARENA_QUEUES - 1)
#define UNIT          512u

const char *const feed_policy_names[FEED_POLICIES + 1] = {"live", "torch-native", "torch-expandable",
                                                          "arena"};

struct feed {
    enum feed_policy policy;
    struct torch_settings settings;
    uint64_t allocated;
    uint32_t probe; /* a number beyond the caller's */
    struct addresses addresses;
    bool *alive;      /* by block, where it is no policy of PyTorch's; of no bytes: never */
    uint32_t *number; /* of PyTorch's policies */
    struct torch torch;
    struct vs_arena *arena;
    struct vs_backing_count backing;
    uint32_t queue[QUEUES];
    uint64_t *address;
};

/* ---- the driver ---- */

static bool ask(void *context, enum torch_ask kind, uint64_t *address, uint64_t size)
{
    struct feed *f = context;
    if (kind == TORCH_SEGMENT)
        *address = addresses_take(&f->addresses, size);
    else if (kind == TORCH_RESERVE)
        *address = addresses_reserve(&f->addresses, size);
    return true;
}

static void give(void *context, enum torch_give kind, uint64_t address, uint64_t size)
{
    struct feed *f = context;
    if (kind == TORCH_FREE_SEGMENT)
        addresses_give(&f->addresses, address, size);
}

static void *zeros(size_t n, size_t size)
{
    void *p = xrealloc(NULL, (n + 1) * size);
    memset(p, 0, (n + 1) * size);
    return p;
}

/* An arena takes half a GiB of addresses, and what the analyzer may have of them is bounded (read/guard.h).
 */
static pthread_mutex_t one_arena = PTHREAD_MUTEX_INITIALIZER;

static void begin_arena(struct feed *f, size_t count)
{
    pthread_mutex_lock(&one_arena);
    bool ends = f->settings.capacity != UINT64_MAX;
    f->backing.capacity = ends ? f->settings.capacity / CHUNK : 0;
    if (ends && f->settings.capacity < CHUNK) /* none at all, which 0 does not mean */
        f->backing.chunks = f->backing.capacity = 1;
    struct vs_backing backing = vs_backing_of_counters(&f->backing, CHUNK);
    struct vs_arena_config config = {
        .capacity = ends && f->settings.capacity < CAPACITY_MOST ? f->settings.capacity : ADDRESS_MOST};
    if (vs_arena_create(&f->arena, &backing, &config) != 0)
        exit(complain("out of memory"));
    f->address = zeros(count, sizeof *f->address);
}

struct feed *feed_begin(enum feed_policy policy, const struct torch_settings *settings, size_t count)
{
    struct feed *f = zeros(1, sizeof *f);
    f->policy = policy;
    f->settings = *settings;
    f->probe = (uint32_t)count;
    f->settings.expandable = policy == FEED_EXPANDABLE;
    addresses_init(&f->addresses, TOP, NULL);
    if (policy == FEED_LIVE || policy == FEED_ARENA)
        f->alive = zeros(count, sizeof *f->alive);
    else
        f->number = zeros(count, sizeof *f->number);
    if (policy == FEED_ARENA)
        begin_arena(f, count);
    else if (policy != FEED_LIVE)
        torch_init(&f->torch, &f->settings, &(struct torch_driver){f, ask, give});
    return f;
}

/* A stream beyond those that the arena tells apart has no queue, as in a program. */
static uint32_t queue_of(struct feed *f, uint16_t stream)
{
    if (stream >= QUEUES)
        return VS_ARENA_ANY;
    if (!f->queue[stream] && vs_arena_open_queue(f->arena, stream, 0, &f->queue[stream]) != 0)
        return VS_ARENA_ANY;
    return f->queue[stream];
}

static uint64_t rounded_of(uint64_t size)
{
    return (size + UNIT - 1) / UNIT * UNIT;
}

bool feed_born(struct feed *f, uint32_t block, uint64_t size, uint16_t stream)
{
    uint64_t rounded = rounded_of(size);
    if (f->policy == FEED_LIVE) {
        if (f->settings.capacity - f->allocated < rounded)
            return false;
        f->alive[block] = rounded;
    } else if (f->policy == FEED_ARENA) {
        f->backing.now++;
        if (vs_arena_malloc(f->arena, queue_of(f, stream), size, &f->address[block]) != 0)
            return false;
        f->alive[block] = rounded;
    } else {
        uint32_t number = torch_malloc(&f->torch, size, stream);
        f->number[block] = number;
        if (!number)
            return false;
        rounded = f->torch.blocks[number].size;
    }
    f->allocated += rounded;
    return true;
}

static void died_torch(struct feed *f, uint32_t block)
{
    uint32_t number = f->number[block];
    if (!number)
        return;
    f->allocated -= f->torch.blocks[number].size;
    f->number[block] = 0;
    torch_release(&f->torch, number, false);
}

void feed_died(struct feed *f, uint32_t block, uint64_t size, uint16_t stream, bool deferred)
{
    if (f->number) {
        died_torch(f, block);
        return;
    }
    if (!f->alive[block])
        return;
    if (f->policy == FEED_ARENA) {
        uint32_t queue = queue_of(f, stream);
        f->backing.now++;
        vs_arena_free(f->arena, f->address[block], queue,
                      deferred || queue == VS_ARENA_ANY ? VS_FREE_DEFER : 0);
    }
    f->allocated -= rounded_of(size);
    f->alive[block] = false;
}

struct feed_totals feed_now(const struct feed *f)
{
    uint64_t reserved = f->policy == FEED_LIVE    ? f->allocated
                        : f->policy == FEED_ARENA ? f->backing.chunks * CHUNK
                                                  : f->torch.reserved;
    return (struct feed_totals){f->allocated, reserved};
}

/* A refusal empties caches, after which as much can be had as before: so what was got once can be got again.
 */
uint64_t feed_room(struct feed *f, uint16_t stream)
{
    uint64_t got = 0, not_got = (f->settings.capacity - f->allocated) / UNIT + 1;
    while (not_got - got > 1) {
        uint64_t units = got + (not_got - got) / 2;
        if (feed_born(f, f->probe, units * UNIT, stream)) {
            feed_died(f, f->probe, units * UNIT, stream, false);
            got = units;
        } else {
            not_got = units;
        }
    }
    return got * UNIT;
}

void feed_end(struct feed *f)
{
    if (f->policy == FEED_ARENA) {
        vs_arena_destroy(f->arena);
        pthread_mutex_unlock(&one_arena);
    } else if (f->policy != FEED_LIVE) {
        torch_free(&f->torch);
    }
    addresses_free(&f->addresses);
    free(f->alive);
    free(f->number);
    free(f->address);
    free(f);
}
