/*
 * layers.c - see layers.h.  One tree has the layers as they are (struct place), the other the rows, each
 * for a set of places at the same depth; a row's children are those of all its places, merged by name.
 */
#include "layers.h"

#include <stdlib.h>
#include <string.h>

struct place { /* a layer, by its own name */
    char *name;
    char before; /* the separator in front of it, '.' or '/'; 0: outermost */
    const char *type;
    int64_t own, bytes, count;
    struct place **inside;
    size_t n;
};

/* ---- the layers as they are ---- */

static struct place *find(struct place *in, const char *name, size_t length, char before)
{
    for (size_t i = 0; i < in->n; i++)
        if (strlen(in->inside[i]->name) == length && !memcmp(in->inside[i]->name, name, length))
            return in->inside[i];
    struct place *made = xrealloc(NULL, sizeof *made);
    *made = (struct place){.name = xformat("%.*s", (int)length, name), .before = before};
    *PUSH(in->inside, in->n) = made;
    return made;
}

static void add(struct place *root, const struct trace_live *l)
{
    struct place *at = root;
    char before = 0;
    for (const char *name = l->layer;; name++) {
        size_t length = strcspn(name, "./");
        at = find(at, name, length, before);
        at->bytes += l->size;
        at->count += l->count;
        name += length;
        if (!*name)
            break;
        before = *name;
    }
    at->own += l->size;
    at->type = l->layer_type ? l->layer_type : at->type;
}

static void place_free(struct place *p)
{
    for (size_t i = 0; i < p->n; i++) {
        place_free(p->inside[i]);
        free(p->inside[i]);
    }
    free(p->inside);
    free(p->name);
}

/* ---- merging children ---- */

struct member { /* a child of one of a row's places */
    struct place *place;
    size_t stem;         /* letters in front of the number at the end */
    bool number, folded; /* its name is a number; its number is ignored */
};

static size_t stem_of(const char *name)
{
    size_t n = strlen(name);
    while (n && name[n - 1] >= '0' && name[n - 1] <= '9')
        n--;
    return n;
}

static const char *kind_of(const struct place *p)
{
    return p->n ? "" : p->type ? p->type : "";
}

/* Orders by name without the number, then, of numbers, by kind, then by the
 * whole name. */
static int by_row(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    size_t n = x->stem < y->stem ? x->stem : y->stem;
    int order = memcmp(x->place->name, y->place->name, n);
    order = order ? order : (x->stem > y->stem) - (x->stem < y->stem);
    order = order ? order : (int)x->number - (int)y->number;
    order = order || !x->number ? order : (int)(x->place->n > 0) - (int)(y->place->n > 0);
    order = order || !x->number ? order : strcmp(kind_of(x->place), kind_of(y->place));
    return order ? order : x->folded && y->folded ? 0 : strcmp(x->place->name, y->place->name);
}

/* The number of different names among N members that are equal except for their numbers. */
static size_t names_among(const struct member *m, size_t n)
{
    size_t names = 0;
    for (size_t i = 0; i < n; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = !strcmp(m[k].place->name, m[i].place->name);
        names += !seen;
        if (names > 4)
            break;
    }
    return names;
}

static void fold_numbered(struct member *m, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        m[i].stem = stem_of(m[i].place->name);
        m[i].number = m[i].stem == 0 && m[i].place->name[0];
        m[i].folded = true;
    }
    qsort(m, n, sizeof *m, by_row);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && !by_row(&m[from], &m[to]); to++) {
        }
        bool numbered = m[from].place->name[m[from].stem] != 0;
        size_t names = numbered ? names_among(m + from, to - from) : 1;
        bool fold = m[from].number ? names > 1 : names > 4;
        for (size_t i = from; i < to; i++)
            m[i].folded = fold;
    }
    for (size_t i = 0; i < n; i++) /* from here on only merged rows matter */
        if (!m[i].folded)
            m[i].stem = strlen(m[i].place->name);
    qsort(m, n, sizeof *m, by_row);
}

/* ---- rows ---- */

struct tree {
    struct layer_row *rows;
    size_t n;
    int64_t least;
    int depth; /* rows of this depth have none below them */
};

static int by_bytes(const void *a, const void *b)
{
    const struct layer_row *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->name, y->name);
}

struct group { /* a future row, and the places that it stands for */
    struct layer_row row;
    struct place **places;
    int64_t own;
};

static struct group group_of(const struct member *m, size_t n, const char *prefix)
{
    struct group g = {.places = xrealloc(NULL, n * sizeof *g.places)};
    const char *name = m[0].place->name;
    int stem = (int)m[0].stem;
    bool several = m[0].folded && n > 0 && names_among(m, n) > 1;
    char before = m[0].place->before;
    g.row.name = xformat("%s%.*s%.*s%s", prefix, *prefix && before ? 1 : 0, &before,
                         several ? stem : (int)strlen(name), name, several ? "*" : "");
    const char *type = m[0].place->type;
    g.row.least = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct place *p = m[i].place;
        g.places[i] = m[i].place;
        g.row.bytes += p->bytes;
        g.row.count += p->count;
        g.own += p->own;
        g.row.least = p->bytes < g.row.least ? p->bytes : g.row.least;
        g.row.most = p->bytes > g.row.most ? p->bytes : g.row.most;
        type = type && p->type && !strcmp(type, p->type) ? type : NULL;
    }
    g.row.layers = (int64_t)n;
    g.row.type = type ? xstrdup(type) : NULL;
    return g;
}

static int groups_by_bytes(const void *a, const void *b)
{
    return by_bytes(&((const struct group *)a)->row, &((const struct group *)b)->row);
}

/* Makes the rows of the children of N PLACES; PREFIX stands in front of their names. */
static struct group *groups_in(struct place *const *places, size_t n, const char *prefix, size_t *count)
{
    struct member *m = NULL;
    struct group *groups = NULL;
    size_t members = 0;
    *count = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < places[i]->n; k++)
            *PUSH(m, members) = (struct member){.place = places[i]->inside[k]};
    if (members == 0)
        return NULL;
    fold_numbered(m, members);
    for (size_t from = 0, to; from < members; from = to) {
        for (to = from + 1; to < members && !by_row(&m[from], &m[to]); to++) {
        }
        *PUSH(groups, *count) = group_of(m + from, to - from, prefix);
    }
    qsort(groups, *count, sizeof *groups, groups_by_bytes);
    free(m);
    return groups;
}

static void group_free(struct group *g)
{
    free(g->row.name);
    free(g->row.type);
    free(g->places);
}

/* Joins G with its only child as long as G holds nothing by itself; but not several layers with a child that
 * each of them has several times. */
static struct group joined(struct group g)
{
    size_t n = 1;
    while (n == 1 && g.own == 0) {
        struct group *inside = groups_in(g.places, (size_t)g.row.layers, g.row.name, &n);
        bool join = n == 1 && (g.row.layers == 1 || inside[0].row.layers == g.row.layers);
        if (join) {
            group_free(&g);
            g = inside[0];
        }
        for (size_t i = join; i < n; i++)
            group_free(&inside[i]);
        free(inside);
        n = join;
    }
    return g;
}

static void put(struct tree *t, struct layer_row row, int depth)
{
    row.depth = depth;
    *PUSH(t->rows, t->n) = row;
}

static void put_rows(struct tree *t, struct place *const *places, size_t n, int depth)
{
    size_t count;
    struct group *groups = groups_in(places, n, "", &count);
    for (size_t i = 0; i < count; i++) {
        if (groups[i].row.bytes < t->least || depth > t->depth) {
            group_free(&groups[i]);
            continue;
        }
        struct group g = joined(groups[i]);
        size_t before = t->n;
        put(t, g.row, depth);
        put_rows(t, g.places, (size_t)g.row.layers, depth + 1);
        if (g.own >= t->least && g.own > 0 && t->n > before + 1)
            put(t,
                (struct layer_row){.name = xstrdup("itself"), .bytes = g.own, .count = UNKNOWN, .layers = 1},
                depth + 1);
        free(g.places);
    }
    free(groups);
}

void layers_free(struct layer_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(rows[i].name);
        free(rows[i].type);
    }
    free(rows);
}

struct layer_row *layers_tree(const struct trace_live *live, size_t n, int64_t least, size_t rows,
                              size_t *count, int64_t *rest)
{
    struct place root = {.name = xstrdup("")}, *outermost = &root;
    struct tree t = {.least = least, .depth = 64};
    *rest = 0;
    for (size_t i = 0; i < n; i++) {
        if (live[i].layer && live[i].layer[0])
            add(&root, &live[i]);
        else
            *rest += live[i].size;
    }
    for (;; t.depth--) {
        put_rows(&t, &outermost, 1, 0);
        if (!rows || t.n <= rows || t.depth <= 0)
            break;
        layers_free(t.rows, t.n);
        t.rows = NULL;
        t.n = 0;
        t.depth = t.depth == 64 ? 12 : t.depth;
    }
    place_free(&root);
    *count = t.n;
    return t.rows;
}
