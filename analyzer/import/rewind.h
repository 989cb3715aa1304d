/*
 * rewind.h - what a device's allocator held before the first entry of its trace: each entry, undone from the
 * last to the first, leads from the state at the end back to it.
 *
 * Memory of expandable segments may go in other parts than it came in.  So it is kept in cells: the pieces
 * between all addresses at which any part begins or ends.
 */
#ifndef VS_IMPORT_REWIND_H
#define VS_IMPORT_REWIND_H

#include "snapshot.h"
#include "trace/ledger/addresses.h"

struct rewound_block {
    uint64_t address, size, stream;
    uint32_t stack; /* of a block that still lives at the end, else 0: nobody says who allocated it */
    bool pending;   /* it was freed before, and not yet reusable */
    bool rounded;   /* its size is not what was requested: as snapshot.h has it */
    bool driver;    /* likewise */
    uint8_t rule;   /* likewise */
};

struct rewound_segment {
    uint64_t address, size, stream;
};

struct rewound {
    struct rewound_segment *segments; /* cudaMalloc's; by address */
    size_t segment_count;
    struct rewound_block *blocks; /* by address */
    size_t block_count;
    uint64_t *edges; /* cell i lies from edge i to edge i + 1; cells = edges - 1 */
    bool *mapped;    /* cells, at the start */
    size_t cells;
    size_t misfits; /* entries that do not fit to the state: a trace that lacks entries, or was changed */
};

/* Of DEVICE.  0, or -1 with a line in WHY (see snapshot_read). */
int rewind_device(struct rewound *r, const struct snapshot *s, int device, char *why, size_t why_size);
/* Bytes that were reserved at the start. */
uint64_t rewound_reserved(const struct rewound *r);
void rewound_free(struct rewound *r);

/* The first cell at or behind ADDRESS; CELLS where there is none. */
size_t rewound_cell(const struct rewound *r, uint64_t address);

/*
 * Which pool of PyTorch's allocator the memory of each entry was of (pools.c).  Graph captures and MemPools
 * have private ones.  A snapshot says the pool of each segment that it has at its end, and from PyTorch 2.12
 * on each entry says it.  Before, it is known in segments that live to the end; of one that went back earlier
 * nobody can say it, even where no segment of a private pool is left.
 */
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
