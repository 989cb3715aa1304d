/*
 * pools.h - which pool of PyTorch's allocator the memory of each entry of a trace was of.
 *
 * Graph captures and MemPools have private pools.  A snapshot says of each segment that it has at its end
 * which pool it is of; from PyTorch 2.12 on each entry says so, too.  Before 2.12 the pool is known of
 * entries in segments that live to the end, as all blocks of a segment are of its pool.  Of a segment that
 * went back earlier nobody can say it, even where no segment of a private pool is left.
 */
#ifndef VS_IMPORT_POOLS_H
#define VS_IMPORT_POOLS_H

#include "snapshot.h"
#include "trace/ledger/addresses.h"

struct pools {
    struct vs_spans start[SNAPSHOT_DEVICES]; /* what there is before the first entry: the pool */
    uint64_t unknown;                        /* requests of whose pool nothing is known */
};

/* Sets the pool of each event. */
void pools_find(struct pools *p, struct snapshot *s);
void pools_free(struct pools *p);

/* Of what lived at ADDRESS before the first entry. */
uint32_t pools_at_start(const struct pools *p, int device, uint64_t address);

#endif
