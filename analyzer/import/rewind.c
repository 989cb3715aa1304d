/* rewind.c - goes back from a snapshot's end to what was there before its trace (rewind.h). */
#include "rewind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define CELL_WORK (64u << 20) /* cells that may be touched: a map has a handful */

struct set { /* things by address, of which some are gone again */
    struct vs_table index;
    bool *alive;
    size_t n;
};

struct state {
    const struct snapshot *s;
    struct rewound *r;
    struct set segments, blocks;
    size_t touched;
};

/* ---- sets: what is put is the last of its array ---- */

static void set_put(struct set *set, uint64_t address)
{
    *PUSH(set->alive, set->n) = true;
    if (vs_table_put(&set->index, address, (uint32_t)(set->n - 1)) < 0)
        exit(complain("out of memory"));
}

/* False: nothing is there. */
static bool set_remove(struct set *set, uint64_t address)
{
    uint32_t at = vs_table_remove(&set->index, address);
    if (at != VS_TABLE_NONE)
        set->alive[at] = false;
    return at != VS_TABLE_NONE;
}

static void set_free(struct set *set)
{
    vs_table_free(&set->index);
    free(set->alive);
}

static void add_block(struct state *st, const struct rewound_block *b)
{
    if (set_remove(&st->blocks, b->address))
        st->r->misfits++;
    *PUSH(st->r->blocks, st->r->block_count) = *b;
    set_put(&st->blocks, b->address);
}

static void add_segment(struct state *st, uint64_t address, uint64_t size, uint64_t stream)
{
    if (set_remove(&st->segments, address))
        st->r->misfits++;
    *PUSH(st->r->segments, st->r->segment_count) = (struct rewound_segment){address, size, stream};
    set_put(&st->segments, address);
}

/* ---- cells ---- */

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void add_edges(struct rewound *r, size_t *n, uint64_t address, uint64_t size)
{
    if (!size || address + size < address)
        return;
    *PUSH(r->edges, *n) = address;
    *PUSH(r->edges, *n) = address + size;
}

static void cut_cells(struct rewound *r, const struct snapshot *s, int device)
{
    const struct snapshot_trace *t = &s->traces[device];
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < s->segment_count; i++)
        if (s->segments[i].device == device && s->segments[i].expandable)
            add_edges(r, &n, s->segments[i].address, s->segments[i].size);
    for (size_t i = 0; i < t->n; i++)
        if (t->at[i].action == SNAPSHOT_SEGMENT_MAP || t->at[i].action == SNAPSHOT_SEGMENT_UNMAP)
            add_edges(r, &n, t->at[i].address, t->at[i].size);
    if (!n)
        return;
    qsort(r->edges, n, sizeof *r->edges, by_number);
    for (size_t i = 0; i < n; i++)
        if (!kept || r->edges[kept - 1] != r->edges[i])
            r->edges[kept++] = r->edges[i];
    r->cells = kept - 1;
    r->mapped = xrealloc(NULL, kept * sizeof *r->mapped);
    memset(r->mapped, 0, kept * sizeof *r->mapped);
}

size_t rewound_cell(const struct rewound *r, uint64_t address)
{
    size_t low = 0, high = r->cells;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->edges[middle] < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void set_cells(struct state *st, uint64_t address, uint64_t size, bool mapped)
{
    struct rewound *r = st->r;
    bool fits = true;
    for (size_t i = rewound_cell(r, address); i < r->cells && r->edges[i] < address + size; i++) {
        fits = fits && r->mapped[i] != mapped;
        r->mapped[i] = mapped;
        st->touched++;
    }
    r->misfits += !fits;
}

/* ---- the end, and back ---- */

static void take_segment(struct state *st, const struct snapshot_segment *g)
{
    if (g->expandable)
        set_cells(st, g->address, g->size, true);
    else
        add_segment(st, g->address, g->size, g->stream);
    for (size_t i = 0; i < g->blocks; i++) {
        const struct snapshot_block *b = &st->s->blocks[g->first_block + i];
        if (b->state != SNAPSHOT_FREE)
            add_block(st,
                      &(struct rewound_block){b->address, b->requested, g->stream, b->stack,
                                              b->state == SNAPSHOT_PENDING, b->rounded, b->driver, b->rule});
    }
}

static void undo(struct state *st, const struct snapshot_event *e)
{
    struct rewound *r = st->r;
    switch (e->action) {
    case SNAPSHOT_ALLOC:
        r->misfits += !set_remove(&st->blocks, e->address);
        break;
    case SNAPSHOT_FREE_COMPLETED:
        add_block(st,
                  &(struct rewound_block){e->address, e->size, e->stream, 0, true, e->rounded, e->driver, 0});
        break;
    case SNAPSHOT_FREE_REQUESTED:
        r->misfits += !set_remove(&st->blocks, e->address); /* until then it was pending */
        add_block(st, &(struct rewound_block){e->address, e->size, e->stream, 0, false, e->rounded, e->driver,
                                              e->rule});
        break;
    case SNAPSHOT_SEGMENT_ALLOC:
        r->misfits += !set_remove(&st->segments, e->address);
        break;
    case SNAPSHOT_SEGMENT_FREE:
        add_segment(st, e->address, e->size, e->stream);
        break;
    case SNAPSHOT_SEGMENT_MAP:
    case SNAPSHOT_SEGMENT_UNMAP:
        set_cells(st, e->address, e->size, e->action == SNAPSHOT_SEGMENT_UNMAP);
        break;
    case SNAPSHOT_OOM:
    case SNAPSHOT_OTHER:
    case SNAPSHOT_UNKNOWN:
        break;
    }
}

/* ---- what is left ---- */

static int by_block(const void *a, const void *b)
{
    return by_number(&((const struct rewound_block *)a)->address,
                     &((const struct rewound_block *)b)->address);
}

static int by_segment(const void *a, const void *b)
{
    return by_number(&((const struct rewound_segment *)a)->address,
                     &((const struct rewound_segment *)b)->address);
}

static void keep_alive(struct state *st)
{
    struct rewound *r = st->r;
    size_t n = 0;
    for (size_t i = 0; i < r->block_count; i++)
        if (st->blocks.alive[i])
            r->blocks[n++] = r->blocks[i];
    r->block_count = n;
    n = 0;
    for (size_t i = 0; i < r->segment_count; i++)
        if (st->segments.alive[i])
            r->segments[n++] = r->segments[i];
    r->segment_count = n;
    if (r->block_count)
        qsort(r->blocks, r->block_count, sizeof *r->blocks, by_block);
    if (r->segment_count)
        qsort(r->segments, r->segment_count, sizeof *r->segments, by_segment);
}

int rewind_device(struct rewound *r, const struct snapshot *s, int device, char *why, size_t why_size)
{
    const struct snapshot_trace *t = &s->traces[device];
    *r = (struct rewound){0};
    struct state st = {.s = s, .r = r};
    cut_cells(r, s, device);
    for (size_t i = 0; i < s->segment_count && st.touched < CELL_WORK; i++)
        if (s->segments[i].device == device)
            take_segment(&st, &s->segments[i]);
    for (size_t i = t->n; i-- && st.touched < CELL_WORK;)
        undo(&st, &t->at[i]);
    keep_alive(&st);
    set_free(&st.segments);
    set_free(&st.blocks);
    if (st.touched < CELL_WORK)
        return 0;
    rewound_free(r);
    snprintf(why, why_size, "maps the same addresses again and again, as PyTorch does not");
    return -1;
}

uint64_t rewound_reserved(const struct rewound *r)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < r->segment_count; i++)
        bytes += r->segments[i].size;
    for (size_t i = 0; i < r->cells; i++)
        bytes += r->mapped[i] ? r->edges[i + 1] - r->edges[i] : 0;
    return bytes;
}

void rewound_free(struct rewound *r)
{
    free(r->segments);
    free(r->blocks);
    free(r->edges);
    free(r->mapped);
    *r = (struct rewound){0};
}
