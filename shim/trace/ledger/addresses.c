/* addresses.c - the table of addresses and the tree of ranges. */
#include "addresses.h"

#include <errno.h>
#include <stdlib.h>

/* ---- exact addresses ---- */

static size_t home(const struct vs_table *t, uint64_t key)
{
    /* addresses differ in their middle bits: multiply, then take the top half */
    uint64_t h = key * 0x9E3779B97F4A7C15u;
    return (size_t)(h >> 32) & t->mask;
}

static size_t find_cell(const struct vs_table *t, uint64_t key)
{
    size_t i = home(t, key);
    while (t->cells[i].value != VS_TABLE_NONE && t->cells[i].key != key)
        i = (i + 1) & t->mask;
    return i;
}

uint32_t vs_table_get(const struct vs_table *t, uint64_t key)
{
    return t->count ? t->cells[find_cell(t, key)].value : VS_TABLE_NONE;
}

static int grow(struct vs_table *t)
{
    size_t size = t->cells ? (t->mask + 1) * 2 : 64;
    struct vs_table next = {.cells = malloc(size * sizeof *next.cells), .mask = size - 1, .count = t->count};
    if (!next.cells)
        return -ENOMEM;
    for (size_t i = 0; i < size; i++)
        next.cells[i].value = VS_TABLE_NONE;
    for (size_t i = 0; t->cells && i <= t->mask; i++)
        if (t->cells[i].value != VS_TABLE_NONE)
            next.cells[find_cell(&next, t->cells[i].key)] = t->cells[i];
    free(t->cells);
    *t = next;
    return 0;
}

int vs_table_put(struct vs_table *t, uint64_t key, uint32_t value)
{
    if (!t->cells || t->count * 2 > t->mask) {
        int rc = grow(t);
        if (rc < 0)
            return rc;
    }
    size_t i = find_cell(t, key);
    t->count += t->cells[i].value == VS_TABLE_NONE;
    t->cells[i] = (struct vs_cell){key, value};
    return 0;
}

/* Closes the gap at cell I: moves up those of the following cells that may stand there. */
static void close_gap(struct vs_table *t, size_t gap)
{
    for (size_t i = (gap + 1) & t->mask; t->cells[i].value != VS_TABLE_NONE; i = (i + 1) & t->mask) {
        size_t from_home = (i - home(t, t->cells[i].key)) & t->mask;
        if (from_home >= ((i - gap) & t->mask)) {
            t->cells[gap] = t->cells[i];
            gap = i;
        }
    }
    t->cells[gap].value = VS_TABLE_NONE;
}

uint32_t vs_table_remove(struct vs_table *t, uint64_t key)
{
    if (!t->count)
        return VS_TABLE_NONE;
    size_t i = find_cell(t, key);
    uint32_t value = t->cells[i].value;
    if (value == VS_TABLE_NONE)
        return value;
    close_gap(t, i);
    t->count--;
    return value;
}

void vs_table_free(struct vs_table *t)
{
    free(t->cells);
    *t = (struct vs_table){0};
}

/* ---- ranges: node numbers in the tree are 1-based, 0 is the empty tree ---- */

static struct vs_span *at(const struct vs_spans *s, uint32_t node)
{
    return &s->nodes[node - 1];
}

static uint32_t next_random(struct vs_spans *s)
{
    uint32_t x = s->random ? s->random : 2463534242u; /* xorshift32 */
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return s->random = x;
}

static uint32_t take_node(struct vs_spans *s)
{
    if (s->vacant) {
        uint32_t node = s->vacant;
        s->vacant = at(s, node)->left;
        return node;
    }
    if (s->used == s->size) {
        uint32_t size = s->size ? s->size * 2 : 16;
        struct vs_span *nodes = realloc(s->nodes, size * sizeof *nodes);
        if (!nodes)
            return 0;
        s->nodes = nodes;
        s->size = size;
    }
    return ++s->used;
}

/* Splits TREE into the nodes below START (*left) and the rest (*right). */
static void split(struct vs_spans *s, uint32_t tree, uint64_t start, uint32_t *left, uint32_t *right)
{
    while (tree) {
        if (at(s, tree)->start < start) {
            *left = tree;
            left = &at(s, tree)->right;
            tree = *left;
        } else {
            *right = tree;
            right = &at(s, tree)->left;
            tree = *right;
        }
    }
    *left = *right = 0;
}

/* Joins two trees, every node of LEFT being below every node of RIGHT. */
static uint32_t join(struct vs_spans *s, uint32_t left, uint32_t right)
{
    uint32_t root = 0, *link = &root;
    while (left && right) {
        if (at(s, left)->priority > at(s, right)->priority) {
            *link = left;
            link = &at(s, left)->right;
            left = *link;
        } else {
            *link = right;
            link = &at(s, right)->left;
            right = *link;
        }
    }
    *link = left ? left : right;
    return root;
}

static uint32_t *find(struct vs_spans *s, uint64_t start)
{
    uint32_t *link = &s->root;
    while (*link && at(s, *link)->start != start)
        link = start < at(s, *link)->start ? &at(s, *link)->left : &at(s, *link)->right;
    return link;
}

int vs_spans_insert(struct vs_spans *s, uint64_t start, uint64_t end, uint32_t value)
{
    if (*find(s, start))
        return -EEXIST;
    uint32_t node = take_node(s);
    if (!node)
        return -ENOMEM;
    *at(s, node) = (struct vs_span){start, end, value, 0, 0, next_random(s)};
    uint32_t left, right;
    split(s, s->root, start, &left, &right);
    s->root = join(s, join(s, left, node), right);
    return 0;
}

int vs_spans_remove(struct vs_spans *s, uint64_t start)
{
    uint32_t *link = find(s, start), node = *link;
    if (!node)
        return -ENOENT;
    *link = join(s, at(s, node)->left, at(s, node)->right);
    at(s, node)->left = s->vacant;
    s->vacant = node;
    return 0;
}

const struct vs_span *vs_spans_from(const struct vs_spans *s, uint64_t address)
{
    uint32_t best = 0;
    for (uint32_t node = s->root; node;) {
        if (at(s, node)->end > address) {
            best = node;
            node = at(s, node)->left;
        } else {
            node = at(s, node)->right;
        }
    }
    return best ? at(s, best) : NULL;
}

const struct vs_span *vs_spans_at(const struct vs_spans *s, uint64_t address)
{
    const struct vs_span *span = vs_spans_from(s, address);
    return span && span->start <= address ? span : NULL;
}

void vs_spans_free(struct vs_spans *s)
{
    free(s->nodes);
    *s = (struct vs_spans){0};
}
