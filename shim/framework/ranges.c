/*
 * ranges.c - which range an event belongs to.
 *
 * Every thread that opens a range gets a block with its stack of open ranges; its pointer is all that stands
 * in thread-local storage, so that the shim can also be loaded late.  Entries remember source and domain:
 * NVTX domains interleave freely, so a pop takes out the innermost entry of its own kind, wherever it stands.
 *
 *      thread block:  [forward, automatic] [conv1, NVTX "torch"] [logits, marker]      current = logits
 *      lead:          the block of who last opened a phase or ended a step; its `current` is that of threads
 * without
 *
 * `current` is worked out at push and pop, so that an event costs one or two loads.  What a block's report
 * needs of it stands where that finds it without coming here (hot.h): vs_self.range, vs_hot.lead.
 *
 * A signal handler may push and pop at any point of a push or a pop that it interrupts, as long as it leaves
 * the stack as it found it: an entry is claimed by count and shows only once its key is written.
 *
 * A fork child finds another number of the process than the one that it remembers (core/fork.h) and starts
 * over: the forking thread's open ranges stay open and are written again into the child's own recording.
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
    uint32_t key; /* source << 28 | domain index; 0: nothing here */
    uint32_t id, parent, flags;
    uint32_t depth; /* open ranges of the same key below it */
    struct vs_name *name, *domain;
    uint64_t ticket; /* of the push while it waits */
    uint32_t layer;  /* the path of ranges from the outermost to this one (layers.h); 0: it is in none */
    uint32_t module; /* whose call was open when it opened */
    int32_t task;    /* and the backward that ran */
};

struct block {
    _Alignas(64) uint32_t used; /* atomic: taken by a thread */
    uint32_t generation;        /* of the process that the entries belong to */
    uint32_t count;
    uint32_t current; /* atomic: what vs_range_current answers; 0: nothing of our own */
    uint32_t over_total;
    struct entry entries[DEPTH];
    struct {
        uint32_t key, count;
    } over[KINDS_OVER]; /* pushes that found the stack full, by kind: `over_total` all together */
};

/* THREADS of them, mapped for the first one and never unmapped: a program without ranges does not pay for
 * them in address space, which may be limited (ulimit -v). */
static struct block *blocks; /* atomic */
/* On a line of its own: every push writes it, and every event reads what would lie beside it. */
static _Alignas(64) struct {
    uint32_t last_id; /* atomic */
    char rest[60];
} ids;
static __thread struct block *own;
/* The block of threads that found none: their ranges are lost, and their events have no phase, not even that
 * of the thread that leads. */
static struct block none_left;
static VS_HOT uint32_t generation; /* atomic: vs_fork_number() of the process that all this is of */
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

    /* Made this early the key is one of the first 32, whose values pthread_setspecific keeps in the thread
     * itself: no malloc, also in a signal handler. */
    have_exit_key = pthread_key_create(&exit_key, thread_exit) == 0;
    if (bad < 0)
        vs_log("VRAMSCOPE_PHASES: \"%s\" is no name=pattern; no NVTX range is a phase by rule",
               rules - 1 - bad);
    __atomic_store_n(&generation, vs_fork_number(), __ATOMIC_RELAXED);
}

static __attribute__((noinline)) void become_child(uint32_t now)
{
    /* a child begins with one thread: there is no race */
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
    /* Relaxed: nothing is read through it but a block, and blocks stay where they are. */
    if (atomic_load_explicit(&vs_hot.lead, memory_order_relaxed) != &b->current)
        atomic_store_explicit(&vs_hot.lead, &b->current, memory_order_relaxed);
}

/* What the calling thread's block B (NULL: none) means for its events. */
static void tell_self(const struct block *b)
{
    uint32_t range = b ? b->current : 0;

    vs_self.range = range == 0 && b && b->over_total ? VS_RANGE_UNKNOWN : range;
}

static void set_current(struct block *b, uint32_t range)
{
    /* Atomic for those whom this thread leads; relaxed: the id says all by itself. */
    __atomic_store_n(&b->current, range, __ATOMIC_RELAXED);
    tell_self(b);
}

/* E's words come as arguments: read back from E they would be joined into wider loads, which wait for the
 * stores that made them. */
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

/* After a fork: what the forking thread had open is open in the child's recording as well. */
static __attribute__((noinline)) void adopt(struct block *b, uint32_t now)
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
    return none; /* another thread's, which was faster */
}

static __attribute__((noinline)) struct block *claim(uint32_t now)
{
    struct block *all = all_blocks();

    for (uint32_t i = 0; all && i < THREADS; i++) {
        uint32_t unused = 0;

        /* Acquire pairs with the release in thread_exit: the block's last user is done with it. */
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

/* The calling thread's block, NULL where it has none (and can't get one, when MAKE). */
static struct block *my_block(bool make)
{
    uint32_t now = current_generation();
    struct block *b = own;

    if (!b)
        return make ? claim(now) : NULL;
    if (__builtin_expect(b == &none_left, 0))
        return NULL;
    if (__builtin_expect(b->generation != now, 0))
        adopt(b, now);
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
    /* The block's next thread does not lead because this one did. */
    atomic_compare_exchange_strong_explicit(&vs_hot.lead, &mine, NULL, memory_order_relaxed,
                                            memory_order_relaxed);
    memset(b->over, 0, sizeof(b->over));
    b->over_total = 0;
    vs_layer_now.ranges = 0;
    own = NULL;
    tell_self(NULL);
    __atomic_store_n(&b->used, 0, __ATOMIC_RELEASE);
}

/* ---- layers ---- */

/* What the innermost range that is part of a path means for the calling thread's allocations. */
static void tell_layer(const struct block *b)
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

/* Automatic ranges are phases alone. */
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

/* The next place on the stack, empty until its key is written; NULL: full. */
static struct entry *reserve(struct block *b)
{
    uint32_t i = b->count;

    if (i == DEPTH)
        return NULL;
    b->entries[i].key = 0;
    b->count = i + 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* a signal handler from here on uses the place above */
    return &b->entries[i];
}

static const struct entry *below(const struct block *b, const struct entry *e, uint32_t key)
{
    while (e-- > b->entries)
        if (e->key && (!key || e->key == key))
            return e;
    return NULL;
}

/* The count of pushes beyond the stack's depth for KEY, NULL where none can be kept. */
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
        tell_self(b);
    }
    return depth;
}

uint32_t vs_range_open(const struct vs_range_names *names, enum vs_range_source source, int *depth)
{
    struct block *b = my_block(true);
    uint32_t key = key_of(names->domain, source);
    bool beyond = b && b->over_total && over(b, key, false); /* still inside one that is only counted */
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
        tell_layer(b);
    if (id && (flags & VS_RANGE_NAMES_PHASE)) {
        set_current(b, find_current(b));
        set_lead(b);
    }
    return id;
}

/* Takes entry AT out of the stack; those above it (other domains' ranges) move down. */
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
        tell_self(b);
        return (e ? (int)e->depth + 1 : 0) + (int)--*beyond;
    }
    if (!e)
        return -1;
    /* Word by word: a copy of the entry, as wide as the processor likes, would wait for the push's stores. */
    uint32_t id = e->id, depth = e->depth;
    uint64_t ticket = e->ticket;
    bool layer = e->layer != 0;

    remove_entry(b, e);
    if (layer)
        tell_layer(b);
    if (id && id == b->current) /* before the pop: no event may name a range behind its end */
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
        return 0; /* inside a range of its own that is lost: no other thread's is any nearer */
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
