/*
 * hot.h - keeps the data that every recorded event reads together in memory.
 *
 * Between two events of a training step the caches fill with the program's data, and an event costs a cache
 * miss for each line and page that it touches.  Nearly all events are reports of a caching allocator.  So all
 * that these read lies on two cache lines: one of the process (vs_hot) and one of the thread (vs_self). These
 * lead to the ring's own line and the slot (trace/journal/claim.h), and to no other:
 *
 *      vs_self ─┐                    ┌─▶ head, limit, doubt
 *               ├─▶ record/block.h ──┤
 *      vs_hot ──┘                    └─▶ slot, asked for some events ago
 *
 * Lines whose addresses are known are prefetched before the first of them is needed.
 */
#ifndef VS_CORE_HOT_H
#define VS_CORE_HOT_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/arch/cpu.h"
#include "clock.h"

/* The section's name is a C identifier, so every linker puts its parts side by side.  Only for variables
 * that are hardly ever written: a write takes the line away from every processor that records. */
#define VS_HOT __attribute__((section("vs_hot")))

/* For functions that every event executes: they begin at a cache line, and so touch no line needlessly, and
 * the linker puts them side by side, on a few pages: between two events the program's code takes both caches
 * and translations. */
#define VS_HOT_CODE __attribute__((aligned(64), hot))

/* What a producer needs of a ring (trace/journal/claim.h). */
struct vs_ring {
    struct vs_journal_header *header;
    struct vs_slot *slot;
    uint64_t mask; /* slots - 1 */
};

/* ---- the process's line ---- */

/* `careful`: why a block's report must take the general way.  The bits above these count pushes and pops
 * that wait. */
#define VS_CAREFUL_WINDOW  UINT64_C(1)  /* the record window is closed */
#define VS_CAREFUL_STACKS  UINT64_C(2)  /* blocks get their native call stack */
#define VS_CAREFUL_ACCESS  UINT64_C(4)  /* no reason: the access ledger wants to know where blocks lie */
#define VS_CAREFUL_PYTHON  UINT64_C(8)  /* blocks get their Python frames alone: allocations ask for them */
#define VS_CAREFUL_BIRTHS  UINT64_C(16) /* no reason: births of autograd nodes get their stack */
#define VS_CAREFUL_PENDING 32u          /* pending.c: the bits from here on count */

/* Read at every report of a block, written rarely.  The kernel wipes its page in a fork child (hot.c), which
 * finds no ring here and therefore calls vs_record. */
struct vs_hot {
    /* record.c: the ring, while reports of blocks may go straight into it; otherwise its header is NULL */
    struct vs_journal_header *_Atomic ring_header;
    struct vs_slot *ring_slot;
    struct vs_journal *journal; /* of that ring */
    uint32_t ring_mask;
    _Atomic uint32_t nudge_mask; /* events whose sequence has none of these bits nudge the drain */
    _Atomic uint64_t careful;    /* VS_CAREFUL_* */
    _Atomic uint32_t generation; /* of the recording */
    _Atomic uint32_t access;     /* not 0: accesses are recorded (access/use.h) */
    const uint32_t
        *_Atomic lead; /* ranges.c: the lead thread's current range; NULL: there is no lead thread */
    void (*_Atomic profiler)(void); /* torch.c: the real function; NULL: not looked up yet */
};
_Static_assert(sizeof(struct vs_hot) == 64, "one line");

extern union vs_hot_page {
    struct vs_hot line;
    char page[VS_ARCH_PAGE];
} vs_hot_page;
#define vs_hot (vs_hot_page.line)

/* Has the page wiped in fork children (idempotent). */
void vs_hot_prepare(void);

/* ---- the thread's line ---- */

#define VS_RANGE_UNKNOWN UINT32_MAX /* `range`: vs_range_current() knows */

struct vs_self {
    _Alignas(64) struct vs_event_clock clock;
    uint32_t generation; /* of the recording that `id` belongs to */
    uint16_t id;
    uint16_t internal; /* depth of vs_record_enter_internal */
    uint32_t range;    /* ranges.c: the thread's own innermost phase; 0: the lead's; or VS_RANGE_UNKNOWN */
    uint32_t events;   /* torch_events.c: CUDA events that PyTorch recorded since the thread's last report */
    struct vs_block *block; /* stacks/block.c: what the thread needs to capture call stacks; NULL: none yet */
};
_Static_assert(sizeof(struct vs_self) == 64, "one line");

extern __thread struct vs_self vs_self __attribute__((tls_model("initial-exec")));

/* ---- prefetching ---- */

/* Prefetches the line at ADDRESS for reading. */
static inline void vs_fetch(const void *address)
{
    __builtin_prefetch(address, 0);
}

/* Prefetches the line at ADDRESS for writing. */
static inline void vs_fetch_to_write(const void *address)
{
    vs_arch_fetch_to_write(address);
}

#endif
