/*
 * rewind.h - what a device's allocator held before the first entry of its trace.
 *
 *      segments, blocks        trace, backwards                      segments, blocks
 *      at the end        -->   alloc: it was not there before   -->  at the start
 *                              free_requested: it was
 *
 * PyTorch says what there is when the snapshot is taken; each entry of the trace, undone from the last to the
 * first, leads back to what was there before.  Memory of expandable segments comes and goes in parts, and it
 * may go in other parts than it came in.  So it is kept in cells: the pieces between all addresses at which
 * any part begins or ends.
 */
#ifndef VS_IMPORT_REWIND_H
#define VS_IMPORT_REWIND_H

#include "snapshot.h"

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

#endif
