/*
 * ranges.c - which range an event belongs to.
 *
 * NVTX domains interleave freely, so a pop removes the innermost entry of its own kind from the thread's
 * stack (range_blocks.h), which need not be the last one.
 *
 * `current` is computed at push and pop, so that an event costs one or two loads.  Reports of blocks read
 * copies, vs_self.range and vs_hot.lead (hot.h).
 *
 * A signal handler may interrupt a push or a pop at any point and push and pop itself, as long as its pushes
 * and pops are balanced: an entry is claimed by the count and becomes visible only when its key is written.
 */
#include "ranges.h"

#include <stdbool.h>
#include <string.h>

#include "autograd.h"
#include "layers.h"
#include "pending.h"
#include "range_blocks.h"
#include "core/hot.h"
#include "core/options.h"

/* On a cache line of its own, because every push writes it and every event reads its neighbours. */
static _Alignas(64) struct {
    uint32_t last_id; /* atomic */
    char rest[60];
} ids;

const void *vs_range_self(void)
{
    return &vs_range_own;
}

void vs_ranges_init(void)
{
    vs_names_init();
    vs_range_blocks_init();
}

/* ---- phases ---- */

/* The innermost phase-naming range, markers before NVTX before automatic ones. */
static uint32_t find_current(const struct vs_range_block *b)
{
    uint32_t best = 0, best_source = UINT32_MAX;

    for (uint32_t i = b->count; i-- > 0;) {
        const struct vs_range_entry *e = &b->entries[i];
        uint32_t source = e->flags & VS_RANGE_SOURCE_MASK;

        if (e->key && (e->flags & VS_RANGE_NAMES_PHASE) && source < best_source) {
            best = e->id;
            best_source = source;
        }
    }
    return best;
}

/* ---- layers ---- */

/* Copies the layer of the innermost range that has one to where the calling thread's allocations read it. */
static void update_layer(const struct vs_range_block *b)
{
    for (uint32_t i = b->count; i-- > 0;) {
        const struct vs_range_entry *e = &b->entries[i];

        if (e->key && e->layer) {
            vs_layer_now.ranges_in = e->module;
            vs_layer_now.task = e->task;
            vs_layer_now.ranges = e->layer;
            return;
        }
    }
    vs_layer_now.ranges = 0;
}

/* Automatic ranges are phases and have no layer. */
static void open_layer(const struct vs_range_block *b, struct vs_range_entry *e, enum vs_range_source source)
{
    const struct vs_layer_now *now = &vs_layer_now;

    e->layer = 0;
    if (source == VS_SOURCE_AUTO || vs_options.stacks < VS_STACKS_PYTHON)
        return;
    e->module = now->module;
    e->task = vs_autograd_task();
    e->layer =
        vs_layer_of_range(now->ranges && now->ranges_in == e->module ? now->ranges : e->module, e->name);
}

/* ---- push and pop ---- */

static uint32_t key_of(const struct vs_name *domain, enum vs_range_source source)
{
    return (uint32_t)source << 28 | (domain ? domain->index : 0);
}

/* Markers and automatic ranges name phases by themselves (unless they have no name), NVTX ranges where their
 * name says so. */
static uint32_t flags_of(const struct vs_range_names *n, enum vs_range_source source)
{
    bool phase = source == VS_SOURCE_NVTX ? n->name && vs_name_phase(n->name) : n->length > 0;

    return (uint32_t)source | (phase ? VS_RANGE_NAMES_PHASE : 0);
}

static uint32_t new_id(void)
{
    /* Relaxed: ids need only differ. */
    return __atomic_add_fetch(&ids.last_id, 1, __ATOMIC_RELAXED);
}

/* The next entry of the stack, empty until its key is written; NULL: the stack is full. */
static struct vs_range_entry *reserve(struct vs_range_block *b)
{
    uint32_t i = b->count;

    if (i == VS_RANGE_DEPTH)
        return NULL;
    b->entries[i].key = 0;
    b->count = i + 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* from here on a signal handler uses the entry above */
    return &b->entries[i];
}

static const struct vs_range_entry *below(const struct vs_range_block *b, const struct vs_range_entry *e,
                                          uint32_t key)
{
    while (e-- > b->entries)
        if (e->key && (!key || e->key == key))
            return e;
    return NULL;
}

/* The count of KEY's pushes beyond the stack's depth; NULL: there is no room for a count. */
static uint32_t *over(struct vs_range_block *b, uint32_t key, bool make)
{
    for (int i = 0; i < VS_RANGE_KINDS_OVER; i++) {
        if (make && b->over[i].count == 0)
            b->over[i].key = key;
        if (b->over[i].key == key && (make || b->over[i].count))
            return &b->over[i].count;
    }
    return NULL;
}

static int push_beyond(struct vs_range_block *b, uint32_t key)
{
    const struct vs_range_entry *last = below(b, b->entries + b->count, key);
    uint32_t *count = over(b, key, true);
    int depth = (last ? (int)last->depth + 1 : 0) + (count ? (int)*count : 0);

    if (count) {
        ++*count;
        b->over_total++;
        vs_range_update_self(b);
    }
    return depth;
}

uint32_t vs_range_open(const struct vs_range_names *names, enum vs_range_source source, int *depth)
{
    struct vs_range_block *b = vs_range_block(true);
    uint32_t key = key_of(names->domain, source);
    bool beyond = b && b->over_total && over(b, key, false); /* inside a range that is only counted */
    struct vs_range_entry *e = b && !beyond ? reserve(b) : NULL;

    if (!e) {
        struct vs_journal *j = vs_record_journal();

        if (j && vs_record_enabled())
            vs_journal_lost_range(j);
        *depth = b ? push_beyond(b, key) : -1;
        return 0;
    }
    const struct vs_range_entry *same = below(b, e, key), *parent = below(b, e, 0);
    uint32_t id = vs_record_enabled() ? new_id() : 0, parent_id = parent ? parent->id : 0;
    uint32_t flags = flags_of(names, source);

    e->id = id;
    e->parent = parent_id;
    e->flags = flags;
    e->depth = same ? same->depth + 1 : 0;
    e->name = names->name;
    e->domain = names->domain;
    *depth = (int)e->depth;
    e->ticket = id ? vs_range_write_push(id, parent_id, flags, *names) : 0;
    open_layer(b, e, source);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    e->key = key;
    if (e->layer)
        update_layer(b);
    if (id && (flags & VS_RANGE_NAMES_PHASE)) {
        vs_range_set_current(b, find_current(b));
        vs_range_set_lead(b);
    }
    return id;
}

/* Removes entry AT from the stack; the entries above it (ranges of other domains) move down. */
static void remove_entry(struct vs_range_block *b, struct vs_range_entry *at)
{
    struct vs_range_entry *end = &b->entries[b->count];

    at->key = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (at + 1 < end)
        memmove(at, at + 1, (size_t)(end - at - 1) * sizeof(*at));
    b->count--;
}

int vs_range_close(const struct vs_name *domain, enum vs_range_source source)
{
    struct vs_range_block *b = vs_range_block(false);
    uint32_t key = key_of(domain, source), *beyond;
    struct vs_range_entry *e;

    if (!b)
        return -1;
    e = (struct vs_range_entry *)below(b, b->entries + b->count, key);
    if (b->over_total && (beyond = over(b, key, false))) {
        b->over_total--;
        vs_range_update_self(b);
        return (e ? (int)e->depth + 1 : 0) + (int)--*beyond;
    }
    if (!e)
        return -1;
    /* Word by word: wider loads of the entry would have to wait for the push's narrower stores. */
    uint32_t id = e->id, depth = e->depth;
    uint64_t ticket = e->ticket;
    bool layer = e->layer != 0;

    remove_entry(b, e);
    if (layer)
        update_layer(b);
    if (id && id == b->current) /* before the pop: no event may name a range after its end */
        vs_range_set_current(b, find_current(b));
    if (id)
        vs_range_write_pop(id, ticket);
    return (int)depth;
}

uint32_t vs_range_start(const struct vs_range_names *names, enum vs_range_source source)
{
    struct vs_range_event event = {.op = VS_OP_RANGE_PUSH,
                                   .flags = (uint32_t)source | VS_RANGE_CROSS_THREAD,
                                   .names = *names,
                                   .owner = &vs_range_own};

    vs_range_generation();
    if (!vs_record_enabled())
        return 0;
    event.id = new_id();
    vs_pending_write(&event);
    return event.id;
}

bool vs_range_end(uint32_t id)
{
    struct vs_range_event event = {.op = VS_OP_RANGE_POP, .id = id, .owner = &vs_range_own};

    vs_range_generation();
    if (!id || id > __atomic_load_n(&ids.last_id, __ATOMIC_RELAXED))
        return false;
    if (!vs_pending_cancel_id(id))
        vs_pending_write(&event);
    return true;
}

bool vs_range_mark(const char *text, size_t length, struct vs_name *domain, enum vs_range_source source)
{
    struct vs_event event = {.op = VS_OP_MARK, .device = VS_DEVICE_UNKNOWN, .arg1 = source};
    struct vs_journal *j = vs_record_journal();

    vs_range_generation();
    if (!j || !vs_record_enabled())
        return false;
    struct vs_name *name = vs_name_intern(text, length);

    event.address = name ? vs_name_id(name) : vs_journal_string(j, text, length);
    event.size = domain ? vs_name_id(domain) : 0;
    return vs_record(&event) != VS_SEQ_NONE;
}

/* ---- now ---- */

uint32_t vs_range_current(void)
{
    const struct vs_range_block *b = vs_range_block(false);

    vs_pending_flush();
    if (b && b->current)
        return b->current;
    if (__builtin_expect(b ? b->over_total != 0 : vs_range_own == &vs_range_none_left, 0))
        return 0; /* its own innermost range is lost, and another thread's would be wrong */
    const uint32_t *leader = atomic_load_explicit(&vs_hot.lead, memory_order_relaxed);

    return leader ? __atomic_load_n(leader, __ATOMIC_RELAXED) : 0;
}

uint32_t vs_range_lead(void)
{
    struct vs_range_block *b = vs_range_block(true);

    if (b)
        vs_range_set_lead(b);
    return vs_range_generation();
}
