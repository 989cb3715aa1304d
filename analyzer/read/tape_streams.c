/*
 * tape_streams.c - see tape_parts.h.  Of a request the thread's current stream was recorded, which need not
 * be the one that it was for.  So the blocks of a home vote on its stream.
 *
 * A home is a segment, or of expandable segments a reservation of addresses, until nothing is mapped there:
 * PyTorch then gives the addresses back, and the next reservation may get them.
 */
#include "tape_parts.h"
#include "tape.h"

#include <stdlib.h>

#define NO_HOME UINT32_MAX

struct home {
    uint16_t stream; /* the one that leads */
    uint32_t votes;  /* of its lead */
    uint64_t mapped; /* of a reservation, bytes */
};

struct homes {
    struct trace_tape *tape;
    struct home *at;
    size_t n;
    struct vs_spans living; /* address -> home */
    uint32_t *of;           /* by event */
};

static uint32_t new_home(struct homes *h)
{
    struct home none = {STREAM_UNKNOWN, 0, 0};
    *PUSH(h->at, h->n) = none;
    return (uint32_t)(h->n - 1);
}

/* Majority by pairing off: whoever has more than half of the votes leads at the end. */
static void vote(struct home *h, uint16_t stream)
{
    if (stream == STREAM_UNKNOWN)
        return;
    if (h->votes == 0)
        h->stream = stream;
    h->votes += h->stream == stream ? 1 : (uint32_t)-1;
}

static uint32_t home_at(const struct homes *h, uint64_t address)
{
    const struct vs_span *span = vs_spans_at(&h->living, address);
    return span ? span->value : NO_HOME;
}

static void begin_segment(struct homes *h, const struct tape_event *e)
{
    const struct vs_span *old;
    while ((old = vs_spans_from(&h->living, e->address)) && old->start < e->address + e->size)
        vs_spans_remove(&h->living, old->start); /* its end was not seen */
    vs_spans_insert(&h->living, e->address, e->address + e->size, new_home(h));
}

/* Memory is mapped to a reservation, or leaves it: where none is left its addresses are a new home. */
static void count_mapped(struct homes *h, const struct tape_event *e)
{
    const struct vs_span *span = vs_spans_at(&h->living, e->address);
    if (!span)
        return;
    struct vs_span range = *span;
    struct home *home = &h->at[range.value];
    home->mapped += e->what == TAPE_MAP ? e->size : -e->size;
    if (home->mapped)
        return;
    vs_spans_remove(&h->living, range.start);
    vs_spans_insert(&h->living, range.start, range.end, new_home(h));
}

static void look(struct homes *h, size_t i)
{
    const struct tape_event *e = &h->tape->at[i];
    h->of[i] = NO_HOME;
    if (e->what == TAPE_SEGMENT_ALLOC)
        begin_segment(h, e);
    if (e->what == TAPE_ALLOC || (e->what >= TAPE_SEGMENT_ALLOC && e->what <= TAPE_UNMAP))
        h->of[i] = home_at(h, e->address);
    if (e->what == TAPE_ALLOC && h->of[i] != NO_HOME)
        vote(&h->at[h->of[i]], e->stream);
    if (e->what == TAPE_MAP || e->what == TAPE_UNMAP)
        count_mapped(h, e);
    if (e->what == TAPE_SEGMENT_FREE)
        vs_spans_remove(&h->living, e->address);
}

/* False: nothing is known of a request. */
static bool settle(struct homes *h)
{
    bool known = true;
    for (size_t i = 0; i < h->tape->n; i++) {
        struct tape_event *e = &h->tape->at[i];
        uint16_t home = h->of[i] == NO_HOME ? STREAM_UNKNOWN : h->at[h->of[i]].stream;
        if (home != STREAM_UNKNOWN) {
            h->tape->guessed += e->what == TAPE_ALLOC && e->stream == STREAM_UNKNOWN;
            e->stream = home;
        }
        known = known && (e->what != TAPE_ALLOC || e->stream != STREAM_UNKNOWN);
        if (e->stream == STREAM_UNKNOWN)
            e->stream = 0;
    }
    return known;
}

bool tape_find_streams(struct trace_tape *tape, const struct vs_spans *reserved)
{
    struct homes h = {.tape = tape, .of = xrealloc(NULL, (tape->n + 1) * sizeof *h.of)};
    const struct vs_span *span;
    for (uint64_t from = 0; (span = vs_spans_from(reserved, from)); from = span->end)
        vs_spans_insert(&h.living, span->start, span->end, new_home(&h));
    for (size_t i = 0; i < tape->n; i++)
        look(&h, i);
    bool known = settle(&h);
    vs_spans_free(&h.living);
    free(h.at);
    free(h.of);
    return known;
}

/* ---- the pieces of an import ---- */

static void remove_pieces(struct homes *h, uint64_t address, uint64_t size)
{
    const struct vs_span *old;
    while ((old = vs_spans_from(&h->living, address)) && old->start < address + size)
        vs_spans_remove(&h->living, old->start);
}

/* A piece that touches another one is of the same segment. */
static void begin_piece(struct homes *h, const struct tape_event *e)
{
    uint32_t home = e->address ? home_at(h, e->address - 1) : NO_HOME;
    if (home == NO_HOME)
        home = home_at(h, e->address + e->size);
    remove_pieces(h, e->address, e->size);
    vs_spans_insert(&h->living, e->address, e->address + e->size, home == NO_HOME ? new_home(h) : home);
}

void tape_find_pieces(struct trace_tape *tape)
{
    struct homes h = {.tape = tape, .of = xrealloc(NULL, (tape->n + 1) * sizeof *h.of)};
    for (size_t i = 0; i < tape->n; i++) {
        const struct tape_event *e = &tape->at[i];
        if (e->what == TAPE_MAP)
            begin_piece(&h, e);
        h.of[i] = e->what == TAPE_MAP || e->what == TAPE_UNMAP || e->what == TAPE_ALLOC
                      ? home_at(&h, e->address)
                      : NO_HOME;
        if (e->what == TAPE_UNMAP)
            remove_pieces(&h, e->address, e->size);
        if (e->what == TAPE_ALLOC && h.of[i] != NO_HOME)
            vote(&h.at[h.of[i]], e->stream);
    }
    for (size_t i = 0; i < tape->n; i++) {
        struct tape_event *e = &tape->at[i];
        if (e->what != TAPE_ALLOC && h.of[i] != NO_HOME && h.at[h.of[i]].stream != STREAM_UNKNOWN)
            e->stream = h.at[h.of[i]].stream;
    }
    vs_spans_free(&h.living);
    free(h.at);
    free(h.of);
}
