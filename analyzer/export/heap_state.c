/* heap_state.c - the segments of a device as they are now, each with its blocks (heap.h). */
#include <stdlib.h>

#include "heap.h"

static int by_seq(const void *a, const void *b)
{
    const struct holding *const *x = a, *const *y = b;
    return (*x)->seq < (*y)->seq ? -1 : (*x)->seq > (*y)->seq;
}

static int by_address(const void *a, const void *b)
{
    const struct holding *const *x = a, *const *y = b;
    return (*x)->address < (*y)->address ? -1 : (*x)->address > (*y)->address;
}

const struct holding **heap_blocks(const struct heap *h, enum holding_kind kind, enum heap_order order,
                                   size_t *n)
{
    const struct holding **out = NULL;
    *n = 0;
    for (size_t i = 0; i < h->holding_count; i++) {
        const struct holding *x = &h->holdings[i];
        if (x->seq && heap_is_block(x) && (kind == HOLDING_REST || x->kind == kind))
            *PUSH(out, *n) = x;
    }
    if (*n)
        qsort(out, *n, sizeof *out, order == HEAP_BY_SEQ ? by_seq : by_address);
    return out;
}

static int segment_by_address(const void *a, const void *b)
{
    const struct heap_segment *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static void add_pieces(const struct heap *h, struct heap_segment **out, size_t *n)
{
    for (size_t i = 0; i < h->piece_count; i++) {
        const struct piece *p = &h->pieces[i];
        if (i > 0 && heap_adjoin(p - 1, p))
            (*out)[*n - 1].size += p->size;
        else
            *PUSH(*out, *n) = (struct heap_segment){.address = p->address,
                                                    .size = p->size,
                                                    .stack = p->stack,
                                                    .stream = p->stream,
                                                    .pool = p->pool,
                                                    .expandable = p->expandable};
    }
}

static void add_own(const struct heap *h, struct heap_segment **out, size_t *n)
{
    size_t count;
    const struct holding **own = heap_blocks(h, HOLDING_OWN, HEAP_BY_ADDRESS, &count);
    if (h->rest.size)
        *PUSH(*out, *n) =
            (struct heap_segment){.address = h->rest.address, .size = h->rest.size, .own = &h->rest};
    for (size_t i = 0; i < count; i++)
        *PUSH(*out, *n) = (struct heap_segment){.address = own[i]->address,
                                                .size = own[i]->size,
                                                .stack = own[i]->stack,
                                                .stream = own[i]->stream,
                                                .own = own[i]};
    free(own);
}

/* The blocks of S, of N in order of address from *NEXT on: a damaged file's that overlap are left out. */
static void choose_blocks(struct heap_segment *s, const struct holding **blocks, size_t n, size_t *next,
                          size_t *kept)
{
    int64_t end = s->address;
    s->first = *kept;
    while (*next < n && blocks[*next]->address < s->address + s->size) {
        const struct holding *x = blocks[(*next)++];
        if (x->address < end || x->address + x->size > s->address + s->size)
            continue;
        end = x->address + x->size;
        blocks[(*kept)++] = x;
        s->count++;
    }
}

void heap_state(const struct heap *h, struct heap_segment **segments, size_t *n,
                const struct holding ***blocks)
{
    size_t count, next = 0, kept = 0;
    *segments = NULL;
    *n = 0;
    *blocks = heap_blocks(h, HOLDING_BLOCK, HEAP_BY_ADDRESS, &count);
    add_pieces(h, segments, n);
    add_own(h, segments, n);
    if (*n)
        qsort(*segments, *n, sizeof **segments, segment_by_address);
    for (size_t i = 0; i < *n; i++)
        if (!(*segments)[i].own)
            choose_blocks(&(*segments)[i], *blocks, count, &next, &kept);
}
