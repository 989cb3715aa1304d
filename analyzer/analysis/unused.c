/* unused.c - see unused.h: at each moment what is there is laid out by address. */
#include "unused.h"

#include <stdlib.h>
#include <string.h>

#include "read/curve.h"
#include "segments.h"

#define MIB           (INT64_C(1) << 20)
#define SMALL_SEGMENT (2 * MIB) /* of PyTorch's pool for requests of up to 1 MiB; all others are larger */
#define UNNAMED       (UINT64_C(1) << 56) /* numbers of pools that are not made of PyTorch's two */
#define OF_PYTORCH    512                 /* requests are rounded to multiples of it */

const char *const unused_names[] = {
    "cached",   "waiting", "private pool",   "CUDA graphs", "stream-ordered pool",
    "rounding", "arena",   "library's pool", "unknown"};

const int64_t unused_sizes[UNUSED_SIZES - 1] = {MIB, 10 * MIB, 100 * MIB, 1024 * MIB};

/* ---- rows ---- */

struct work {
    struct layout *l;
    const struct tape_moment *m;
    const struct tape_event *refused; /* NULL: none */
    const uint32_t *share;            /* by block: its place in tape->shares and 1; 0: none */
    struct unused *u;
    bool whole; /* nothing of the framework's events was folded: pools and what waits are known */
};

static struct unused_row *row_of(struct unused *u, enum unused_kind kind, uint64_t handle, int64_t stream,
                                 int64_t stack)
{
    for (size_t i = 0; i < u->count; i++) {
        struct unused_row *r = &u->rows[i];
        if (r->kind == kind && r->handle == handle && r->stream == stream &&
            (kind != UNUSED_WAITING || r->stack == stack))
            return r;
    }
    struct unused_row *r = PUSH(u->rows, u->count);
    *r = (struct unused_row){.kind = kind, .handle = handle, .stream = stream, .stack = stack};
    return r;
}

static void add_piece(struct unused_row *r, int64_t size)
{
    size_t class = 0;
    while (class < UNUSED_SIZES - 1 && size > unused_sizes[class])
        class ++;
    r->bytes += size;
    r->pieces++;
    r->largest = size > r->largest ? size : r->largest;
    r->of_size[class] += size;
}

static void add_bytes(struct unused *u, enum unused_kind kind, int64_t bytes)
{
    if (bytes > 0)
        row_of(u, kind, 0, 0, 0)->bytes += bytes;
}

static uint64_t pool_of(const struct work *w, const struct segment *s)
{
    return s->stream < w->l->tape->streams ? w->l->tape->stream[s->stream].pool : 0;
}

static bool is_small(const struct segment *s)
{
    return s->size == SMALL_SEGMENT;
}

/* Whether the refused request may have a piece of S: one of its own stream and pool, of requests of its size.
 */
static bool may_have(const struct work *w, const struct segment *s)
{
    const struct tape_event *r = w->refused;
    if (!r || pool_of(w, s) != r->address || is_small(s) != (r->size <= (uint64_t)MIB))
        return false;
    return r->rounded || !w->l->tape->streams_known || s->stream == r->stream;
}

static void free_piece(const struct work *w, const struct segment *s, int64_t size, bool whole)
{
    uint64_t pool = pool_of(w, s);
    struct unused_row *r = row_of(w->u, pool ? UNUSED_PRIVATE : UNUSED_CACHED, pool, 0, 0);
    if (size <= 0)
        return;
    add_piece(r, size);
    r->whole += whole ? size : 0;
    if (!may_have(w, s))
        return;
    r->usable += size;
    r->usable_largest = size > r->usable_largest ? size : r->usable_largest;
}

/* What a request of SIZE is rounded to. */
static int64_t rounded(const struct trace_tape *tape, int64_t size)
{
    int64_t step = OF_PYTORCH, power = OF_PYTORCH;
    if (tape->roundup > 1 && size > OF_PYTORCH * tape->roundup) {
        while (power <= size / 2)
            power *= 2;
        step = power == size ? size : power / tape->roundup;
    }
    return size < OF_PYTORCH ? OF_PYTORCH : (size + step - 1) / step * step;
}

/* The bytes of GAP, which lies behind a block of an import, that belong to the block: its size is what was
 * requested.  PyTorch splits a block of a large segment where more than 1 MiB is left, any other where 512 B
 * are, and none that is as large as max_split_size. */
static int64_t slack_of(const struct work *w, const struct segment *s, const struct block *b, int64_t gap)
{
    const struct trace_tape *tape = w->l->tape;
    if (!tape->requests || !b)
        return 0;
    int64_t size = rounded(tape, b->size), up = size - b->size;
    bool fine = is_small(s) || s->mapped;
    if (!fine && tape->max_split > 0 && size >= tape->max_split)
        return gap;
    return gap <= (fine ? up : up + MIB) ? gap : up;
}

static void gap(const struct work *w, const struct segment *s, const struct block *before, int64_t size,
                bool whole)
{
    int64_t slack = slack_of(w, s, before, size);
    add_bytes(w->u, UNUSED_ROUNDING, slack);
    if (size > slack)
        free_piece(w, s, size - slack, whole);
}

static void waiting(const struct work *w, const struct block *b)
{
    const struct tape_share *s = w->share[b->id] ? &w->l->tape->shares[w->share[b->id] - 1] : NULL;
    struct unused_row *r = row_of(w->u, UNUSED_WAITING, 0, s ? (int64_t)s->stream : 0, s ? s->stack : 0);
    add_piece(r, b->size);
    r->count++;
}

/* Counts what lies free in segments FROM to TO as given back by empty_cache(): of an expandable one each
 * mapped piece that no block touches. */
static void whole_pieces(const struct work *w, size_t from, size_t to, const struct block *blocks, size_t n)
{
    for (size_t i = from, b = 0; i < to; i++) {
        const struct segment *s = &w->l->segments[i];
        while (b < n && blocks[b].address + blocks[b].size <= s->address)
            b++;
        uint64_t pool = pool_of(w, s);
        if (b == n || blocks[b].address >= s->address + s->size)
            row_of(w->u, pool ? UNUSED_PRIVATE : UNUSED_CACHED, pool, 0, 0)->whole += s->size;
    }
}

/* Returns how many of the blocks lie before the end of the segments FROM to TO. */
static size_t lay_out(const struct work *w, size_t from, size_t to, const struct block *blocks, size_t n)
{
    const struct segment *s = &w->l->segments[from], *last = &w->l->segments[to - 1];
    int64_t at = s->address, end = last->address + last->size;
    const struct block *before = NULL;
    size_t i = 0, first = n;
    for (; i < n && blocks[i].address < end; i++) {
        if (blocks[i].address < at)
            continue;
        first = first == n ? i : first;
        gap(w, s, before, blocks[i].address - at, false);
        if (blocks[i].state == WAITS)
            waiting(w, &blocks[i]);
        before = &blocks[i];
        at = blocks[i].address + blocks[i].size;
    }
    gap(w, s, before, end - at, !s->mapped && !before);
    if (s->mapped)
        whole_pieces(w, from, to, blocks, i);
    return i;
}

static void pool_rows(const struct work *w)
{
    const struct trace_tape *tape = w->l->tape;
    for (size_t i = 0; i < w->u->count; i++) {
        struct unused_row *r = &w->u->rows[i];
        for (size_t k = 0; r->kind == UNUSED_PRIVATE && k < w->m->scopes; k++) {
            if (tape->scopes[k].pool != r->handle)
                continue;
            r->captured = r->captured || tape->scopes[k].captured;
            r->count += tape->scopes[k].captured;
            r->stack = r->stack ? r->stack : tape->scopes[k].stack;
        }
    }
}

/* False: what the file has of the framework's memory does not add up to what it held. */
static bool framework_rows(const struct work *w, int64_t framework, int64_t unused)
{
    size_t n, at = 0;
    int64_t living, held = 0;
    struct block *blocks = segments_blocks(w->l, &n, &living);
    for (size_t i = 0; i < w->l->segment_count; i++)
        held += w->l->segments[i].size;
    size_t others = w->u->count;
    bool adds_up = w->whole && living == framework && held - living == unused;
    for (size_t i = 0, to; adds_up && i < w->l->segment_count; i = to) {
        to = segments_joined(w->l, i);
        at += lay_out(w, i, to, blocks + at, n - at);
    }
    for (size_t i = others; i < w->u->count; i++)
        unused -= w->u->rows[i].bytes;
    if (!adds_up || unused) { /* or blocks lie where no segment is known */
        w->u->count = others;
        adds_up = false;
    }
    free(blocks);
    pool_rows(w);
    return adds_up;
}

static void graph_nodes(const struct work *w, struct unused_row *r)
{
    const struct tape_node *nodes = w->l->tape->nodes;
    int64_t most = 0;
    r->count = (int64_t)w->m->nodes;
    for (size_t i = 0; i < w->m->nodes; i++) {
        int64_t sum = 0;
        for (size_t k = i; k < w->m->nodes && k < i + 4096; k++)
            sum += nodes[k].stack == nodes[i].stack ? nodes[k].size : 0;
        if (sum > most) {
            most = sum;
            r->stack = nodes[i].stack;
        }
    }
}

/* What the driver holds for pools, and for the device's graphs, beyond what is allocated out of them.  Of
 * several pools it is not known out of which an allocation came: they are one row, which names each. */
static int64_t holder_rows(const struct work *w)
{
    const struct tape_moment *m = w->m;
    int64_t all = 0;
    for (int graphs = 0; graphs < 2; graphs++) {
        int64_t held = 0, largest = 0, live = m->live[graphs ? BESIDE_GRAPH : BESIDE_POOL];
        struct unused_row row = {.kind = graphs ? UNUSED_GRAPHS : UNUSED_POOL};
        for (size_t i = 0; i < m->holder_count; i++) {
            const struct tape_holder *h = &m->holders[i];
            if (h->graphs != graphs || !h->bytes)
                continue;
            held += h->bytes;
            row.count++;
            if (!graphs)
                *PUSH(w->u->pools, w->u->pool_count) = (struct unused_pool){h->bytes, h->stack};
            row.stack = h->bytes > largest ? h->stack : row.stack;
            largest = h->bytes > largest ? h->bytes : largest;
        }
        if (held <= live)
            continue;
        row.bytes = held - live;
        if (graphs)
            graph_nodes(w, &row);
        all += row.bytes;
        *PUSH(w->u->rows, w->u->count) = row;
    }
    return all;
}

static void captures(const struct work *w)
{
    const struct trace_tape *tape = w->l->tape;
    struct unused *u = w->u;
    size_t n;
    int64_t living;
    struct block *blocks = w->m->scopes ? segments_blocks(w->l, &n, &living) : NULL;
    if (w->m->scopes)
        segments_count_living(w->l, blocks, n);
    free(blocks);
    for (size_t i = 0; i < w->m->scopes; i++) {
        const struct tape_scope *s = &tape->scopes[i];
        if (!s->captured)
            continue;
        struct unused_capture *c = PUSH(u->captures, u->capture_count);
        *c = (struct unused_capture){.pool = s->pool, .seq = s->seq, .stack = s->stack};
        for (size_t k = 0; k < w->l->segment_count; k++) {
            const struct segment *g = &w->l->segments[k];
            bool mine = g->born >= s->from && g->born < s->to && pool_of(w, g) == s->pool;
            c->reserved += mine ? g->size : 0;
            c->allocated += mine ? g->lives : 0;
        }
    }
}

static int by_bytes(const void *a, const void *b)
{
    const struct unused_row *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1)
                              : (x->handle > y->handle) - (x->handle < y->handle);
}

static int by_held(const void *a, const void *b)
{
    const struct unused_pool *x = a, *y = b;
    return x->held != y->held ? (x->held > y->held ? -1 : 1) : (x->stack > y->stack) - (x->stack < y->stack);
}

static void sort_rows(struct unused *u)
{
    if (u->pool_count)
        qsort(u->pools, u->pool_count, sizeof *u->pools, by_held);
    size_t kept = 0;
    for (size_t i = 0; i < u->count; i++)
        if (u->rows[i].bytes > 0)
            u->rows[kept++] = u->rows[i];
    u->count = kept;
    if (kept)
        qsort(u->rows, kept, sizeof *u->rows, by_bytes);
}

static void take_apart(const struct work *w, const struct trace_then *totals)
{
    struct unused *u = w->u;
    const struct tape_moment *m = w->m;
    int64_t blocks = w->l->tape->arena ? totals->framework : 0;
    int64_t in_use = m->live[BESIDE_ARENA];
    int64_t arena = m->arena_held > in_use ? m->arena_held - in_use - blocks : 0;
    u->reserved = totals->reserved;
    u->allocated = totals->framework + totals->direct;
    u->away = totals->away;
    u->bytes = u->reserved + u->away - u->allocated;
    if (u->bytes <= 0)
        return;
    int64_t left = u->bytes - holder_rows(w) - m->live[BESIDE_LIBRARY] - (arena > 0 ? arena : 0);
    add_bytes(u, UNUSED_ARENA, arena);
    add_bytes(u, UNUSED_LIBRARY, m->live[BESIDE_LIBRARY]);
    if (left < 0) { /* figures of different moments, or a damaged file */
        u->count = 0;
        add_bytes(u, UNUSED_UNKNOWN, u->bytes);
    } else if (!framework_rows(w, totals->framework - blocks, left)) {
        add_bytes(u, UNUSED_UNKNOWN, left);
    }
}

static void usable(struct unused *u)
{
    u->usable = u->usable_largest = 0;
    for (size_t i = 0; i < u->count; i++) {
        u->usable += u->rows[i].usable;
        u->usable_largest =
            u->rows[i].usable_largest > u->usable_largest ? u->rows[i].usable_largest : u->usable_largest;
    }
    if (unused_sum(u, UNUSED_UNKNOWN))
        u->usable = u->usable_largest = UNKNOWN;
}

/* ---- the moments ---- */

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static const struct tape_event *refused_at(const struct trace_tape *tape, const struct tape_moment *m)
{
    return m->n && tape->at[m->n - 1].what == TAPE_OOM ? &tape->at[m->n - 1] : NULL;
}

/* What PyTorch's allocator would ask the driver for, for a block of SIZE; of expandable segments at least. */
static int64_t asked_for(const struct trace_tape *tape, int64_t size)
{
    if (tape->expandable)
        return size;
    return size <= MIB       ? SMALL_SEGMENT
           : size < 10 * MIB ? 20 * MIB
                             : (size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

/* The limit that holds there; a share of the device's memory where its configuration alone has one. */
static void take_limit(const struct trace *t, const struct layout *l, const struct tape_event *refused,
                       int64_t reserved, struct unused *u)
{
    const struct trace_device *d = trace_find_device(t, u->device);
    u->limit = l->limit;
    u->limit_by_conf = !l->limit && l->tape->fraction > 0 && d && d->total_bytes > 0;
    if (u->limit_by_conf)
        u->limit = (int64_t)(l->tape->fraction * (double)d->total_bytes);
    int64_t wanted = refused ? reserved + asked_for(l->tape, (int64_t)refused->size) : 0;
    u->beyond_limit = u->limit && wanted > u->limit ? wanted - u->limit : 0;
}

static int load_moment(struct trace *t, struct layout *l, const struct tape_moment *m, const uint32_t *share,
                       struct unused *u)
{
    struct trace_then totals;
    segments_follow(l, m->n);
    if (trace_then(t, u->device, m->seq, &totals))
        return -1;
    u->usable = u->usable_largest = UNKNOWN;
    if (!totals.found)
        return 0;
    struct work w = {l, m, refused_at(l->tape, m), share, u, !t->thinned};
    u->expandable = l->tape->expandable;
    take_limit(t, l, w.refused, totals.reserved, u);
    u->requested = w.refused ? (int64_t)w.refused->size : 0;
    take_apart(&w, &totals);
    captures(&w);
    sort_rows(u);
    usable(u);
    return 0;
}

static uint32_t *shares_of(const struct trace_tape *tape)
{
    uint32_t *share = xrealloc(NULL, (tape->ids + 1) * sizeof *share);
    memset(share, 0, (tape->ids + 1) * sizeof *share);
    for (size_t i = 0; i < tape->share_count; i++)
        share[tape->shares[i].id] = (uint32_t)(i + 1);
    return share;
}

static int load_moments(struct trace *t, const struct trace_tape *tape, const int64_t *seqs, size_t count,
                        struct unused *out, size_t n)
{
    struct layout l = {.tape = tape};
    uint32_t *share = shares_of(tape);
    int result = 0;
    for (size_t i = 0; !result && i < count; i++) {
        struct tape_moment m;
        tape_moment_at(tape, seqs[i], &m);
        for (size_t k = 0; !result && k < n; k++)
            if (out[k].seq == seqs[i])
                result = load_moment(t, &l, &m, share, &out[k]);
        free(m.holders);
    }
    free(share);
    segments_free(&l);
    return result;
}

int unused_load(struct trace *t, int64_t device, const int64_t *seqs, size_t n, struct unused *out)
{
    int64_t *moments = NULL; /* in order, each once */
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        out[i] = (struct unused){.device = device,
                                 .seq = seqs[i],
                                 .usable = UNKNOWN,
                                 .usable_largest = UNKNOWN,
                                 .reserved = UNKNOWN,
                                 .allocated = UNKNOWN,
                                 .bytes = UNKNOWN};
        size_t same = 0;
        while (same < count && moments[same] != seqs[i])
            same++;
        if (seqs[i] != UNKNOWN && seqs[i] > 0 && same == count)
            *PUSH(moments, count) = seqs[i];
    }
    if (!count)
        return 0;
    qsort(moments, count, sizeof *moments, ascending);
    const struct trace_tape *tape = trace_tape_to(t, device, moments[count - 1]);
    int result = tape ? load_moments(t, tape, moments, count, out, n) : -1;
    free(moments);
    return result;
}

void unused_free(struct unused *u)
{
    free(u->rows);
    free(u->captures);
    free(u->pools);
    *u = (struct unused){0};
}

int64_t unused_sum(const struct unused *u, enum unused_kind kind)
{
    int64_t sum = 0;
    for (size_t i = 0; i < u->count; i++)
        sum += u->rows[i].kind == kind ? u->rows[i].bytes : 0;
    return sum;
}

int64_t unused_pieces(const struct unused *u, int64_t *largest)
{
    int64_t pieces = 0;
    *largest = UNKNOWN;
    if (unused_sum(u, UNUSED_UNKNOWN) || u->usable == UNKNOWN)
        return UNKNOWN;
    for (size_t i = 0; i < u->count; i++) {
        pieces += u->rows[i].pieces;
        *largest = u->rows[i].largest > *largest ? u->rows[i].largest : *largest;
    }
    return pieces;
}

bool unused_pool_id(uint64_t number, uint32_t *first, uint32_t *second)
{
    *first = (uint32_t)(number >> 32);
    *second = (uint32_t)number;
    return number && number < UNNAMED;
}
