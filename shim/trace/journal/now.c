/*
 * now.c - a page of the journal that says where the process stands.
 *
 * One writer, the drain; any number of readers in other processes, which have the page mapped for reading and
 * can neither stop the writer nor be stopped by it.  A sequence lock: the writer makes the sequence odd,
 * changes the words, and makes it even again; a reader takes the words between two looks at one and the same
 * even sequence, and otherwise tries again.
 *
 *      writer      seq = odd | words ...      | seq = even
 *      reader                  seq? words ... seq?             odd, or moved on: again
 *
 * A process that is killed while it writes leaves the sequence odd for good.
 */
#include "format.h"

#include <sched.h>

#include "trace/now.h"

struct page {
    _Atomic uint64_t sequence;
    _Atomic uint64_t word[sizeof(struct vs_now) / sizeof(uint64_t)];
};
_Static_assert(sizeof(struct page) <= VS_PAGE, "see vs_journal_row_bytes");

enum { WORDS = sizeof(struct vs_now) / sizeof(uint64_t), TRIES = 64 };

static struct page *page_of(const struct vs_journal *j)
{
    return vs_journal_row(j, VS_SEC_NOW, VS_PAGE, 0);
}

void vs_journal_publish(struct vs_journal *j, const struct vs_now *now)
{
    struct page *p = page_of(j);
    const uint64_t *from = (const uint64_t *)now;
    /* Odd, also where an earlier writer was killed in between.  The fence keeps the words behind it. */
    uint64_t begun = atomic_load_explicit(&p->sequence, memory_order_relaxed) | 1;
    atomic_store_explicit(&p->sequence, begun, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (int i = 0; i < WORDS; i++)
        atomic_store_explicit(&p->word[i], from[i], memory_order_relaxed);
    /* Release: who sees it even sees the words. */
    atomic_store_explicit(&p->sequence, begun + 1, memory_order_release);
}

enum vs_now_state vs_journal_now(const struct vs_journal *j, struct vs_now *out)
{
    struct page *p = page_of(j);
    uint64_t *to = (uint64_t *)out;
    for (int i = 0; i < TRIES; i++) {
        if (i > 0) /* the writer may wait for this very CPU */
            sched_yield();
        /* Acquire: the words are read after it; the fence: before the second look. */
        uint64_t before = atomic_load_explicit(&p->sequence, memory_order_acquire);
        if (before == 0)
            return VS_NOW_NOTHING;
        if (before & 1)
            continue;
        for (int k = 0; k < WORDS; k++)
            to[k] = atomic_load_explicit(&p->word[k], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&p->sequence, memory_order_relaxed) != before)
            continue;
        /* it is another process's memory: no count is taken on trust */
        out->devices = out->devices < VS_NOW_DEVICES ? out->devices : VS_NOW_DEVICES;
        out->ranges = out->ranges < VS_NOW_RANGES ? out->ranges : VS_NOW_RANGES;
        return VS_NOW_SEEN;
    }
    return VS_NOW_TORN;
}
