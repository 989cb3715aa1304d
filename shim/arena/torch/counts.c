/*
 * counts.c - what torch asks of its allocator's statistics, and the events of its blocks.
 *
 * Counted as torch's own allocator counts: bytes are those asked for, rounded up to 512; a block counts as
 * allocated until its free is asked for; small is up to 1 MiB.  (Torch's own blocks may be longer by what it
 * does not split off a larger free one; here there is no such rest.)  Only torch's blocks count.
 */
#include "torch.h"

#include "framework/torch.h"

#include <string.h>

enum { ALL, SMALL, LARGE, POOL_KINDS };
#define SMALL_MOST (1u << 20)

/* As torch names them: the present value, the highest, and the sums of what was added and taken away. */
struct stat {
    uint64_t current, peak, allocated, freed;
};

/* One lock per device orders counts and events alike, so that the totals that go with an event are those at
 * its place in the record.  It is held for the length of a record, as torch's own allocator holds its. */
struct counts {
    struct vs_lock lock;
    struct stat blocks[POOL_KINDS], bytes[POOL_KINDS], requested[POOL_KINDS];
    uint64_t ooms, retries;
    uint64_t created_before, released_before; /* when the accumulated ones were reset */
};

static struct counts counts[VS_SERVED_DEVICES] = {[0 ... VS_SERVED_DEVICES - 1] = {.lock = VS_LOCK(COUNTS)}};

static uint64_t rounded(uint64_t size)
{
    return (size + VS_ARENA_UNIT - 1) & ~(uint64_t)(VS_ARENA_UNIT - 1);
}

static void count(struct stat *s, uint64_t n, bool more)
{
    if (more) {
        s->current += n;
        s->allocated += n;
        s->peak = s->current > s->peak ? s->current : s->peak;
    } else {
        s->current -= n < s->current ? n : s->current;
        s->freed += n;
    }
}

static void count_block(struct counts *c, int kind, uint64_t size, uint64_t bytes, bool more)
{
    count(&c->blocks[kind], 1, more);
    count(&c->bytes[kind], bytes, more);
    count(&c->requested[kind], size, more);
}

static int kind_of(uint64_t bytes)
{
    return bytes <= SMALL_MOST ? SMALL : LARGE;
}

/* ---- what happens ---- */

void vs_torch_count(int device, uint64_t address, uint64_t size, bool more, CUstream stream,
                    uint64_t reserved)
{
    struct counts *c = &counts[device];
    void *ptr = (void *)(uintptr_t)address;
    uint64_t bytes = rounded(size);
    int64_t change = more ? (int64_t)bytes : -(int64_t)bytes;
    vs_lock_take(&c->lock);
    count_block(c, ALL, size, bytes, more);
    count_block(c, kind_of(bytes), size, bytes, more);
    uint64_t allocated = c->bytes[ALL].current;
    vs_torch_block(ptr, change, allocated, (uint64_t)(uintptr_t)stream, device);
    vs_lock_give(&c->lock);
    vs_torch_profile(ptr, change, allocated, reserved, device);
}

void vs_torch_count_oom(int device, uint64_t size)
{
    if (device < 0 || device >= VS_SERVED_DEVICES)
        return;
    struct counts *c = &counts[device];
    vs_lock_take(&c->lock);
    c->ooms++;
    vs_torch_block_oom(rounded(size), c->bytes[ALL].current, device);
    vs_lock_give(&c->lock);
}

void vs_torch_count_retry(int device)
{
    __atomic_fetch_add(&counts[device].retries, 1, __ATOMIC_RELAXED); /* a count */
}

uint64_t vs_torch_allocated(int device)
{
    return __atomic_load_n(&counts[device].bytes[ALL].current, __ATOMIC_RELAXED);
}

/* ---- queries of torch ---- */

/* VALUES: blocks, bytes, requested bytes, each of all, small and large, each as struct stat; then what
 * follows here.  Returns how many there are, of which at most ROOM are written; 0 where torch has nothing
 * there. */
enum {
    OOMS = 3 * POOL_KINDS * 4,
    RETRIES,
    RESERVED,
    PEAK_RESERVED,
    CREATED, /* bytes, since the accumulated figures were reset */
    RELEASED,
    IDLE,
    DEFERRED,
    CHUNK,
    SETTLES,
    VALUES
};

static void fill_arena(uint64_t value[VALUES], const struct counts *c, struct vs_served *s)
{
    struct vs_arena *arena = vs_served_arena(s);
    struct vs_arena_stats stats;
    if (!arena)
        return;
    vs_arena_stats(arena, &stats);
    value[RESERVED] = stats.reserved;
    value[PEAK_RESERVED] = stats.high_reserved;
    value[CREATED] = (stats.created - c->created_before) * s->cuda.chunk;
    value[RELEASED] = (stats.released - c->released_before) * s->cuda.chunk;
    value[IDLE] = stats.idle;
    value[DEFERRED] = stats.deferred;
    value[CHUNK] = s->cuda.chunk;
    value[SETTLES] = stats.host_waits;
}

static bool on_device(int device)
{
    return device >= 0 && device < VS_SERVED_DEVICES;
}

int vramscope_torch_stats(int device, uint64_t *values, int room)
{
    uint64_t value[VALUES] = {0};
    if (!on_device(device) || !vs_served_in())
        return 0;
    struct counts *c = &counts[device];
    vs_lock_take(&c->lock);
    memcpy(value, c->blocks, sizeof c->blocks);
    memcpy(value + POOL_KINDS * 4, c->bytes, sizeof c->bytes);
    memcpy(value + 2 * POOL_KINDS * 4, c->requested, sizeof c->requested);
    value[OOMS] = c->ooms;
    value[RETRIES] = __atomic_load_n(&c->retries, __ATOMIC_RELAXED);
    fill_arena(value, c, &vs_served[device]);
    vs_lock_give(&c->lock);
    vs_served_out();
    memcpy(values, value, (size_t)(room < VALUES ? room : VALUES) * sizeof *values);
    return VALUES;
}

static void each_stat(struct counts *c, void (*change)(struct stat *))
{
    struct stat *lists[] = {c->blocks, c->bytes, c->requested};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < POOL_KINDS; k++)
            change(&lists[i][k]);
}

static void peak_from_now(struct stat *s)
{
    s->peak = s->current;
}

static void accumulate_from_now(struct stat *s)
{
    s->allocated = s->freed = 0;
}

void vramscope_torch_reset_peaks(int device)
{
    if (!on_device(device) || !vs_served_in())
        return;
    struct counts *c = &counts[device];
    struct vs_arena *arena = vs_served_arena(&vs_served[device]);
    vs_lock_take(&c->lock);
    each_stat(c, peak_from_now);
    if (arena)
        vs_arena_high_from_now(arena, VS_HIGH_RESERVED);
    vs_lock_give(&c->lock);
    vs_served_out();
}

void vramscope_torch_reset_accumulated(int device)
{
    struct vs_arena_stats stats = {0};
    if (!on_device(device) || !vs_served_in())
        return;
    struct counts *c = &counts[device];
    struct vs_arena *arena = vs_served_arena(&vs_served[device]);
    if (arena)
        vs_arena_stats(arena, &stats);
    vs_lock_take(&c->lock);
    each_stat(c, accumulate_from_now);
    c->ooms = 0;
    __atomic_store_n(&c->retries, 0, __ATOMIC_RELAXED);
    c->created_before = stats.created;
    c->released_before = stats.released;
    vs_lock_give(&c->lock);
    vs_served_out();
}
