/*
 * pools.c - which pool each entry's memory was of (rewind.h): the trace is gone through from its end, where
 * the segments' pools are known.
 */
#include "rewind.h"

#include <stdlib.h>

#include "base/base.h"

static uint32_t pool_at(const struct vs_spans *living, uint64_t address)
{
    const struct vs_span *span = vs_spans_at(living, address);
    return span ? span->value : SNAPSHOT_POOL_UNKNOWN;
}

static void insert(struct vs_spans *living, uint64_t start, uint64_t end, uint32_t pool)
{
    if (vs_spans_insert(living, start, end, pool) < 0)
        exit(complain("out of memory"));
}

static void put(struct vs_spans *living, uint64_t address, uint64_t size, uint32_t pool)
{
    const struct vs_span *old;
    uint64_t end = address + size;
    if (end <= address)
        return;
    while ((old = vs_spans_from(living, address)) && old->start < end) {
        struct vs_span was = *old; /* parts of a segment went, and came again later */
        vs_spans_remove(living, was.start);
        if (was.start < address)
            insert(living, was.start, address, was.value);
        if (was.end > end)
            insert(living, end, was.end, was.value);
    }
    insert(living, address, end, pool);
}

/* Of an expandable segment's part that went back: that of the part before or behind it, if there is one. */
static uint32_t pool_beside(const struct vs_spans *living, uint64_t address, uint64_t size)
{
    const struct vs_span *before = address ? vs_spans_at(living, address - 1) : NULL;
    return before ? before->value : pool_at(living, address + size);
}

static uint32_t first_known(uint32_t a, uint32_t b)
{
    return a != SNAPSHOT_POOL_UNKNOWN ? a : b;
}

/* The state before E, from that behind it. */
static void go_back(struct vs_spans *living, struct snapshot_event *e)
{
    switch (e->action) {
    case SNAPSHOT_SEGMENT_ALLOC:
        e->pool = first_known(e->pool, pool_at(living, e->address));
        vs_spans_remove(living, e->address);
        break;
    case SNAPSHOT_SEGMENT_FREE:
        put(living, e->address, e->size, e->pool);
        break;
    case SNAPSHOT_SEGMENT_UNMAP:
        e->pool = first_known(e->pool, pool_beside(living, e->address, e->size));
        put(living, e->address, e->size, e->pool);
        break;
    default:
        e->pool = first_known(e->pool, pool_at(living, e->address));
    }
}

void pools_find(struct pools *p, struct snapshot *s)
{
    *p = (struct pools){0};
    for (size_t i = 0; i < s->segment_count; i++) {
        const struct snapshot_segment *g = &s->segments[i];
        put(&p->start[g->device], g->address, g->size, g->pool);
    }
    for (int d = 0; d < s->devices; d++) {
        struct snapshot_trace *t = &s->traces[d];
        for (size_t i = t->n; i--;) {
            go_back(&p->start[d], &t->at[i]);
            p->unknown += t->at[i].action == SNAPSHOT_ALLOC && t->at[i].pool == SNAPSHOT_POOL_UNKNOWN;
        }
    }
}

uint32_t pools_at_start(const struct pools *p, int device, uint64_t address)
{
    return p->start[device].used ? pool_at(&p->start[device], address) : 0;
}

void pools_free(struct pools *p)
{
    for (int d = 0; d < SNAPSHOT_DEVICES; d++)
        vs_spans_free(&p->start[d]);
}
