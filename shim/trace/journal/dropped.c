/*
 * dropped.c - what becomes of allocations that the full ring dropped: their frees are dropped too, and a sum
 * stands for their bytes.
 *
 * The ledger never counted such an allocation.  Its address is kept here, so that its free is known and takes
 * no slot of the ring from one that matters.  Any thread, any signal handler.
 */
#include "format.h"

#define PLACES 16u

/* The key of the event: its address, with the kind of allocation in the bits above (addresses are below
 * 2^57), because a framework's block can begin at the address of the driver's allocation.  0: the event
 * neither allocates nor frees. */
static uint64_t key_of(const struct vs_event *event)
{
    switch (event->op) {
    case VS_OP_ALLOC:
    case VS_OP_FREE:
        return event->address | UINT64_C(1) << 62;
    case VS_OP_BLOCK_ALLOC:
    case VS_OP_BLOCK_FREE:
        return event->address | UINT64_C(1) << 63;
    default:
        return 0;
    }
}

/* An address may lie in any of the PLACES that its hash selects, and all of them are searched: a removal
 * needs no tombstone.  Where they are taken the address is not remembered; its free is recorded, and counts
 * as the free of an unknown allocation. */
static _Atomic uint64_t *places_of(struct vs_dropped *u, uint64_t key)
{
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    return &u->key[hash % (VS_DROPPED_KEYS / PLACES) * PLACES];
}

static bool swap(_Atomic uint64_t *place, uint64_t old, uint64_t new)
{
    return atomic_load_explicit(place, memory_order_relaxed) == old &&
           atomic_compare_exchange_strong_explicit(place, &old, new, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/*
 * ---- the sums ----
 *
 * The bytes of dropped allocations that live, for each device.  The ring is told such a sum as one allocation
 * with a size of its own each time: so totals and peaks stay right, and only who held the bytes is unknown.
 * It is told in each round of the drain; before an end, where it moved by a MiB; and before the next event
 * that begins something.  At that point only ends were recorded since the sum was highest, so the two were
 * really held together; where the sum cannot be told, that allocation is dropped as well.  The highest sum is
 * told first, where it is more than the present one.  Only memory of the device counts, without VMM's; where
 * a framework reports blocks, only blocks, as a dropped allocation of the driver's may be what it carves them
 * from.
 */

#define MUCH         (UINT64_C(1) << 20)
#define SIZE_MASK    ((UINT64_C(1) << 48) - 1)
#define PLACE(event) (UINT64_C(1) << 61 | (uint64_t)(event)) /* an address that nobody has */

struct memory {
    _Atomic uint64_t key[VS_DROPPED_KEYS], held[VS_DROPPED_KEYS];
    struct vs_dropped_sum sum[2 * VS_DROPPED_DEVICES];
};
const size_t vs_dropped_bytes = sizeof(struct memory);
static _Atomic uint8_t age[VS_DROPPED_DEVICES]; /* grows where all that a device held ends */

void vs_dropped_begin(struct vs_dropped *u, void *memory)
{
    struct memory *m = memory;
    u->key = m->key;
    u->held = m->held;
    u->sum = m->sum;
}

static void note_change(struct vs_dropped *u, const struct vs_dropped_sum *s, uint64_t now)
{
    uint64_t told = atomic_load_explicit(&s->told, memory_order_relaxed);
    uint64_t moved = now > told ? now - told : told - now;
    /* release: with the sum that changed, for who takes the word in vs_dropped_next */
    atomic_fetch_or_explicit(&u->changed, VS_DROPPED_CHANGED | (moved >= MUCH ? VS_DROPPED_MUCH : 0),
                             memory_order_release);
}

/* What the event adds to a sum, 0: nothing. */
static uint64_t held_of(const struct vs_event *event)
{
    bool block = event->op == VS_OP_BLOCK_ALLOC;
    if ((!block && event->space != VS_SPACE_DEVICE) || event->device < 0 ||
        event->device >= VS_DROPPED_DEVICES || event->size > SIZE_MASK)
        return 0;
    uint64_t at = (uint64_t)event->device + (block ? VS_DROPPED_DEVICES : 0);
    return event->size | at << 48 |
           (uint64_t)atomic_load_explicit(&age[event->device], memory_order_relaxed) << 56;
}

static void sum_add(struct vs_dropped *u, uint64_t held)
{
    struct vs_dropped_sum *s = &u->sum[held >> 48 & 0xff];
    if (held == 0)
        return;
    uint64_t size = held & SIZE_MASK;
    uint64_t now = atomic_fetch_add_explicit(&s->now, size, memory_order_relaxed) + size;
    uint64_t most = atomic_load_explicit(&s->most, memory_order_relaxed);
    while (most < now && !atomic_compare_exchange_weak_explicit(&s->most, &most, now, memory_order_relaxed,
                                                                memory_order_relaxed)) {
    }
    note_change(u, s, now);
}

static void sum_take(struct vs_dropped *u, uint64_t held)
{
    uint64_t at = held >> 48 & 0xff, size = held & SIZE_MASK;
    struct vs_dropped_sum *s = &u->sum[at];
    if (held == 0 || held >> 56 != atomic_load_explicit(&age[at % VS_DROPPED_DEVICES], memory_order_relaxed))
        return;
    note_change(u, s, atomic_fetch_sub_explicit(&s->now, size, memory_order_relaxed) - size);
}

/* All that DEVICE held ends, as its context does. */
static void all_ended(struct vs_dropped *u, int device)
{
    if (device < 0 || device >= VS_DROPPED_DEVICES)
        return;
    atomic_fetch_add_explicit(&age[device], 1, memory_order_relaxed);
    for (int at = device; at < 2 * VS_DROPPED_DEVICES; at += VS_DROPPED_DEVICES) {
        atomic_store_explicit(&u->sum[at].now, 0, memory_order_relaxed);
        note_change(u, &u->sum[at], 0);
    }
}

bool vs_dropped_matters(struct vs_dropped *u, const struct vs_event *event, bool end)
{
    if (event->op == VS_OP_CONTEXT_DESTROY)
        all_ended(u, event->device);
    if (vs_event_is_block(event->op))
        atomic_store_explicit(&u->framework, true, memory_order_relaxed);
    if (end)
        return atomic_load_explicit(&u->changed, memory_order_relaxed) & VS_DROPPED_MUCH;
    return atomic_load_explicit(&u->changed, memory_order_relaxed) != 0 ||
           atomic_load_explicit(&u->telling, memory_order_relaxed);
}

static struct vs_event event_of(size_t at, uint64_t size)
{
    bool block = at >= VS_DROPPED_DEVICES, ends = size == 0;
    return (struct vs_event){.op = block ? (ends ? VS_OP_BLOCK_FREE : VS_OP_BLOCK_ALLOC)
                                         : (ends ? VS_OP_FREE : VS_OP_ALLOC),
                             .space = VS_SPACE_DEVICE,
                             .device = (int8_t)(at % VS_DROPPED_DEVICES),
                             .address = PLACE(at),
                             .size = size,
                             .arg0 = block ? VS_BYTES_UNKNOWN : 0,
                             .thread = VS_THREAD_UNKNOWN};
}

/* Who asked for it is not known; this stands in the place of a line. */
static uint32_t lost_stack(struct vs_journal *j)
{
    static const char name[] = "(events lost: the ring was full)";
    uint32_t function = vs_journal_string(j, name, sizeof name - 1);
    return vs_journal_stack(j, 0, vs_journal_named_frame(j, VS_FRAME_NATIVE, function, 0, 0));
}

/* What the ring should have an allocation of. */
static uint64_t wanted(struct vs_dropped_sum *s)
{
    uint64_t now = atomic_load_explicit(&s->now, memory_order_relaxed);
    uint64_t most = atomic_exchange_explicit(&s->most, 0, memory_order_relaxed);
    now = now > INT64_MAX ? 0 : now; /* contexts that ended at that moment */
    s->high = most > s->high ? most : s->high;
    if (s->high > now && s->high > atomic_load_explicit(&s->told, memory_order_relaxed))
        return s->high;
    s->high = 0;
    return now;
}

bool vs_dropped_next(struct vs_journal *j, struct vs_event *event)
{
    struct vs_dropped *u = &j->dropped;
    bool framework = atomic_load_explicit(&u->framework, memory_order_relaxed);
    /* acquire, and one step: a sum that changes after it was read leaves the word set again */
    atomic_exchange_explicit(&u->changed, 0, memory_order_acquire);
    for (size_t at = 0; at < 2 * VS_DROPPED_DEVICES; at++) {
        struct vs_dropped_sum *s = &u->sum[at];
        uint64_t size = framework && at < VS_DROPPED_DEVICES ? 0 : wanted(s);
        uint64_t told = atomic_load_explicit(&s->told, memory_order_relaxed);
        if (told == size)
            continue;
        *event = event_of(at, told ? 0 : size);
        event->stack = event->size ? lost_stack(j) : 0;
        return true;
    }
    return false;
}

void vs_dropped_told(struct vs_dropped *u, const struct vs_event *event)
{
    struct vs_dropped_sum *s = &u->sum[event->address & 0xff];
    atomic_store_explicit(&s->told, event->size, memory_order_relaxed);
    s->high = event->size >= s->high ? 0 : s->high;
}

/*
 * ---- the addresses ----
 *
 * Orders are relaxed: an address has one owner at a time, since it is handed out again only after its free,
 * so no two threads work on one key, and different keys meet only in the compare-and-swap for an empty place.
 * A place carries nothing but its key, and the program synchronized the thread that frees with the one that
 * allocated.
 */

void vs_dropped_add(struct vs_dropped *u, const struct vs_event *event)
{
    bool starts = event->op == VS_OP_ALLOC || event->op == VS_OP_BLOCK_ALLOC;
    uint64_t key = key_of(event);
    if (!starts || vs_event_failed(event))
        return;
    _Atomic uint64_t *place = places_of(u, key);
    for (unsigned i = 0; i < PLACES; i++) {
        if (!swap(&place[i], 0, key))
            continue;
        uint64_t held = held_of(event);
        atomic_store_explicit(&u->held[place + i - u->key], held, memory_order_relaxed);
        sum_add(u, held);
        atomic_fetch_add_explicit(&u->count, 1, memory_order_relaxed);
        return;
    }
}

bool vs_dropped_take(struct vs_dropped *u, const struct vs_event *event)
{
    uint64_t key = key_of(event);
    if (key == 0 || (vs_event_failed(event) && event->status != VS_STATUS_PENDING))
        return false;
    _Atomic uint64_t *place = places_of(u, key);
    for (unsigned i = 0; i < PLACES; i++) {
        if (atomic_load_explicit(&place[i], memory_order_relaxed) != key)
            continue;
        uint64_t held = atomic_load_explicit(&u->held[place + i - u->key], memory_order_relaxed);
        if (!swap(&place[i], key, 0))
            continue;
        sum_take(u, held);
        atomic_fetch_sub_explicit(&u->count, 1, memory_order_relaxed);
        return event->op == VS_OP_FREE || event->op == VS_OP_BLOCK_FREE;
    }
    return false;
}
