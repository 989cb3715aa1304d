/* spans.c - see spans.h.  Node numbers in the tree are 1-based: 0 is the empty tree. */
#include "spans.h"

#include <errno.h>
#include <stdlib.h>

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
