/* segments.c - see segments.h. */
#include "segments.h"

#include <stdlib.h>
#include <string.h>

/* The first one that begins at ADDRESS or behind it. */
static size_t segment_from(const struct layout *l, int64_t address)
{
    return FROM(address, l->segments, l->segment_count, address);
}

static void remove_segments(struct layout *l, int64_t address, int64_t size)
{
    size_t from = segment_from(l, address), to = from;
    while (to < l->segment_count && l->segments[to].address < address + size)
        to++;
    if (to == from)
        return;
    memmove(&l->segments[from], &l->segments[to], (l->segment_count - to) * sizeof *l->segments);
    l->segment_count -= to - from;
}

static void add_segment(struct layout *l, const struct tape_event *e, size_t born)
{
    if (e->library)
        return;
    remove_segments(l, (int64_t)e->address, (int64_t)e->size);
    size_t at = segment_from(l, (int64_t)e->address);
    (void)PUSH(l->segments, l->segment_count);
    memmove(&l->segments[at + 1], &l->segments[at], (l->segment_count - 1 - at) * sizeof *l->segments);
    l->segments[at] = (struct segment){.address = (int64_t)e->address,
                                       .size = (int64_t)e->size,
                                       .born = born,
                                       .stream = e->stream,
                                       .mapped = e->what == TAPE_MAP};
}

static void take(struct layout *l, size_t i)
{
    const struct tape_event *e = &l->tape->at[i];
    switch (e->what) {
    case TAPE_ALLOC:
        while (l->block_count <= e->id)
            *PUSH(l->blocks, l->block_count) = (struct block){0};
        l->blocks[e->id] =
            (struct block){(int64_t)e->address, (int64_t)l->tape->blocks[e->id].size, e->id, LIVES};
        break;
    case TAPE_FREE:
        l->blocks[e->id].state = e->deferred ? WAITS : GONE;
        break;
    case TAPE_REUSABLE:
        l->blocks[e->id].state = GONE;
        break;
    case TAPE_SEGMENT_ALLOC:
    case TAPE_MAP:
        add_segment(l, e, i);
        break;
    case TAPE_SEGMENT_FREE:
        remove_segments(l, (int64_t)e->address, 1);
        break;
    case TAPE_UNMAP:
        remove_segments(l, (int64_t)e->address, (int64_t)e->size);
        break;
    case TAPE_LIMIT:
        l->limit = (int64_t)e->size;
        break;
    default:
        break;
    }
}

static int by_address(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

struct block *segments_blocks(const struct layout *l, size_t *n, int64_t *living)
{
    struct block *out = NULL;
    *n = 0;
    *living = 0;
    for (size_t i = 0; i < l->block_count; i++) {
        if (l->blocks[i].state != GONE)
            *PUSH(out, *n) = l->blocks[i];
        *living += l->blocks[i].state == LIVES ? l->blocks[i].size : 0;
    }
    if (*n)
        qsort(out, *n, sizeof *out, by_address);
    return out;
}

void segments_follow(struct layout *l, size_t upto)
{
    for (; l->done < upto; l->done++)
        take(l, l->done);
}

void segments_free(struct layout *l)
{
    free(l->blocks);
    free(l->segments);
}

void segments_count_living(struct layout *l, const struct block *blocks, size_t n)
{
    for (size_t i = 0; i < l->segment_count; i++)
        l->segments[i].lives = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = segment_from(l, blocks[i].address + 1);
        if (at && blocks[i].state == LIVES)
            l->segments[at - 1].lives += blocks[i].size;
    }
}

size_t segments_joined(const struct layout *l, size_t i)
{
    size_t to = i + 1;
    while (to < l->segment_count && l->segments[i].mapped && l->segments[to].mapped &&
           l->segments[to].stream == l->segments[i].stream &&
           l->segments[to - 1].address + l->segments[to - 1].size == l->segments[to].address)
        to++;
    return to;
}
