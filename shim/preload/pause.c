/*
 * pause.c - switches all of the recording off and on again, for benchmarks of the recording alone: steps with
 * and without it inside one process can be compared to the percent, two processes hardly can.
 *
 * During a pause every hook goes straight to the real function, and nothing is measured or sampled.  Unlike
 * the record window (vramscope.h) a pause loses the ends of recorded allocations: so totals are wrong
 * afterwards, the database says so from the first pause on, and the functions are exported but in no header.
 * A process that ends while it is paused leaves its database to be completed by `recover`.
 */
#include "core/hot.h"
#include "hooks/driver.h"
#include "record/recording.h"
#include "record/record.h"
#include "stacks/stacks.h"

enum { PART_BLOCKS = 1, PART_BIRTHS = 2, PART_PLACES = 4, PART_ACCESSES = 8, PART_WHOLE = 16 };

/* Both are called outside of ranges, as often as wanted. */
__attribute__((visibility("default"))) void vramscope_benchmark_pause(void);
__attribute__((visibility("default"))) void vramscope_benchmark_resume(void);
__attribute__((visibility("default"))) void vramscope_benchmark_parts(unsigned parts);

void vramscope_benchmark_pause(void)
{
    struct vs_recording *r = vs_recording;
    uint32_t on = VS_RECORDING_ON;
    if (vs_record_journal() == NULL)
        return;
    vs_uncovered(
        "what happened while a benchmark had paused the recording; from there on totals and peaks are "
        "those of a part of the program");
    /* release: pairs with the acquire in resume, which may run on another thread */
    struct vs_journal *j = atomic_exchange_explicit(&r->journal, NULL, memory_order_acq_rel);
    if (j != NULL)
        atomic_store_explicit(&r->paused, j, memory_order_release);
    vs_record_into(NULL); /* so that the steps without recording bear none of its cost */
    /* relaxed: the state follows the journal; an event in between is not recorded either way */
    atomic_compare_exchange_strong_explicit(&r->state, &on, VS_RECORDING_OFF, memory_order_relaxed,
                                            memory_order_relaxed);
}

void vramscope_benchmark_resume(void)
{
    struct vs_recording *r = vs_recording;
    struct vs_journal *j = atomic_exchange_explicit(&r->paused, NULL, memory_order_acq_rel);
    if (j == NULL)
        return;
    vs_record_into(j);
    /* release: as start() in record.c */
    atomic_store_explicit(&r->journal, j, memory_order_release);
    atomic_store_explicit(&r->state, VS_RECORDING_ON, memory_order_release);
}

static void careful(uint64_t reason, bool is)
{
    if (is)
        atomic_fetch_or_explicit(&vs_hot.careful, reason, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&vs_hot.careful, ~reason, memory_order_relaxed);
}

/* Switches what a recording with Python frames does beside its events, so that the cost of each can be told:
 * the stacks of blocks, the births of autograd nodes, what completes a stack (the node that runs and its
 * birth, the layer), the access ledger where there is one, and walks over all frames each time.  To be called
 * during a pause.  A recording without Python frames has none of them. */
void vramscope_benchmark_parts(unsigned parts)
{
    static uint32_t (*placed)(struct vs_journal *);
    static uint32_t blocks, tracked;
    struct vs_recording *r = vs_recording;
    if (!placed) {
        if (r->python_traits == 0)
            return;
        placed = vs_suppliers.python_stack;
        blocks = r->python_traits;
        tracked = r->tracked_traits;
    }
    vs_python_walk_whole(parts & PART_WHOLE);
    bool accesses = tracked && parts & PART_ACCESSES;
    vs_suppliers.python_stack = parts & PART_PLACES ? placed : vs_python_capture;
    r->stack_traits = parts & PART_BLOCKS ? r->stack_traits | blocks : r->stack_traits & ~blocks;
    r->tracked_traits = accesses ? tracked : 0;
    careful(VS_CAREFUL_PYTHON, parts & PART_BLOCKS);
    careful(VS_CAREFUL_BIRTHS, parts & PART_BIRTHS);
    careful(VS_CAREFUL_ACCESS, accesses); /* vs_hot.access follows it when the recording is resumed */
}
