/*
 * spans.h - an ordered set of address ranges that do not overlap, each with a number.
 *
 * A treap: a binary search tree by start address, kept shallow by a random priority per node.  Unlike a hash
 * table it finds the range that holds an address, and the next one.  Used because an unmap can cover several
 * mappings, and to find the driver allocation that a framework's block lies in.
 */
#ifndef VS_TRACE_LEDGER_SPANS_H
#define VS_TRACE_LEDGER_SPANS_H

#include <stddef.h>
#include <stdint.h>

#define VS_SPAN_NONE UINT32_MAX

struct vs_span {
    uint64_t start, end; /* end is the first address after it */
    uint32_t value;
    uint32_t left, right, priority; /* used by the tree */
};

struct vs_spans {
    struct vs_span *nodes;
    uint32_t used, size, root, vacant; /* root, vacant: node + 1, 0 = none */
    uint32_t random;
};

/* 0, -ENOMEM, or -EEXIST where a range begins at START already. */
int vs_spans_insert(struct vs_spans *s, uint64_t start, uint64_t end, uint32_t value);
int vs_spans_remove(struct vs_spans *s, uint64_t start); /* 0 or -ENOENT */
/* The first range that ends after ADDRESS: the range that holds it, or else the next one.  NULL = none.  The
 * pointer is good until the next insert or remove. */
const struct vs_span *vs_spans_from(const struct vs_spans *s, uint64_t address);
/* The range that holds ADDRESS, or NULL. */
const struct vs_span *vs_spans_at(const struct vs_spans *s, uint64_t address);
void vs_spans_free(struct vs_spans *s);

#endif
