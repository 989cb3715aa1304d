/*
 * pack_greedy.c - see pack.h.
 *
 * A block looks for the lowest gap among what is placed and lives at the same time.  What is placed is kept
 * by time, in two sizes of stretches, so that a look meets little else:
 *
 *      stretch       |<----------- WIDE ----------->|<----- ...
 *      leaves        |narrow|narrow| ...            |
 *
 * A block is noted in the leaves that it lives in, but for wide stretches that it fills: there it is noted
 * once.  In a leaf that it fills it is a span of offsets.  Spans that touch are joined, so a thousand
 * parameters are one span.  In a leaf that it does not fill it is a part, with its time.  A wide stretch also
 * has the union of all offsets that are taken at any time in it, for blocks that fill it.
 *
 * All of these lists are sorted by offset.  A search walks along them side by side: whatever is in the way
 * moves the candidate up behind it, until no list has anything in the way.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "pack.h"

#define LEAF_BITS   6
#define WIDE_BITS   9
#define LEAVES      (1u << (WIDE_BITS - LEAF_BITS)) /* of a wide stretch */
#define WORK_LEAST  (UINT64_C(8) << 20)             /* looks at what is placed: some ten milliseconds */
#define WORK_START  5                               /* of each event, and of each block that is placed */
#define WORK_BLOCK  400
#define OFFSET_MOST (UINT64_C(1) << 31) /* 1 TiB; sums of two fit into 32 bits */

struct span {
    uint32_t at, end;
};
struct part {
    uint32_t at, end, from, to;
};
struct kept {              /* a part, as a search compares it: all less than 1 << 31 */
    uint64_t lower, upper; /* from << 32 | at; to << 32 | end */
};
struct spans { /* disjoint, none touches the next */
    struct span *at;
    uint32_t n, room;
    uint32_t asked, lowest; /* below LOWEST there is no gap of ASKED */
};
struct parts { /* by offset */
    struct kept *at;
    uint32_t n, room;
};
struct leaf {
    struct spans filled, any;
    struct parts parts;
};
struct wide {
    struct spans filled, any;
};

struct cursor {          /* a list on a search's way, and what of it is passed */
    struct spans *spans; /* NULL: parts */
    const struct parts *parts;
    uint32_t i;
};

struct greedy {
    struct leaf *leaves;
    struct wide *wides;
    struct cursor *cursors;
    size_t cursor_count;
    uint32_t from; /* a search's first candidate */
    uint64_t work, top;
};

/* ---- what is noted ---- */

/* Room for one more of SIZE bytes at I. */
static void *open_gap(void *list, uint32_t *n, uint32_t *room, size_t size, uint32_t i)
{
    char *p = list;
    if (*n == *room) {
        *room = *room ? *room * 2 : 4;
        p = xrealloc(list, *room * size);
    }
    memmove(p + (i + 1) * size, p + i * size, (*n - i) * size);
    ++*n;
    return p;
}

/* The first that ends at AT or behind it. */
static inline uint32_t span_at(const struct spans *s, uint32_t at)
{
    uint32_t low = 0, high = s->n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (s->at[middle].end < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The new span touches none, or more than the one at LOW. */
static __attribute__((noinline)) void join_spans(struct greedy *g, struct spans *s, uint32_t low, uint32_t at,
                                                 uint32_t end)
{
    uint32_t last = low;
    while (last < s->n && s->at[last].at <= end) {
        at = s->at[last].at < at ? s->at[last].at : at;
        end = s->at[last].end > end ? s->at[last].end : end;
        last++;
    }
    g->work += 4 + (s->n - last) / 8;
    if (last == low) {
        s->at = open_gap(s->at, &s->n, &s->room, sizeof *s->at, low);
    } else if (last > low + 1) {
        memmove(s->at + low + 1, s->at + last, (s->n - last) * sizeof *s->at);
        s->n -= last - low - 1;
    }
    s->at[low] = (struct span){at, end};
}

/* Nine in ten make one span longer, or lie in it. */
static inline void add_span(struct greedy *g, struct spans *s, uint32_t at, uint32_t end)
{
    uint32_t low = span_at(s, at), next = low + 1;
    struct span *one = low < s->n ? &s->at[low] : NULL;
    if (!one || one->at > end || (next < s->n && one[1].at <= end)) {
        join_spans(g, s, low, at, end);
        return;
    }
    g->work += 4 + (s->n - next) / 8;
    one->at = one->at < at ? one->at : at;
    one->end = one->end > end ? one->end : end;
}

static uint64_t pair(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

static void add_part(struct greedy *g, struct parts *p, struct part part)
{
    uint32_t low = 0, high = p->n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if ((uint32_t)p->at[middle].lower <= part.at)
            low = middle + 1;
        else
            high = middle;
    }
    g->work += 4 + (p->n - low) / 4;
    p->at = open_gap(p->at, &p->n, &p->room, sizeof *p->at, low);
    p->at[low] = (struct kept){pair(part.from, part.at), pair(part.to, part.end)};
}

/* Whether the block lives through stretch I of 1 << BITS events. */
static inline bool fills(const struct part *p, uint32_t i, unsigned bits)
{
    return p->from <= i << bits && p->to >= (i + 1) << bits;
}

static void note_in_leaf(struct greedy *g, uint32_t leaf, struct part part)
{
    add_span(g, &g->leaves[leaf].any, part.at, part.end);
    if (fills(&part, leaf, LEAF_BITS))
        add_span(g, &g->leaves[leaf].filled, part.at, part.end);
    else
        add_part(g, &g->leaves[leaf].parts, part);
}

static void note(struct greedy *g, struct part part)
{
    uint32_t last = part.to - 1;
    for (uint32_t w = part.from >> WIDE_BITS; w <= last >> WIDE_BITS; w++) {
        uint32_t first_leaf = w * LEAVES, last_leaf = first_leaf + LEAVES - 1;
        add_span(g, &g->wides[w].any, part.at, part.end);
        if (fills(&part, w, WIDE_BITS)) {
            add_span(g, &g->wides[w].filled, part.at, part.end);
            continue;
        }
        if (first_leaf < part.from >> LEAF_BITS)
            first_leaf = part.from >> LEAF_BITS;
        if (last_leaf > last >> LEAF_BITS)
            last_leaf = last >> LEAF_BITS;
        for (uint32_t leaf = first_leaf; leaf <= last_leaf; leaf++)
            note_in_leaf(g, leaf, part);
    }
}

/* ---- the search ---- */

/* The first from I on that ends behind AT. */
static uint32_t span_behind(const struct spans *s, uint32_t i, uint32_t at)
{
    uint32_t high = s->n;
    while (i < high) {
        uint32_t middle = (i + high) / 2;
        if (s->at[middle].end <= at)
            i = middle + 1;
        else
            high = middle;
    }
    return i;
}

/* The lowest place at X or above that the list leaves free. */
static inline uint32_t pass_spans(struct cursor *c, uint32_t x, uint32_t size)
{
    const struct spans *s = c->spans;
    uint32_t i = c->i < s->n && s->at[c->i].end <= x ? span_behind(s, c->i + 1, x) : c->i;
    for (; i < s->n && s->at[i].at < x + size; i++)
        x = s->at[i].end > x ? s->at[i].end : x;
    c->i = i;
    return x;
}

#define SIGNS UINT64_C(0x8000000080000000)

/* A part is in the way where it begins below the block's end and ends above its beginning, in offsets as in
 * events.  Two such comparisons are one subtraction, of which the upper bit of each half says how it went. */
static uint32_t pass_parts(struct cursor *c, uint32_t x, uint32_t size, uint32_t from, uint32_t to)
{
    const struct parts *p = c->parts;
    const struct kept *k = p->at + c->i, *end = p->at + p->n;
    for (;; k++) {
        uint32_t last = x + size - 1 < OFFSET_MOST ? x + size - 1 : (uint32_t)OFFSET_MOST - 1;
        uint64_t below = pair(to - 1, last) | SIGNS, above = pair(from + 1, x + 1);
        uint64_t begins = 0, both = 0;
        for (; k < end; k++) {
            begins = below - k->lower;
            both = begins & ((k->upper | SIGNS) - above) & SIGNS;
            if (both == SIGNS || !(begins & 1u << 31))
                break;
        }
        if (k == end || both != SIGNS)
            break;
        x = (uint32_t)k->upper;
    }
    c->i = (uint32_t)(k - p->at);
    return x;
}

/* Where the list alone has room is found once for all blocks of a size, as it only becomes fuller. */
static void walk_spans_of(struct greedy *g, struct spans *s, uint32_t size)
{
    if (!s->n)
        return;
    if (s->asked != size)
        s->lowest = 0;
    s->asked = size;
    struct cursor *c = &g->cursors[g->cursor_count++];
    *c = (struct cursor){s, NULL, 0};
    s->lowest = pass_spans(c, s->lowest, size);
    g->work += 2;
    g->from = s->lowest > g->from ? s->lowest : g->from;
}

static void walk_parts_of(struct greedy *g, const struct parts *p)
{
    if (p->n)
        g->cursors[g->cursor_count++] = (struct cursor){NULL, p, 0};
}

static void gather_leaf(struct greedy *g, const struct part *b, uint32_t leaf)
{
    if (fills(b, leaf, LEAF_BITS)) {
        walk_spans_of(g, &g->leaves[leaf].any, b->end);
        return;
    }
    walk_spans_of(g, &g->leaves[leaf].filled, b->end);
    walk_parts_of(g, &g->leaves[leaf].parts);
}

static void gather(struct greedy *g, const struct part *b)
{
    uint32_t from = b->from, last = b->to - 1;
    g->cursor_count = 0;
    g->from = 0;
    for (uint32_t w = from >> WIDE_BITS; w <= last >> WIDE_BITS; w++) {
        uint32_t first_leaf = w * LEAVES, last_leaf = first_leaf + LEAVES - 1;
        if (fills(b, w, WIDE_BITS)) {
            walk_spans_of(g, &g->wides[w].any, b->end);
            continue;
        }
        walk_spans_of(g, &g->wides[w].filled, b->end);
        if (first_leaf < from >> LEAF_BITS)
            first_leaf = from >> LEAF_BITS;
        if (last_leaf > last >> LEAF_BITS)
            last_leaf = last >> LEAF_BITS;
        for (uint32_t leaf = first_leaf; leaf <= last_leaf; leaf++)
            gather_leaf(g, b, leaf);
    }
}

static uint32_t lowest(struct greedy *g, uint32_t size, uint32_t from, uint32_t to)
{
    gather(g, &(struct part){0, size, from, to});
    uint32_t x = g->from;
    for (size_t agree = 0, i = 0; agree < g->cursor_count; i = i + 1 == g->cursor_count ? 0 : i + 1) {
        struct cursor *c = &g->cursors[i];
        uint32_t before = c->i;
        uint32_t y = c->spans ? pass_spans(c, x, size) : pass_parts(c, x, size, from, to);
        agree = y == x ? agree + 1 : 1;
        g->work += 1 + c->i - before;
        x = y;
    }
    return x;
}

/* ---- the order ---- */

#define DIGIT  11
#define DIGITS (1u << DIGIT)

struct rank {
    uint32_t smaller; /* the less, the larger the block */
    uint32_t from, to;
};

/* By DIGIT bits from SHIFT on; equal ones stay in their order. */
static void sort_digit(struct rank *out, const struct rank *in, uint32_t n, unsigned shift)
{
    uint32_t starts[DIGITS + 1] = {0};
    for (uint32_t i = 0; i < n; i++)
        starts[(in[i].smaller >> shift) % DIGITS + 1]++;
    for (uint32_t d = 0; d < DIGITS; d++)
        starts[d + 1] += starts[d];
    for (uint32_t i = 0; i < n; i++)
        out[starts[(in[i].smaller >> shift) % DIGITS]++] = in[i];
}

/* The largest first, of equal ones the oldest: so that one looks where the one before it did, which is in
 * the caches yet. */
static struct rank *ranks_of(const struct pack *p)
{
    struct rank *ranks = xrealloc(NULL, (p->count + (size_t)1) * sizeof *ranks);
    struct rank *sorted = xrealloc(NULL, (p->count + (size_t)1) * sizeof *sorted);
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->events; i++) {
        const struct pack_block *b = &p->blocks[p->at[i]];
        if (b->from == i)
            ranks[n++] = (struct rank){(uint32_t)(OFFSET_MOST - b->size), b->from, b->to};
    }
    for (unsigned shift = 0; shift < 32; shift += DIGIT) {
        sort_digit(sorted, ranks, n, shift);
        struct rank *in = ranks;
        ranks = sorted;
        sorted = in;
    }
    free(sorted);
    return ranks;
}

/* ---- the whole ---- */

/* What may have been looked at when I blocks are placed: where each look meets more and more, that is seen
 * early. */
static uint64_t allowed(const struct pack *p, uint32_t i)
{
    uint64_t so_far = (uint64_t)p->events * WORK_START + (uint64_t)i * WORK_BLOCK;
    return so_far > WORK_LEAST ? so_far : WORK_LEAST;
}

static bool place_all(struct greedy *g, const struct pack *p, const struct rank *order, uint64_t limit)
{
    for (uint32_t i = 0; i < p->count; i++) {
        const struct rank *b = &order[i];
        uint32_t size = (uint32_t)OFFSET_MOST - b->smaller, at = lowest(g, size, b->from, b->to);
        if (at + (uint64_t)size >= limit || g->work > allowed(p, i))
            return false;
        g->top = at + size > g->top ? at + size : g->top;
        if (p->offsets)
            p->offsets[p->at[b->from]] = at;
        note(g, (struct part){at, at + size, b->from, b->to});
    }
    return true;
}

static bool fits(const struct pack *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (p->blocks[i].size >= OFFSET_MOST)
            return false;
    return p->events < OFFSET_MOST - (1u << WIDE_BITS);
}

uint64_t pack_greedy(const struct pack *p, uint64_t limit)
{
    if (!fits(p))
        return UINT64_MAX;
    uint32_t wides = (p->events >> WIDE_BITS) + 1;
    struct greedy g = {0};
    size_t leaf_bytes = (size_t)wides * LEAVES * sizeof *g.leaves, wide_bytes = wides * sizeof *g.wides;
    g.leaves = memset(xrealloc(NULL, leaf_bytes), 0, leaf_bytes);
    g.wides = memset(xrealloc(NULL, wide_bytes), 0, wide_bytes);
    g.cursors = xrealloc(NULL, (wides + 4 * LEAVES + 4) * sizeof *g.cursors);
    struct rank *order = ranks_of(p);
    bool done = place_all(&g, p, order, limit < OFFSET_MOST ? limit : OFFSET_MOST);
    for (uint32_t i = 0; i < wides * LEAVES; i++) {
        free(g.leaves[i].filled.at);
        free(g.leaves[i].any.at);
        free(g.leaves[i].parts.at);
    }
    for (uint32_t i = 0; i < wides; i++) {
        free(g.wides[i].filled.at);
        free(g.wides[i].any.at);
    }
    free(g.leaves);
    free(g.wides);
    free(g.cursors);
    free(order);
    return done ? g.top : UINT64_MAX;
}
