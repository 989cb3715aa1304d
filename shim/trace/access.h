/*
 * access.h - what the device was given, as the ring has it (VS_OP_USE), and a row of the journal's table of
 * accesses: how and when the device used one block.
 *
 * The hooks put the words that the device is given among the events (shim/access, journal/uses.c).  Whoever
 * takes events out of the ring finds the blocks that lived at that point and changes their rows (trace/uses).
 * The event of a block's free names its row, by which the ledger finds the allocation.
 */
#ifndef VS_TRACE_ACCESS_H
#define VS_TRACE_ACCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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

/* Bits of vs_access_row.phases and sure_phases: the phases of uses. */
enum vs_access_phase {
    VS_ACCESS_IN_NONE = 1,
    VS_ACCESS_IN_FORWARD = 2,
    VS_ACCESS_IN_LOGITS = 4,
    VS_ACCESS_IN_BACKWARD = 8,
    VS_ACCESS_IN_OPTIMIZER = 16,
    VS_ACCESS_IN_EVALUATION = 32,
    VS_ACCESS_IN_OTHER = 64
};

/* How an event VS_OP_USE names blocks: its field `device`.  Its four words are address, size, arg0 and arg1;
 * t_ns is the use's time, stack the string id of the work's name, range that of the phase (0: none), space an
 * enum vs_access_phase, status an enum vs_access_kind; of VS_USE_COPY and VS_USE_MEMORY without the sides'.
 * A word of VS_USE_WORDS or VS_USE_NEAR with VS_USE_SURE is a sure use; those of other forms all are. */
enum vs_use_form {
    VS_USE_WORDS,    /* four words, each of which may be an address; 0: none */
    VS_USE_MEMORY,   /* the memory at the first word, as many bytes as the second says (0: not known) */
    VS_USE_COPY,     /* a copy to the first word, from the second, of so many bytes as the third says */
    VS_USE_STORED,   /* four words that a copy from the host put into device memory; no use */
    VS_USE_REACHING, /* work that may have used every block that lives; no use */
    VS_USE_NEAR      /* as VS_USE_WORDS, two in each word; thread is the number of their base */
};
#define VS_USE_SLOT_WORDS 4u
#define VS_USE_SURE       (UINT64_C(1) << 63) /* no address has this bit */

/* When and how the device was given a block while it lived.  Unlike the rows of other tables these change,
 * and are reused for other blocks.  Only the thread that takes events out of the ring writes them.  The first
 * cache line is written at every use, the second when the block is born, first used and freed.  A use is sure
 * if the block's address is a parameter of its own, or a part of a structure whose layout is known, or if a
 * copy or a fill has it; a word inside another structure may have been left there by an earlier call.  Times
 * are CLOCK_MONOTONIC ns; names and phases are string ids, a phase of 0 says "none"; steps count from 1.
 *
 * Row 0 is no block's.  It says how far the rows are: last_ns is the sequence of the last event that they
 * contain, last_step the step under way, reach how much reachable work ran, uses how many uses were lost
 * (which alone other threads change), steps how many of those the rows contain. */
struct vs_access_row {
    uint64_t address, end; /* of the block; address 0: the row is vacant */
    uint64_t last_ns;
    uint64_t gap_ns;       /* the longest time between two uses in succession */
    uint64_t sure_last_ns; /* the last use that is sure; 0: none is */
    uint32_t last_name, last_phase, last_step;
    uint32_t uses;  /* one for each word of a launch, copy, ... that named the block */
    uint32_t steps; /* how many different steps had uses */
    uint16_t kinds;
    uint8_t phases : 7;   /* enum vs_access_phase: of all uses */
    uint8_t is_block : 1; /* a framework's, made by VS_OP_BLOCK_ALLOC; else by VS_OP_ALLOC */
    uint8_t sure_phases;  /* of those that are sure */

    uint64_t born_ns; /* t_ns of the event that made it */
    uint64_t first_ns;
    uint64_t gap_end_ns; /* when that time ended */
    uint64_t sure_first_ns;
    uint32_t first_name, first_phase, first_step, born_step;
    uint32_t end_step; /* the step under way at its free; 0: it lives */
    uint32_t reach;    /* how much `reachable` work had run when the block was born */
    uint32_t end_seq;  /* the lower half of the sequence of its free */
    uint32_t next;     /* access.c: the next vacant row */
};
_Static_assert(sizeof(struct vs_access_row) == 128, "two cache lines, and a use touches the first");

/*
 * ---- two addresses to a word (VS_USE_NEAR) ----
 *
 *      word    upper half: the second address | lower half: the first
 *      half    31 bits: 1 + how many times 16 bytes it lies above a base | 1 bit: whether the use is sure
 *              0: no address
 *      base    a multiple of 8 GiB, whose number the event has
 *
 * A list of 400 tensors so takes 50 slots instead of 100, and each slot's line has to come from the processor
 * whose thread empties the ring.
 */

#define VS_NEAR_WORDS     (2 * VS_USE_SLOT_WORDS)
#define VS_NEAR_BASE_BITS 33u /* 8 GiB: numbers of 16 bits, since addresses have 49 */
#define VS_NEAR_UNIT_BITS 4u
/* What an address has above its base has none of the first, and is not the second, as 1 is added to it. */
#define VS_NEAR_NOT (~(((UINT64_C(1) << 31) - 1) << VS_NEAR_UNIT_BITS))
#define VS_NEAR_MAX (((UINT64_C(1) << 31) - 1) << VS_NEAR_UNIT_BITS)

/* The number of a base with ADDRESS and what lies around it. */
static inline uint16_t vs_near_base(uint64_t address)
{
    uint64_t number = address >> VS_NEAR_BASE_BITS;
    return (uint16_t)(number != 0 ? number - 1 : 0);
}

/* Packs the eight addresses at FROM, which need not be aligned, as uses that are SURE or not.  False: one
 * does not lie near enough above BASE, or is no multiple of 16. */
static inline bool vs_near_pack(const void *from, uint16_t base, bool sure, uint64_t to[VS_USE_SLOT_WORDS])
{
    const uint64_t above = (uint64_t)base << VS_NEAR_BASE_BITS;
    uint64_t at[VS_NEAR_WORDS], bits = 0, last = 0;
    memcpy(at, from, sizeof at);
    for (uint32_t i = 0; i < VS_NEAR_WORDS; i++) {
        at[i] -= above;
        bits |= at[i];
        last |= at[i] == VS_NEAR_MAX;
    }
    if ((bits & VS_NEAR_NOT) != 0 || last)
        return false;
    for (uint32_t i = 0; i < VS_USE_SLOT_WORDS; i++) /* less 4 bits of a unit, plus the one for sure */
        to[i] = (at[2 * i] >> 3 | at[2 * i + 1] << 29) + UINT64_C(0x200000002) +
                (sure ? UINT64_C(0x100000001) : 0);
    return true;
}

/* The word of VS_USE_WORDS that HALF stands for; 0: none. */
static inline uint64_t vs_near_word(uint32_t half, uint16_t base)
{
    uint64_t above = (uint64_t)((half >> 1) - 1) << VS_NEAR_UNIT_BITS;
    return half == 0 ? 0 : (((uint64_t)base << VS_NEAR_BASE_BITS) + above) | (half & 1 ? VS_USE_SURE : 0);
}

#endif
