/*
 * ranges.c - which range an event belongs to.
 *
 * Every thread that opens a range gets a block with its stack of open ranges; only the pointer to the block
 * is in thread-local storage, so that the shim can also be loaded late.  Entries remember source and domain:
 * NVTX domains interleave freely, so a pop removes the innermost entry of its own kind, which need not be
 * the last one.
 *
 *      thread block:  [forward, automatic] [conv1, NVTX "torch"] [logits, marker]      current = logits
 *      lead:          the block of the thread that last opened a phase or ended a step; threads without a
 *                     phase use its `current`
 *
 * `current` is computed at push and pop, so that an event costs one or two loads.  Reports of blocks read
 * copies, vs_self.range and vs_hot.lead (hot.h), and do not call this file.
 *
 * A signal handler may interrupt a push or a pop at any point and push and pop itself, as long as its pushes
 * and pops are balanced: an entry is claimed by the count and becomes visible only when its key is written.
 *
 * A fork child notices that the number of the process has changed (core/fork.h) and starts over: the ranges
 * that are open on the forking thread stay open and are written again into the child's own recording.
 */
#include "ranges.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "autograd.h"
#include "layers.h"
#include "pending.h"
#include "core/fork.h"
#include "core/hot.h"
#include "core/log.h"
#include "core/options.h"

enum { DEPTH = 64, THREADS = 1024, KINDS_OVER = 8 };

struct entry {
    uint32_t key; /* source << 28 | domain index; 0: an empty entry */
    uint32_t id, parent, flags;
    uint32_t depth; /* open ranges of the same key below it */
    struct vs_name *name, *domain;
    uint64_t ticket; /* of the push, while it waits (pending.h) */
    uint32_t layer;  /* the path of ranges from the outermost to this one (layers.h); 0: none */
    uint32_t module; /* the module whose call was open when it opened */
    int32_t task;    /* the backward that ran then */
};

struct block {
    _Alignas(64) uint32_t used; /* atomic: taken by a thread */
    uint32_t generation;        /* of the process that the entries belong to */
    uint32_t count;
    uint32_t current; /* atomic: the result of vs_range_current; 0: this thread has none of its own */
    uint32_t over_total;
    struct entry entries[DEPTH];
    struct {
        uint32_t key, count;
    } over[KINDS_OVER]; /* pushes that found the stack full, by kind; `over_total` is their sum */
};

/* THREADS blocks, mapped at the first use and never unmapped, so that a program without ranges does not
 * spend address space, which may be limited (ulimit -v). */
static struct block *blocks; /* atomic */
/* On a cache line of its own, because every push writes it and every event reads its neighbours. */
static _Alignas(64) struct {
    uint32_t last_id; /* atomic */
    char rest[60];
} ids;
static __thread struct block *own;
/* The block of threads for which no block was left: their ranges are lost, and their events have no phase,
 * not even the lead thread's. */
static struct block none_left;
static VS_HOT uint32_t generation; /* atomic: vs_fork_number() of the process that this state belongs to */
static pthread_key_t exit_key;
static bool have_exit_key;

const void *vs_range_self(void)
{
    return &own;
}

/* ---- generations: fork children ---- */

static void thread_exit(void *block);

void vs_ranges_init(const char *rules)
{
    int bad = vs_names_set_rules(rules);

    /* A key made this early is one of the first 32, whose values pthread_setspecific keeps in the thread
     * itself, so setting it calls no malloc, also in a signal handler. */
    have_exit_key = pthread_key_create(&exit_key, thread_exit) == 0;
    if (bad < 0)
        vs_log("VRAMSCOPE_PHASES: \"%s\" is no name=pattern; no NVTX range is a phase by rule",
               rules - 1 - bad);
    __atomic_store_n(&generation, vs_fork_number(), __ATOMIC_RELAXED);
}

static __attribute__((noinline)) void become_child(uint32_t now)
{
    /* a child begins with one thread, so there is no race */
    vs_pending_forget();
    vs_names_forget_journal();
    atomic_store_explicit(&vs_hot.lead, NULL, memory_order_relaxed);
    __atomic_store_n(&generation, now, __ATOMIC_RELEASE);
}

static uint32_t current_generation(void)
{
    uint32_t now = vs_fork_number();

    if (__builtin_expect(__atomic_load_n(&generation, __ATOMIC_RELAXED) != now, 0))
        become_child(now);
    return now;
}

/* ---- one thread's block ---- */

static void set_lead(const struct block *b)
{
    /* Relaxed: the pointer only leads to a block, and blocks are never unmapped. */
    if (atomic_load_explicit(&vs_hot.lead, memory_order_relaxed) != &b->current)
        atomic_store_explicit(&vs_hot.lead, &b->current, memory_order_relaxed);
}

/* Copies the current range of the calling thread's block B (NULL: none) to where reports of blocks read
 * it. */
static void update_self(const struct block *b)
{
    uint32_t range = b ? b->current : 0;

    vs_self.range = range == 0 && b && b->over_total ? VS_RANGE_UNKNOWN : range;
}

static void set_current(struct block *b, uint32_t range)
{
    /* Atomic, because threads that this one leads read it; relaxed, because the id is complete by itself. */
    __atomic_store_n(&b->current, range, __ATOMIC_RELAXED);
    update_self(b);
}

/* E's words come as arguments: if they were read back from E the compiler would merge the loads, and a wider
 * load has to wait for the narrower stores before it. */
static inline uint64_t write_push(uint32_t id, uint32_t parent, uint32_t flags, struct vs_range_names names)
{
    struct vs_range_event event = {
        .op = VS_OP_RANGE_PUSH, .id = id, .parent = parent, .flags = flags, .names = names, .owner = &own};

    return vs_pending_write(&event);
}

static void write_pop(uint32_t id, uint64_t ticket)
{
    struct vs_range_event event = {.op = VS_OP_RANGE_POP, .id = id, .owner = &own};

    if (!ticket || !vs_pending_cancel(ticket))
        vs_pending_write(&event);
}

/* After a fork: writes the ranges that the forking thread had open into the child's recording. */
static __attribute__((noinline)) void reopen(struct block *b, uint32_t now)
{
    b->generation = now;
    for (uint32_t i = 0; i < b->count; i++) {
        struct entry *e = &b->entries[i];

        if (e->key && e->id)
            e->ticket =
                write_push(e->id, e->parent, e->flags, (struct vs_range_names){e->name, e->domain, NULL, 0});
    }
    if (b->current)
        set_lead(b);
}

/* NULL: there is no memory.  Also in a signal handler. */
static struct block *all_blocks(void)
{
    size_t bytes = THREADS * sizeof(struct block);
    struct block *all = __atomic_load_n(&blocks, __ATOMIC_ACQUIRE), *none = NULL;
    int saved = errno;

    if (all)
        return all;
    all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) {
        errno = saved;
        return NULL;
    }
    if (__atomic_compare_exchange_n(&blocks, &none, all, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return all;
    munmap(all, bytes);
    return none; /* another thread was faster */
}

static __attribute__((noinline)) struct block *claim(uint32_t now)
{
    struct block *all = all_blocks();

    for (uint32_t i = 0; all && i < THREADS; i++) {
        uint32_t unused = 0;

        /* Acquire pairs with the release in thread_exit: the block's last user has finished. */
        if (__atomic_load_n(&all[i].used, __ATOMIC_RELAXED) ||
            !__atomic_compare_exchange_n(&all[i].used, &unused, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        all[i].generation = now;
        own = &all[i];
        if (have_exit_key)
            pthread_setspecific(exit_key, own);
        return own;
    }
    own = &none_left;
    vs_self.range = VS_RANGE_UNKNOWN;
    return NULL;
}

/* The calling thread's block; NULL: it has none (and, if MAKE, can't get one). */
static struct block *my_block(bool make)
{
    uint32_t now = current_generation();
    struct block *b = own;

    if (!b)
        return make ? claim(now) : NULL;
    if (__builtin_expect(b == &none_left, 0))
        return NULL;
    if (__builtin_expect(b->generation != now, 0))
        reopen(b, now);
    return b;
}

/* The innermost phase-naming range, markers before NVTX before automatic ones. */
static uint32_t find_current(const struct block *b)
{
    uint32_t best = 0, best_source = UINT32_MAX;

    for (uint32_t i = b->count; i-- > 0;) {
        const struct entry *e = &b->entries[i];
        uint32_t source = e->flags & VS_RANGE_SOURCE_MASK;

        if (e->key && (e->flags & VS_RANGE_NAMES_PHASE) && source < best_source) {
            best = e->id;
            best_source = source;
        }
    }
    return best;
}

static void thread_exit(void *block)
{
    struct block *b = block;

    current_generation();
    while (b->count > 0) {
        struct entry *e = &b->entries[b->count - 1];

        if (e->key && e->id)
            write_pop(e->id, e->ticket);
        e->key = 0;
        b->count--;
    }
    const uint32_t *mine = &b->current;

    set_current(b, 0);
    /* The block's next thread must not lead just because this one did. */
    atomic_compare_exchange_strong_explicit(&vs_hot.lead, &mine, NULL, memory_order_relaxed,
                                            memory_order_relaxed);
    memset(b->over, 0, sizeof(b->over));
    b->over_total = 0;
    vs_layer_now.ranges = 0;
    own = NULL;
    update_self(NULL);
    __atomic_store_n(&b->used, 0, __ATOMIC_RELEASE);
}

/* ---- layers ---- */

/* Copies the layer of the innermost range that has one to where the calling thread's allocations read it. */
static void update_layer(const struct block *b)
{
    for (uint32_t i = b->count; i-- > 0;) {
        const struct entry *e = &b->entries[i];

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
static void open_layer(const struct block *b, struct entry *e, enum vs_range_source source)
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
static struct entry *reserve(struct block *b)
{
    uint32_t i = b->count;

    if (i == DEPTH)
        return NULL;
    b->entries[i].key = 0;
    b->count = i + 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* from here on a signal handler uses the entry above */
    return &b->entries[i];
}

static const struct entry *below(const struct block *b, const struct entry *e, uint32_t key)
{
    while (e-- > b->entries)
        if (e->key && (!key || e->key == key))
            return e;
    return NULL;
}

/* The count of KEY's pushes beyond the stack's depth; NULL: there is no room for a count. */
static uint32_t *over(struct block *b, uint32_t key, bool make)
{
    for (int i = 0; i < KINDS_OVER; i++) {
        if (make && b->over[i].count == 0)
            b->over[i].key = key;
        if (b->over[i].key == key && (make || b->over[i].count))
            return &b->over[i].count;
    }
    return NULL;
}

static int push_beyond(struct block *b, uint32_t key)
{
    const struct entry *last = below(b, b->entries + b->count, key);
    uint32_t *count = over(b, key, true);
    int depth = (last ? (int)last->depth + 1 : 0) + (count ? (int)*count : 0);

    if (count) {
        ++*count;
        b->over_total++;
        update_self(b);
    }
    return depth;
}

uint32_t vs_range_open(const struct vs_range_names *names, enum vs_range_source source, int *depth)
{
    struct block *b = my_block(true);
    uint32_t key = key_of(names->domain, source);
    bool beyond = b && b->over_total && over(b, key, false); /* inside a range that is only counted */
    struct entry *e = b && !beyond ? reserve(b) : NULL;

    if (!e) {
        struct vs_journal *j = vs_record_journal();

        if (j && vs_record_enabled())
            vs_journal_lost_range(j);
        *depth = b ? push_beyond(b, key) : -1;
        return 0;
    }
    const struct entry *same = below(b, e, key), *parent = below(b, e, 0);
    uint32_t id = vs_record_enabled() ? new_id() : 0, parent_id = parent ? parent->id : 0;
    uint32_t flags = flags_of(names, source);

    e->id = id;
    e->parent = parent_id;
    e->flags = flags;
    e->depth = same ? same->depth + 1 : 0;
    e->name = names->name;
    e->domain = names->domain;
    *depth = (int)e->depth;
    e->ticket = id ? write_push(id, parent_id, flags, *names) : 0;
    open_layer(b, e, source);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    e->key = key;
    if (e->layer)
        update_layer(b);
    if (id && (flags & VS_RANGE_NAMES_PHASE)) {
        set_current(b, find_current(b));
        set_lead(b);
    }
    return id;
}

/* Removes entry AT from the stack; the entries above it (ranges of other domains) move down. */
static void remove_entry(struct block *b, struct entry *at)
{
    struct entry *end = &b->entries[b->count];

    at->key = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (at + 1 < end)
        memmove(at, at + 1, (size_t)(end - at - 1) * sizeof(*at));
    b->count--;
}

int vs_range_close(const struct vs_name *domain, enum vs_range_source source)
{
    struct block *b = my_block(false);
    uint32_t key = key_of(domain, source), *beyond;
    struct entry *e;

    if (!b)
        return -1;
    e = (struct entry *)below(b, b->entries + b->count, key);
    if (b->over_total && (beyond = over(b, key, false))) {
        b->over_total--;
        update_self(b);
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
        set_current(b, find_current(b));
    if (id)
        write_pop(id, ticket);
    return (int)depth;
}

uint32_t vs_range_start(const struct vs_range_names *names, enum vs_range_source source)
{
    struct vs_range_event event = {.op = VS_OP_RANGE_PUSH,
                                   .flags = (uint32_t)source | VS_RANGE_CROSS_THREAD,
                                   .names = *names,
                                   .owner = &own};

    current_generation();
    if (!vs_record_enabled())
        return 0;
    event.id = new_id();
    vs_pending_write(&event);
    return event.id;
}

bool vs_range_end(uint32_t id)
{
    struct vs_range_event event = {.op = VS_OP_RANGE_POP, .id = id, .owner = &own};

    current_generation();
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

    current_generation();
    if (!j || !vs_record_enabled())
        return false;
    struct vs_name *name = vs_name_intern(text, length);

    event.address = name ? vs_name_id(name) : vs_journal_string(j, text, length);
    event.size = domain ? vs_name_id(domain) : 0;
    return vs_record(&event) != VS_SEQ_NONE;
}

/* ---- by name, and now ---- */

static struct vs_name *intern(const char *text)
{
    return text ? vs_name_intern(text, strlen(text)) : NULL;
}

uint32_t vs_range_push(const char *name, const char *domain, enum vs_range_source source)
{
    const char *text = name ? name : "";
    struct vs_range_names names = {.text = text, .length = strlen(text), .domain = intern(domain)};
    int depth;

    names.name = vs_name_intern(text, names.length);
    return vs_range_open(&names, source, &depth);
}

int vs_range_pop(const char *domain, enum vs_range_source source)
{
    return vs_range_close(intern(domain), source);
}

uint32_t vs_range_current(void)
{
    const struct block *b = my_block(false);

    vs_pending_flush();
    if (b && b->current)
        return b->current;
    if (__builtin_expect(b ? b->over_total != 0 : own == &none_left, 0))
        return 0; /* its own innermost range is lost, and another thread's would be wrong */
    const uint32_t *leader = atomic_load_explicit(&vs_hot.lead, memory_order_relaxed);

    return leader ? __atomic_load_n(leader, __ATOMIC_RELAXED) : 0;
}

uint32_t vs_range_lead(void)
{
    struct block *b = my_block(true);

    if (b)
        set_lead(b);
    return current_generation();
}
