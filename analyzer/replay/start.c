/*
 * start.c - the state that a tape begins with, as blocks of the simulated allocator.
 *
 *      segment   |block|  gap   |block |gap|block    |
 *
 * A gap is a free block, but for one that the allocator would not have split off: that belongs to the block
 * before it.
 */
#include "replay.h"

#include <stdlib.h>

#define SPLIT_MOST    (UINT64_C(1) << 20) /* of a rest that a large block keeps */
#define SMALL_SEGMENT (UINT64_C(2) << 20)
#define FAR           (UINT64_C(1) << 44) /* between mapped ranges that cannot be of one reservation */

struct piece { /* a segment, or a mapped piece of an expandable one; a block of either */
    uint64_t address, size;
    uint32_t id;
    uint16_t stream;
    bool pending;
};

struct pieces {
    struct piece *at;
    size_t n;
};

static int by_address(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

static void collect(const struct trace_tape *tape, struct pieces *segments, struct pieces *blocks)
{
    for (size_t i = 0; i < tape->start; i++) {
        const struct tape_event *e = &tape->at[i];
        struct piece p = {e->address, e->size, e->id, e->stream, false};
        if (e->what == TAPE_SEGMENT_ALLOC || e->what == TAPE_MAP)
            *PUSH(segments->at, segments->n) = p;
        else if (e->what == TAPE_ALLOC)
            *PUSH(blocks->at, blocks->n) = p;
        else if (e->what == TAPE_FREE && blocks->n && blocks->at[blocks->n - 1].id == e->id)
            blocks->at[blocks->n - 1].pending = true; /* freed just before, and not reusable */
    }
    if (segments->n)
        qsort(segments->at, segments->n, sizeof *segments->at, by_address);
    if (blocks->n)
        qsort(blocks->at, blocks->n, sizeof *blocks->at, by_address);
}

/* Mapped pieces that touch are one range. */
static void join(struct pieces *segments)
{
    size_t n = 0;
    for (size_t i = 0; i < segments->n; i++) {
        struct piece *last = n ? &segments->at[n - 1] : NULL;
        if (last && last->address + last->size == segments->at[i].address)
            last->size += segments->at[i].size;
        else
            segments->at[n++] = segments->at[i];
    }
    segments->n = n;
}

struct builder {
    struct torch *t;
    uint32_t *numbers; /* blocks by id */
    uint64_t live;
    uint32_t last; /* block of the segment */
    bool small;
};

static void place(struct builder *b, uint64_t address, uint64_t size, uint16_t stream, bool allocated)
{
    b->last = torch_place(b->t, b->last, address, size, stream, b->small, allocated, true);
}

/* How much of the ROOM up to the next block belongs to a block of SIZE. */
static uint64_t extent(const struct builder *b, uint64_t size, uint64_t room)
{
    const struct torch_settings *s = &b->t->settings;
    uint64_t rounded = torch_round(s, size);
    if (rounded > room)
        return room; /* the tape lacks something */
    if (b->small || s->expandable)
        return rounded;
    return rounded >= s->max_split || room - rounded <= SPLIT_MOST ? room : rounded;
}

static void place_block(struct builder *b, const struct piece *p, uint64_t size, uint16_t stream)
{
    place(b, p->address, size, stream, true);
    b->numbers[p->id] = b->last;
    if (p->pending)
        torch_release(b->t, b->last, true);
    if (p->pending)
        b->t->blocks[b->last].tag = p->id;
    else
        b->live += p->size;
}

/* The blocks from FIRST on that lie in the segment; returns the first behind it. */
static size_t fill(struct builder *b, const struct piece *segment, const struct pieces *blocks, size_t first,
                   uint16_t stream)
{
    uint64_t at = segment->address, end = at + segment->size;
    size_t i = first;
    while (i < blocks->n && blocks->at[i].address < at)
        i++; /* in no segment */
    for (; i < blocks->n && blocks->at[i].address < end; i++) {
        const struct piece *p = &blocks->at[i];
        if (p->address < at)
            continue; /* it overlaps: the tape is wrong */
        uint64_t next =
            i + 1 < blocks->n && blocks->at[i + 1].address < end ? blocks->at[i + 1].address : end;
        if (p->address > at)
            place(b, at, p->address - at, stream, false);
        uint64_t size = extent(b, p->size, next - p->address);
        place_block(b, p, size, stream);
        at = p->address + size;
    }
    if (at < end)
        place(b, at, end - at, stream, false);
    return i;
}

/* An expandable segment's stream and pool are those of its first block; without any it serves large ones. */
static void learn(struct builder *b, const struct piece *segment, const struct pieces *blocks, size_t first,
                  bool expandable, uint16_t *stream)
{
    b->small = segment->size <= SMALL_SEGMENT;
    *stream = segment->stream;
    if (!expandable)
        return;
    while (first < blocks->n && blocks->at[first].address < segment->address)
        first++;
    bool any = first < blocks->n && blocks->at[first].address < segment->address + segment->size;
    b->small = any && torch_is_small(torch_round(&b->t->settings, blocks->at[first].size));
    *stream = any ? blocks->at[first].stream : 0;
}

/* Addresses behind a mapped range, up to the next one or without end. */
static void place_unmapped(struct builder *b, const struct pieces *segments, size_t i, uint16_t stream)
{
    uint64_t end = segments->at[i].address + segments->at[i].size, size = FAR;
    if (i + 1 < segments->n && segments->at[i + 1].address - end < FAR)
        size = segments->at[i + 1].address - end;
    b->last = torch_place(b->t, b->last, end, size, stream, b->small, false, false);
}

uint64_t start_state(struct torch *t, const struct trace_tape *tape, uint32_t *blocks)
{
    struct pieces segments = {0}, living = {0};
    struct builder b = {.t = t, .numbers = blocks};
    bool expandable = t->settings.expandable;
    collect(tape, &segments, &living);
    if (expandable)
        join(&segments);
    size_t next = 0;
    bool was_small = false;
    uint16_t was_stream = 0;
    for (size_t i = 0; i < segments.n; i++) {
        uint16_t stream;
        learn(&b, &segments.at[i], &living, next, expandable, &stream);
        bool same = expandable && b.last && b.small == was_small && stream == was_stream;
        b.last = same ? b.last : 0;
        next = fill(&b, &segments.at[i], &living, next, stream);
        if (expandable)
            place_unmapped(&b, &segments, i, stream);
        was_small = b.small;
        was_stream = stream;
    }
    free(segments.at);
    free(living.at);
    return b.live;
}
