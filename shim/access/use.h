/*
 * use.h - the access ledger, on the side of the program: puts what the device is given into the ring.
 *
 *      blocks are born               vs_access_after                from record's events
 *      the device is given words     vs_use_begin, vs_use_add       from the hooks of launches and copies
 *
 * Every word that may lie in a block (core/pages.h) goes into the ring as it is, in among the events; which
 * block it lies in is found by who takes them out (trace/uses).  So a launch reads nothing about blocks; no
 * lock, no allocation.  Uses by addresses that lie in device memory are covered by rules only (vs_use_copy,
 * vs_use_reaching).  All of it does nothing unless vs_access_on(), a load.
 */
#ifndef VS_ACCESS_USE_H
#define VS_ACCESS_USE_H

#include "box.h"
#include "core/hot.h"
#include "core/pages.h"
#include "trace/access.h"
#include "trace/event.h"
#include "trace/journal/journal.h"

/* Relaxed: the journal's rows exist before the first block is born, and a child of fork reads 0. */
static inline bool vs_access_on(void)
{
    return __builtin_expect(atomic_load_explicit(&vs_hot.access, memory_order_relaxed) != 0, 0) &&
           vs_self.internal == 0;
}

/* ---- blocks; by the recording (record/record.h) ---- */

/* A recording into J begins with no blocks. */
void vs_access_begin(struct vs_journal *j);
/* Called before EVENT is recorded. */
void vs_access_before(struct vs_event *event);
/* Called after EVENT was recorded as SEQ (VS_SEQ_NONE: it was not). */
void vs_access_after(const struct vs_event *event, uint64_t seq);

/* ---- uses ---- */

struct vs_use {
    uint64_t now;
    uint32_t name, phase; /* string ids: the kernel or operation; the phase, 0 none */
    uint16_t kinds;       /* enum vs_access_kind */
    uint8_t phases;       /* enum vs_access_phase, one of them */
};

/* To be called before the work is looked at: the slots of the ring that its words will go into are fetched
 * meanwhile. */
void vs_use_fetch(void);
/* Prepares a use of KINDS, by the work NAME, now and by the calling thread. */
struct vs_use vs_use_begin(uint32_t name, uint16_t kinds);

/* Words that may be addresses, kept until there are enough for a few events. */
#define VS_USE_BATCH 32u
struct vs_use_batch {
    struct vs_pages_span span;
    uint32_t n;
    uint64_t word[VS_USE_BATCH]; /* with VS_USE_SURE */
};
/* Empties B, of which nothing else is initialized. */
static inline void vs_use_batch_begin(struct vs_use_batch *b)
{
    b->span = vs_pages_now();
    b->n = 0;
}

/* Records that the device is given the words of B, which is empty then. */
void vs_use_flush(const struct vs_use *u, struct vs_use_batch *b);

/* SURE: the word is not one that an earlier call may have left there (trace/access.h). */
static inline void vs_use_add(const struct vs_use *u, struct vs_use_batch *b, uint64_t word, bool sure)
{
    if (!vs_pages_within(b->span, word))
        return;
    b->word[b->n] = sure ? word | VS_USE_SURE : word;
    b->n += vs_pages_may(word);
    if (__builtin_expect(b->n == VS_USE_BATCH, 0))
        vs_use_flush(u, b);
}

/* Adds COUNT words from AT on, which need not be aligned. */
void vs_use_words(const struct vs_use *u, struct vs_use_batch *b, const void *at, size_t count, bool sure);

/* Records that the device is given WORD. */
void vs_use_word(const struct vs_use *u, uint64_t word, bool sure);
/* ... the memory from ADDRESS on, SIZE bytes (0: not known). */
void vs_use_memory(const struct vs_use *u, uint64_t address, uint64_t size);

/* ... SIZE bytes that are copied FROM somewhere TO somewhere: kernels may find the blocks whose addresses are
 * among them.  May change errno, as the next. */
void vs_use_copy(const struct vs_use *u, uint64_t to, uint64_t size, const struct vs_box *from);
/* Likewise SIZE bytes that a graph copies; nothing is recorded of what cannot be read. */
void vs_use_source(uint64_t from, uint64_t size);
/* Whether one of the driver's allocations has ADDRESS, as far as they are known. */
bool vs_use_is_drivers(uint64_t address);

/* Records that the device was given work that may use any block. */
void vs_use_reaching(void);

/* Whether kernels of this NAME find addresses in device memory. */
bool vs_use_name_reaches(const char *name);

#endif
