/*
 * addresses.h - a hash table from 64-bit keys to 32-bit values, open addressing with linear probing.
 *
 * The ledger looks an address up once an event, so a look-up is one multiplication and usually one cache
 * line.  Removal shifts the following cells back: there are no tombstones, and a table that had a million
 * entries and has ten is as fast as one that never had more.  VS_TABLE_NONE cannot be stored.
 */
#ifndef VS_TRACE_LEDGER_ADDRESSES_H
#define VS_TRACE_LEDGER_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>

#define VS_TABLE_NONE UINT32_MAX

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

#endif
