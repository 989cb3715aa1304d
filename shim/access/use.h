/*
 * use.h - the access ledger: which living blocks the device is given, when, by what, in which phase.
 *
 *      blocks are born and freed    vs_access_born, vs_access_died   from record's events
 *      the device is given words    vs_use_begin, vs_use_word        from the hooks of launches and copies
 *
 * Every word that lies inside a living block counts as a use of it, and is written into the block's row of
 * the journal (trace/journal/journal.h): no event, no lock, no allocation.  A word need not be a pointer, so
 * a use that did not happen may be seen; one that did happen, by way of a word, is never missed.  What is
 * given otherwise (addresses that lie in device memory) is seen by rule alone:
 *
 *      vs_use_stored     addresses that a copy from the host puts into device memory
 *      vs_use_reaching   work that is known to find its addresses in memory, or that nobody can look into:
 *                        every block that lives then may have been reached
 *
 * All of it does nothing unless VRAMSCOPE_ACCESS is on and a recording runs: vs_access_follows(), a load.
 */
#ifndef VS_ACCESS_USE_H
#define VS_ACCESS_USE_H

#include "living.h"
#include "core/hot.h"
#include "trace/event.h"
#include "trace/journal/journal.h"

/* Relaxed: the journal's rows were there before the first block was born, and a child of fork reads 0. */
static inline bool vs_access_follows(void)
{
    return __builtin_expect(atomic_load_explicit(&vs_hot.access, memory_order_relaxed) != 0, 0) &&
           vs_self.internal == 0;
}

/* ---- blocks; by the recording (record/suppliers.h) ---- */

/* A recording into J begins: nothing is known. */
void vs_access_begin(struct vs_journal *j);
/* Before EVENT is recorded: of an end takes out its block, whose row it names in event->stack. */
void vs_access_before(struct vs_event *event);
/* After EVENT was recorded as SEQ (VS_SEQ_NONE: it was not). */
void vs_access_after(const struct vs_event *event, uint64_t seq);

/* ---- uses ---- */

struct vs_use {
    uint64_t now;
    uint32_t name, phase, step; /* string ids: what the device does; in which phase, 0 none */
    uint16_t kinds;             /* enum vs_access_kind */
    uint8_t phases;             /* enum vs_access_phase, one of them */
};

/* A use now, by the calling thread, of KINDS by what is called NAME. */
struct vs_use vs_use_begin(uint32_t name, uint16_t kinds);

/* No block has had an address below the one, or from the other on: such words are no addresses. */
extern _Atomic uint64_t vs_use_lowest, vs_use_highest;
extern struct vs_access_row *vs_use_rows;

void vs_use_first(struct vs_access_row *row, const struct vs_use *u);

/* Plain loads and stores: two threads that give the same block to the device within nanoseconds may lose one
 * count, and the later time for the earlier one where the first was interrupted between the two. */
static inline void vs_use_row(struct vs_access_row *row, const struct vs_use *u)
{
#define GET(field)        __atomic_load_n(&row->field, __ATOMIC_RELAXED)
#define PUT(field, value) __atomic_store_n(&row->field, (value), __ATOMIC_RELAXED)
    uint64_t last = GET(last_ns);
    if (last == u->now && GET(last_name) == u->name) { /* once more by the same work */
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

/* The row of the living block in MAP that ADDRESS lies in; NULL: in none. */
static inline struct vs_access_row *vs_use_look(enum vs_living map, uint64_t address)
{
    uint32_t id = vs_living_find(map, address);
    struct vs_access_row *row = &vs_use_rows[id];
    return id != 0 && address >= __atomic_load_n(&row->address, __ATOMIC_RELAXED) &&
                   address < __atomic_load_n(&row->end, __ATOMIC_RELAXED)
               ? row
               : NULL;
}

/* The row of the innermost living block that WORD may be an address in; NULL: none. */
static inline struct vs_access_row *vs_use_find(uint64_t word)
{
    if (word < atomic_load_explicit(&vs_use_lowest, memory_order_relaxed) ||
        word >= atomic_load_explicit(&vs_use_highest, memory_order_relaxed))
        return NULL;
    struct vs_access_row *row = vs_use_look(VS_LIVING_FRAMEWORK, word);
    return row != NULL ? row : vs_use_look(VS_LIVING_DRIVER, word);
}

/* The device is given WORD. */
static inline void vs_use_word(const struct vs_use *u, uint64_t word)
{
    struct vs_access_row *row = vs_use_find(word);
    if (row != NULL)
        vs_use_row(row, u);
}

/* ... COUNT words from AT on, which need not be aligned. */
void vs_use_words(const struct vs_use *u, const void *at, size_t count);

/* ... the memory from ADDRESS on, SIZE bytes (0: not known). */
void vs_use_memory(const struct vs_use *u, uint64_t address, uint64_t size);

/* SIZE bytes at FROM, which may be any memory, are copied to the device: the blocks whose addresses are among
 * them may be found there.  Of long copies the first VS_USE_STORED_MAX bytes are looked through. */
#define VS_USE_STORED_MAX (64u << 10)
void vs_use_stored(const void *from, uint64_t size);

/* Work that may find the address of any block was given to the device. */
void vs_use_reaching(void);

/* Whether a kernel of this NAME finds addresses in device memory. */
bool vs_use_name_reaches(const char *name);

#endif
