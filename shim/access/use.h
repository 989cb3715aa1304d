/*
 * use.h - the access ledger: records which living blocks the device is given, when, by which work and in
 * which phase.
 *
 *      blocks are born and freed    vs_access_born, vs_access_died   from record's events
 *      the device is given words    vs_use_begin, vs_use_word        from the hooks of launches and copies
 *
 * Every word that lies inside a living block counts as a use of it, and is written into the block's row of
 * the journal (trace/journal/journal.h): no event, no lock, no allocation.  A word need not be a pointer, so
 * false uses may be recorded; a true use by such a word is never missed.  Uses by addresses that lie in
 * device memory are covered by rules only:
 *
 *      vs_use_stored     addresses that a copy from the host puts into device memory
 *      vs_use_reaching   work that is known to find addresses in memory, or whose parameters cannot be read:
 *                        it may have used every block that lives then
 *
 * All of it does nothing unless VRAMSCOPE_ACCESS is on and a recording runs: vs_access_on(), a load.
 */
#ifndef VS_ACCESS_USE_H
#define VS_ACCESS_USE_H

#include "living.h"
#include "core/hot.h"
#include "trace/event.h"
#include "trace/journal/journal.h"

/* Relaxed: the journal's rows exist before the first block is born, and a child of fork reads 0. */
static inline bool vs_access_on(void)
{
    return __builtin_expect(atomic_load_explicit(&vs_hot.access, memory_order_relaxed) != 0, 0) &&
           vs_self.internal == 0;
}

/* ---- blocks; by the recording (record/suppliers.h) ---- */

/* A recording into J begins with an empty map. */
void vs_access_begin(struct vs_journal *j);
/* Called before EVENT is recorded: if it is an end, removes its block and puts the block's row into
 * event->stack. */
void vs_access_before(struct vs_event *event);
/* Called after EVENT was recorded as SEQ (VS_SEQ_NONE: it was not). */
void vs_access_after(const struct vs_event *event, uint64_t seq);

/* ---- uses ---- */

struct vs_use {
    uint64_t now;
    uint32_t name, phase, step; /* string ids: the kernel or operation; the phase, 0 none */
    uint16_t kinds;             /* enum vs_access_kind */
    uint8_t phases;             /* enum vs_access_phase, one of them */
    bool sure;                  /* not by a word that an earlier call may have left (trace/access.h) */
};

/* Prepares a sure use of KINDS, by the work NAME, now and by the calling thread. */
struct vs_use vs_use_begin(uint32_t name, uint16_t kinds);

/* All blocks lie between these two bounds; words outside of them are not addresses. */
extern _Atomic uint64_t vs_use_lowest, vs_use_highest;
extern struct vs_access_row *vs_use_rows;

void vs_use_first(struct vs_access_row *row, const struct vs_use *u);

/* Plain loads and stores: if two threads use the same block within nanoseconds one count may be lost, or the
 * earlier time may overwrite the later one. */
static inline void vs_use_row(struct vs_access_row *row, const struct vs_use *u)
{
#define GET(field)        __atomic_load_n(&row->field, __ATOMIC_RELAXED)
#define PUT(field, value) __atomic_store_n(&row->field, (value), __ATOMIC_RELAXED)
    uint64_t last = GET(last_ns);
    if (u->sure && GET(sure_last_ns) < u->now) {
        if (__builtin_expect(GET(sure_last_ns) == 0, 0))
            PUT(sure_first_ns, u->now);
        PUT(sure_last_ns, u->now);
    }
    if (last == u->now && GET(last_name) == u->name) { /* another word of the same work */
        PUT(kinds, (uint16_t)(GET(kinds) | u->kinds));
        return;
    }
    uint32_t uses = GET(uses);
    if (__builtin_expect(uses == 0, 0)) {
        vs_use_first(row, u);
    } else if (u->now > last && u->now - last > GET(gap_ns)) {
        PUT(gap_ns, u->now - last);
        PUT(gap_end_ns, u->now);
    }
    if (GET(last_step) != u->step) {
        PUT(last_step, u->step);
        PUT(steps, GET(steps) + 1);
    }
    if (u->now >= last) {
        PUT(last_ns, u->now);
        PUT(last_name, u->name);
        PUT(last_phase, u->phase);
    }
    PUT(uses, uses == UINT32_MAX ? uses : uses + 1);
    PUT(kinds, (uint16_t)(GET(kinds) | u->kinds));
    PUT(phases, (uint8_t)(GET(phases) | u->phases));
#undef GET
#undef PUT
}

/* Whether ROW is that of a block that contains ADDRESS. */
static inline bool vs_use_in(const struct vs_access_row *row, uint64_t address)
{
    return address >= __atomic_load_n(&row->address, __ATOMIC_RELAXED) &&
           address < __atomic_load_n(&row->end, __ATOMIC_RELAXED);
}

/* The row of the living block in MAP that contains ADDRESS; NULL: none. */
static inline struct vs_access_row *vs_use_look(enum vs_living map, uint64_t address)
{
    uint32_t id = vs_living_find(map, address);
    struct vs_access_row *row = &vs_use_rows[id];
    return id != 0 && vs_use_in(row, address) ? row : NULL;
}

/* The row of the innermost living block that contains WORD as an address; NULL: none. */
static inline struct vs_access_row *vs_use_find(uint64_t word)
{
    if (word < atomic_load_explicit(&vs_use_lowest, memory_order_relaxed) ||
        word >= atomic_load_explicit(&vs_use_highest, memory_order_relaxed))
        return NULL;
    struct vs_access_row *row = vs_use_look(VS_LIVING_FRAMEWORK, word);
    return row != NULL ? row : vs_use_look(VS_LIVING_DRIVER, word);
}

/* Records that the device is given WORD. */
static inline void vs_use_word(const struct vs_use *u, uint64_t word)
{
    struct vs_access_row *row = vs_use_find(word);
    if (row != NULL)
        vs_use_row(row, u);
}

/* Words that may be addresses, kept until the lines that they lead to have been asked for, all at once: each
 * would otherwise be waited for in turn. */
#define VS_USE_BATCH 32u
struct vs_use_batch {
    uint32_t n;
    uint64_t word[VS_USE_BATCH]; /* with VS_USE_SURE */
};
#define VS_USE_SURE (UINT64_C(1) << 63) /* no address has this bit */
/* Records that the device is given the words of B, which is empty then; u->sure does not count. */
void vs_use_flush(const struct vs_use *u, struct vs_use_batch *b);

static inline void vs_use_add(const struct vs_use *u, struct vs_use_batch *b, uint64_t word, bool sure)
{
    b->word[b->n] = sure ? word | VS_USE_SURE : word;
    b->n += word >= atomic_load_explicit(&vs_use_lowest, memory_order_relaxed) &&
            word < atomic_load_explicit(&vs_use_highest, memory_order_relaxed);
    if (__builtin_expect(b->n == VS_USE_BATCH, 0))
        vs_use_flush(u, b);
}

/* Adds COUNT words from AT on, which need not be aligned. */
void vs_use_words(const struct vs_use *u, struct vs_use_batch *b, const void *at, size_t count, bool sure);

/* ... the memory from ADDRESS on, SIZE bytes (0: not known). */
void vs_use_memory(const struct vs_use *u, uint64_t address, uint64_t size);

/* Records that SIZE bytes at FROM, in any memory, are copied to the device: kernels may find the blocks
 * whose addresses are among them.  Of long copies only the first VS_USE_STORED_MAX bytes are checked. */
#define VS_USE_STORED_MAX (64u << 10)
void vs_use_stored(const void *from, uint64_t size);

/* Records that the device was given work that may use any block. */
void vs_use_reaching(void);

/* Whether kernels of this NAME find addresses in device memory. */
bool vs_use_name_reaches(const char *name);

#endif
