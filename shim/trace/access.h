/*
 * access.h - a row of the journal's table of accesses: how and when the device used one block.
 *
 * The access ledger (shim/access) changes the row while its block lives. The event of the block's free names
 * the row, and the ledger finds the allocation that it belongs to.
 */
#ifndef VS_TRACE_ACCESS_H
#define VS_TRACE_ACCESS_H

#include <stdint.h>

/* How the device was given a block: bits of vs_access_row.kinds, and of access.kinds in the database. */
enum vs_access_kind {
    VS_ACCESS_KERNEL = 1,      /* a parameter of a kernel's launch, or a word inside one, is its address */
    VS_ACCESS_GRAPH = 2,       /* a parameter of a node in a launched graph is its address */
    VS_ACCESS_COPY_FROM = 4,   /* a copy read it */
    VS_ACCESS_COPY_TO = 8,     /* a copy wrote it */
    VS_ACCESS_HOST = 16,       /* a copy between it and the host's memory */
    VS_ACCESS_FILL = 32,       /* a memset wrote it */
    VS_ACCESS_MAP = 64,        /* a tensor map (TMA) names its address */
    VS_ACCESS_STORED = 128,    /* its address was copied into device memory: kernels may find it there */
    VS_ACCESS_REACHABLE = 256, /* work that finds addresses in memory ran while it lived (access/use.h) */
    VS_ACCESS_PARTIAL = 512    /* not tracked all its life: uses may be missing */
};

/* Bits of vs_access_row.phases: the phases of uses. */
enum vs_access_phase {
    VS_ACCESS_IN_NONE = 1,
    VS_ACCESS_IN_FORWARD = 2,
    VS_ACCESS_IN_LOGITS = 4,
    VS_ACCESS_IN_BACKWARD = 8,
    VS_ACCESS_IN_OPTIMIZER = 16,
    VS_ACCESS_IN_EVALUATION = 32,
    VS_ACCESS_IN_OTHER = 64
};

/* When and how the device was given a block while it lived.  Unlike the rows of other tables these change,
 * and are reused for other blocks.  The first cache line is written at every use, the second when the block
 * is born, first used and freed.  A use is sure if the block's address is a parameter of its own, or a part
 * of a structure whose layout is known, or if a copy or a fill has it; a word inside another structure may
 * have been left there by an earlier call.  Times are CLOCK_MONOTONIC ns; names and phases are string ids, a
 * phase of 0 says "none"; steps count from 1. */
struct vs_access_row {
    uint64_t address, end; /* of the block; address 0: the row is vacant */
    uint64_t last_ns;
    uint64_t gap_ns;       /* the longest time between two uses in succession */
    uint64_t sure_last_ns; /* the last use that is sure; 0: none is */
    uint32_t last_name, last_phase, last_step;
    uint32_t uses;  /* one for each word of a launch, copy, ... that named the block */
    uint32_t steps; /* how many different steps had uses */
    uint16_t kinds;
    uint8_t phases;
    uint8_t op; /* the event that made it: VS_OP_BLOCK_ALLOC or VS_OP_ALLOC */

    uint64_t born_ns; /* t_ns of the event that made it */
    uint64_t first_ns;
    uint64_t gap_end_ns; /* when that time ended */
    uint64_t sure_first_ns;
    uint32_t first_name, first_phase, first_step, born_step;
    uint32_t end_step; /* the step under way at its free; 0: it lives */
    uint32_t reach;    /* the caller's: how much `reachable` work had run when the block was born */
    uint32_t next;     /* access.c: the next vacant row */
    uint32_t unused[1];
};
_Static_assert(sizeof(struct vs_access_row) == 128, "two cache lines, and a use touches the first");

#endif
