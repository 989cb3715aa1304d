/*
 * waste.c - see waste.h.  A row of waste is a block's bytes over a span of moments.  The run is cut into
 * pieces wherever a span begins or ends; a segment tree of the pieces' greatest totals takes a span away,
 * or puts it back, in O(log n), and its root is the greatest total that is left.  Each group of rows is
 * taken away, read, and put back.  Moments are events, and uses that end a span: bytes may be needed again
 * between two events.
 */
#include "waste.h"

#include <stdlib.h>
#include <string.h>

#include "layers.h"

struct span {
    size_t from, to; /* its first piece, and the first piece after it */
    int64_t size;
};

struct replay {
    const struct trace_total *totals; /* what was allocated at each moment */
    struct trace_total *moments;      /* the same array, owned */
    size_t n;
    int64_t *time; /* of each moment, never falling: the clocks of threads differ by a microsecond */
    size_t *cut;   /* the moments at which pieces begin, and n at the end */
    size_t pieces;
    size_t leaves;  /* a power of two */
    int64_t *most;  /* of each node of the tree, the root being 1: the greatest total of its pieces */
    int64_t *added; /* of each node: what was added to all its pieces at once (included in most) */
    size_t peak;    /* the piece in which the run's peak lies */
};

/* A damaged file may hold any numbers, and their sum must not trap. */
static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* ---- events ---- */

/* The first event whose number is SEQ or greater. */
static size_t event_at(const struct replay *r, int64_t seq)
{
    return FROM(seq, r->totals, r->n, seq);
}

/* The first event behind moment T; with AT the first at it or behind. */
static size_t event_behind(const struct replay *r, int64_t t, bool at)
{
    return first_from(at ? t : t + 1, r->time, r->n, sizeof *r->time, 0);
}

/* The events at which W's bytes lie unused: from *FROM on, before *TO. */
static void events_of(const struct replay *r, const struct trace_waste *w, size_t *from, size_t *to)
{
    bool from_birth = w->kind == WASTE_NEVER || w->kind == WASTE_EARLY;
    bool to_end = w->kind == WASTE_NEVER || w->kind == WASTE_LATE;
    size_t born = event_at(r, w->alloc_seq), ends = w->free_seq == UNKNOWN ? r->n : event_at(r, w->free_seq);
    *from = from_birth ? born : event_behind(r, w->from, false);
    *to = to_end ? ends : event_behind(r, w->to, true);
    *from = *from < born ? born : *from;
    *to = *to > ends ? ends : *to;
    *to = *to < *from ? *from : *to;
}

/* ---- pieces ---- */

static int by_number(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static size_t piece_of(const struct replay *r, size_t event)
{
    size_t *at = bsearch(&event, r->cut, r->pieces + 1, sizeof *r->cut, by_number);
    return at ? (size_t)(at - r->cut) : 0;
}

static void cut_pieces(struct replay *r, size_t *ends, size_t n)
{
    size_t kept = 0;
    qsort(ends, n, sizeof *ends, by_number);
    for (size_t i = 1; i < n; i++)
        if (ends[i] != ends[kept])
            ends[++kept] = ends[i];
    r->cut = ends;
    r->pieces = kept;
}

static int64_t greatest(const struct replay *r, size_t piece)
{
    int64_t most = INT64_MIN / 2;
    for (size_t i = r->cut[piece]; i < r->cut[piece + 1]; i++)
        most = r->totals[i].allocated > most ? r->totals[i].allocated : most;
    return most;
}

/* ---- the tree ---- */

static void make_tree(struct replay *r)
{
    for (r->leaves = 1; r->leaves < r->pieces;)
        r->leaves *= 2;
    r->most = xrealloc(NULL, 2 * r->leaves * sizeof *r->most);
    r->added = xrealloc(NULL, 2 * r->leaves * sizeof *r->added);
    memset(r->added, 0, 2 * r->leaves * sizeof *r->added);
    for (size_t i = 0; i < r->leaves; i++) {
        r->most[r->leaves + i] = i < r->pieces ? greatest(r, i) : INT64_MIN / 2;
        if (i < r->pieces && r->most[r->leaves + i] > r->most[r->leaves + r->peak])
            r->peak = i;
    }
    for (size_t i = r->leaves - 1; i > 0; i--)
        r->most[i] = r->most[2 * i] > r->most[2 * i + 1] ? r->most[2 * i] : r->most[2 * i + 1];
}

/* Adds BYTES to pieces FROM to TO (behind) as far as they lie under NODE, which has pieces FIRST to END. */
static void add(struct replay *r, size_t node, size_t first, size_t end, const struct span *s, int64_t bytes)
{
    if (s->to <= first || end <= s->from)
        return;
    if (s->from <= first && end <= s->to) {
        r->most[node] = plus(r->most[node], bytes);
        r->added[node] = plus(r->added[node], bytes);
        return;
    }
    size_t middle = first + (end - first) / 2;
    add(r, 2 * node, first, middle, s, bytes);
    add(r, 2 * node + 1, middle, end, s, bytes);
    int64_t left = r->most[2 * node], right = r->most[2 * node + 1];
    r->most[node] = plus(left > right ? left : right, r->added[node]);
}

static void add_all(struct replay *r, const struct span *spans, size_t n, int64_t sign)
{
    for (size_t i = 0; i < n; i++)
        add(r, 1, 0, r->leaves, &spans[i], sign * spans[i].size);
}

/* ---- bounds ---- */

struct edge {
    size_t piece;
    int64_t bytes;
};

static int by_piece(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->piece != y->piece)
        return x->piece < y->piece ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* ends first */
}

/* The most that N spans hold at one time. */
static int64_t most_at_once(const struct span *spans, size_t n)
{
    struct edge *edges = xrealloc(NULL, 2 * n * sizeof *edges);
    size_t count = 0;
    int64_t now = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        if (spans[i].from == spans[i].to)
            continue;
        edges[count++] = (struct edge){spans[i].from, spans[i].size};
        edges[count++] = (struct edge){spans[i].to, -spans[i].size};
    }
    qsort(edges, count, sizeof *edges, by_piece);
    for (size_t i = 0; i < count; i++) {
        now = plus(now, edges[i].bytes);
        most = now > most ? now : most;
    }
    free(edges);
    return most;
}

static struct waste_bound bound_of(struct replay *r, const struct span *spans, const struct trace_waste *rows,
                                   size_t n)
{
    struct waste_bound b = {.count = (int64_t)n, .most = most_at_once(spans, n)};
    add_all(r, spans, n, -1);
    b.mended = r->most[1];
    add_all(r, spans, n, 1);
    for (size_t i = 0; i < n; i++) {
        b.at_peak = plus(b.at_peak, spans[i].from <= r->peak && r->peak < spans[i].to ? spans[i].size : 0);
        b.longest = rows[i].to - rows[i].from > b.longest ? rows[i].to - rows[i].from : b.longest;
    }
    return b;
}

/* ---- groups ---- */

static int compare(const char *a, const char *b)
{
    return a && b ? (a == b ? 0 : strcmp(a, b)) : (a != NULL) - (b != NULL);
}

/* What a library takes for itself stands apart from what the line's own tensors are: nobody can mend the
 * line. */
static int compare_owner(const char *role_a, const char *role_b)
{
    return (role_a && !strcmp(role_a, "workspace")) - (role_b && !strcmp(role_b, "workspace"));
}

/* A row with the layer that it is grouped by. */
struct sorted {
    struct trace_waste row;
    char *layer;
};

static int by_group(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    if (x->row.kind != y->row.kind)
        return x->row.kind < y->row.kind ? -1 : 1;
    int order = compare(x->row.line, y->row.line);
    if (!order)
        order = compare(x->layer, y->layer);
    return order ? order : compare_owner(x->row.role, y->row.role);
}

static void sort_rows(struct trace_waste *rows, char **layers, size_t n)
{
    struct sorted *sorted = xrealloc(NULL, n * sizeof *sorted);
    for (size_t i = 0; i < n; i++)
        sorted[i] = (struct sorted){rows[i], part_layer(rows[i].layer, NULL)};
    if (n)
        qsort(sorted, n, sizeof *sorted, by_group);
    for (size_t i = 0; i < n; i++) {
        rows[i] = sorted[i].row;
        layers[i] = sorted[i].layer;
    }
    free(sorted);
}

static bool same_group(const struct trace_waste *a, const char *layer_a, const struct trace_waste *b,
                       const char *layer_b)
{
    return a->kind == b->kind && !compare(a->line, b->line) && !compare(layer_a, layer_b) &&
           !compare_owner(a->role, b->role);
}

static const char *common_role(const struct trace_waste *rows, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (compare(rows[i].role, rows[0].role))
            return NULL;
    return rows[0].role;
}

static int by_worth(const void *a, const void *b)
{
    const struct waste_group *x = a, *y = b;
    if (x->bound.mended != y->bound.mended)
        return x->bound.mended < y->bound.mended ? -1 : 1;
    if (x->least != y->least)
        return x->least < y->least ? -1 : 1;
    if (x->bound.most != y->bound.most)
        return x->bound.most < y->bound.most ? 1 : -1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    int order = compare(x->line, y->line);
    if (!order)
        order = compare(x->layer, y->layer);
    return order ? order : compare_owner(x->role, y->role);
}

static void find_groups(struct waste_report *w, struct replay *r, const struct trace_waste *rows,
                        char *const *layers, const struct span *spans, size_t n)
{
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && same_group(&rows[from], layers[from], &rows[to], layers[to]); to++) {
        }
        struct waste_group g = {.kind = rows[from].kind,
                                .line = rows[from].line,
                                .layer = xstrdup(layers[from]),
                                .role = common_role(rows + from, to - from),
                                .bound = bound_of(r, spans + from, rows + from, to - from)};
        g.least = g.bound.mended;
        *PUSH(w->groups, w->count) = g;
    }
    if (w->count)
        qsort(w->groups, w->count, sizeof *w->groups, by_worth);
}

/* Rows come sorted by their kinds. */
static void find_kinds(struct waste_report *w, struct replay *r, const struct trace_waste *rows,
                       const struct span *spans, size_t n)
{
    size_t from = 0;
    for (int kind = 0; kind < WASTE_KINDS; kind++) {
        size_t to = from;
        while (to < n && rows[to].kind == (enum trace_waste_kind)kind)
            to++;
        w->kind[kind] = bound_of(r, spans + from, rows + from, to - from);
        from = to;
    }
}

/* ---- moments ---- */

static int by_end(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The times at which rows end by a use of their bytes, and not by an event; sorted. */
static int64_t *uses_of(const struct trace_waste *rows, size_t n, size_t *count)
{
    int64_t *uses = xrealloc(NULL, 2 * n * sizeof *uses);
    *count = 0;
    for (size_t i = 0; i < n; i++)
        if (rows[i].kind == WASTE_EARLY || rows[i].kind == WASTE_IDLE) {
            uses[(*count)++] = rows[i].to;
            if (rows[i].all_to != rows[i].to && rows[i].all_to >= rows[i].all_from)
                uses[(*count)++] = rows[i].all_to;
        }
    qsort(uses, *count, sizeof *uses, by_end);
    return uses;
}

/* Merges events and the uses that end rows, by time; a use has the total of the event before it.  Of a use
 * and an event at the same time the use comes first. */
static void make_moments(struct replay *r, const struct trace_total *totals, size_t n,
                         const struct trace_waste *rows, size_t row_count)
{
    size_t count, next = 0;
    int64_t *uses = uses_of(rows, row_count, &count), now = 0;
    struct trace_total *all = xrealloc(NULL, (n + count) * sizeof *all);
    r->time = xrealloc(NULL, (n + count) * sizeof *r->time);
    for (size_t i = 0; i <= n; i++) {
        int64_t t = i == n ? INT64_MAX : i && totals[i].t < now ? now : totals[i].t;
        for (; next < count && uses[next] <= t; next++)
            if (i > 0 &&
                (r->n == 0 || r->time[r->n - 1] != uses[next] || all[r->n - 1].seq != totals[i - 1].seq)) {
                all[r->n] = totals[i - 1];
                r->time[r->n++] = uses[next];
            }
        if (i == n)
            break;
        all[r->n] = totals[i];
        r->time[r->n++] = now = t;
    }
    r->totals = r->moments = all;
    free(uses);
}

/* A row's span where all kinds are summed. */
static struct span summed(const struct replay *r, const struct trace_waste *row)
{
    struct trace_waste w = *row;
    struct span s = {.size = w.size};
    w.from = w.all_from;
    w.to = w.all_to;
    if (w.to >= w.from)
        events_of(r, &w, &s.from, &s.to);
    return s;
}

/* The spans of the rows, and after those the same where all kinds are summed. */
static struct span *spans_of(struct replay *r, const struct trace_waste *rows, size_t count)
{
    size_t n = 2 * count;
    struct span *spans = xrealloc(NULL, n * sizeof *spans);
    size_t *ends = xrealloc(NULL, (2 * n + 2) * sizeof *ends);
    for (size_t i = 0; i < count; i++) {
        spans[i].size = rows[i].size;
        events_of(r, &rows[i], &spans[i].from, &spans[i].to);
        spans[count + i] = summed(r, &rows[i]);
    }
    for (size_t i = 0; i < n; i++) {
        ends[2 * i] = spans[i].from;
        ends[2 * i + 1] = spans[i].to;
    }
    ends[2 * n] = 0;
    ends[2 * n + 1] = r->n;
    cut_pieces(r, ends, 2 * n + 2);
    for (size_t i = 0; i < n; i++) {
        spans[i].from = piece_of(r, spans[i].from);
        spans[i].to = piece_of(r, spans[i].to);
    }
    return spans;
}

struct waste_report waste_of(const struct trace_total *totals, size_t n, struct trace_waste *rows,
                             size_t row_count)
{
    struct waste_report w = {.count = 0};
    struct replay r = {.n = 0};
    char **layers = xrealloc(NULL, row_count * sizeof *layers);
    sort_rows(rows, layers, row_count);
    make_moments(&r, totals, n, rows, row_count);
    struct span *spans = spans_of(&r, rows, row_count);
    make_tree(&r);
    w.peak = r.most[1];
    w.all = bound_of(&r, spans + row_count, rows, row_count);
    find_kinds(&w, &r, rows, spans, row_count);
    find_groups(&w, &r, rows, layers, spans, row_count);
    for (size_t i = 0; i < row_count; i++)
        free(layers[i]);
    free(layers);
    free(spans);
    free(r.moments);
    free(r.time);
    free(r.cut);
    free(r.most);
    free(r.added);
    return w;
}

const struct waste_group *waste_group_like(const struct waste_report *w, const struct waste_group *g)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->groups[i].kind == g->kind && !compare(w->groups[i].line, g->line) &&
            !compare(w->groups[i].layer, g->layer) && !compare_owner(w->groups[i].role, g->role))
            return &w->groups[i];
    return NULL;
}

void waste_join(struct waste_report *seen, const struct waste_report *sure)
{
    size_t n = seen->count;
    for (size_t i = 0; i < n; i++) {
        const struct waste_group *like = waste_group_like(sure, &seen->groups[i]);
        if (like && like->bound.mended < seen->groups[i].least)
            seen->groups[i].least = like->bound.mended;
    }
    for (size_t i = 0; i < sure->count; i++) {
        struct waste_group g = sure->groups[i];
        if (waste_group_like(seen, &g))
            continue;
        g.layer = xstrdup(g.layer);
        g.bound = (struct waste_bound){.mended = seen->peak};
        *PUSH(seen->groups, seen->count) = g;
    }
    if (seen->count)
        qsort(seen->groups, seen->count, sizeof *seen->groups, by_worth);
}

void waste_free(struct waste_report *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->groups[i].layer);
    free(w->groups);
    *w = (struct waste_report){.count = 0};
}
