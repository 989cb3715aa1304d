/*
 * addresses.h - look-ups by address: a table of exact addresses (vs_table), a tree of address ranges
 * (vs_spans).
 */
#ifndef VS_TRACE_LEDGER_ADDRESSES_H
#define VS_TRACE_LEDGER_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>

/* A hash table from 64-bit keys to 32-bit values: open addressing with linear probing.  A removal shifts the
 * following cells back, so there are no tombstones: a table that had a million entries and has ten is as fast
 * as one that never had more. */

#define VS_TABLE_NONE UINT32_MAX /* cannot be stored */

struct vs_cell {
    uint64_t key;
    uint32_t value; /* VS_TABLE_NONE = the cell is free */
};

struct vs_table {
    struct vs_cell *cells;
    size_t mask; /* cells - 1 */
    size_t count;
};

uint32_t vs_table_get(const struct vs_table *t, uint64_t key);
int vs_table_put(struct vs_table *t, uint64_t key, uint32_t value); /* replaces; 0 or -ENOMEM */
uint32_t vs_table_remove(struct vs_table *t, uint64_t key);         /* what stood there */
void vs_table_free(struct vs_table *t);

/* An ordered set of address ranges that do not overlap, each with a number: a treap, a binary search tree by
 * start address that a random priority of each node keeps shallow. */

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
