/*
 * uses.c - what the device was given: its words in the ring, among the events, and the rows that uses are
 * summed up in.
 *
 * Which blocks the words lie in is found where events are taken out (trace/uses), so the thread that launches
 * reads nothing about blocks.  Uses may fill three quarters of the ring, so that they never drop an event.
 *
 * Any thread, any signal handler; no lock, no allocation.
 */
#include "format.h"

#include "claim.h"
#include "core/arch/cpu.h"
#include "core/clock.h"

#define WAIT_NS 1000000u
#define WORDS   VS_USE_SLOT_WORDS

/* A lost use makes every block of that time one that was not tracked all its life (vs_uses_missing), so that
 * none is called idle wrongly.  Release: who sees an event that this thread records later sees the count. */
static void lose(struct vs_journal *j)
{
    __atomic_fetch_add(&vs_journal_access_state(j)->uses, 1, __ATOMIC_RELEASE);
}

/* Claims SLOTS slots one behind the other: the first sequence, or VS_SEQ_NONE where the ring is too full.
 * Orders: see vs_ring_claim. */
static inline uint64_t claim(const struct vs_ring *r, uint32_t slots)
{
    struct vs_journal_header *h = r->header;
    uint64_t seq = atomic_load_explicit(&h->head, memory_order_relaxed);
    while (likely(seq + slots + (r->mask + 1) / 8 <= atomic_load_explicit(&h->limit, memory_order_acquire))) {
        if (likely(atomic_compare_exchange_weak_explicit(&h->head, &seq, seq + slots, memory_order_relaxed,
                                                         memory_order_relaxed)))
            return seq;
        vs_arch_relax();
    }
    return VS_SEQ_NONE;
}

/* A full ring is waited for at most 1 ms, once; from then on uses are lost until it is half empty. */
static __attribute__((noinline, cold)) uint64_t claim_slow(struct vs_journal *j, const struct vs_ring *r,
                                                           uint32_t slots)
{
    struct vs_journal_header *h = j->header;
    uint64_t seq;
    if (atomic_load_explicit(&j->losing_uses, memory_order_relaxed)) {
        uint64_t used = atomic_load_explicit(&h->head, memory_order_relaxed) -
                        atomic_load_explicit(&h->tail, memory_order_relaxed);
        if (used > (j->mask + 1) / 2)
            return VS_SEQ_NONE;
        atomic_store_explicit(&j->losing_uses, false, memory_order_relaxed);
    }
    uint64_t until = vs_clock_ns() + WAIT_NS;
    do {
        for (int i = 0; i < 32; i++)
            vs_arch_relax();
        if ((seq = claim(r, slots)) != VS_SEQ_NONE)
            return seq;
    } while (vs_clock_ns() < until);
    atomic_store_explicit(&j->losing_uses, true, memory_order_relaxed);
    return VS_SEQ_NONE;
}

/* The event's fields behind its four words, as the last two words of a slot (event.h has the layout). */
struct rest {
    uint64_t range_stack, last;
};

static inline void fill(struct vs_slot *slot, uint64_t t_ns, const uint64_t *word, uint32_t words,
                        const struct rest *rest)
{
    atomic_store_explicit(&slot->word[0], t_ns, memory_order_relaxed);
    for (uint32_t i = 0; i < WORDS; i++)
        atomic_store_explicit(&slot->word[1 + i], i < words ? word[i] : 0, memory_order_relaxed);
    atomic_store_explicit(&slot->word[5], rest->range_stack, memory_order_relaxed);
    atomic_store_explicit(&slot->word[6], rest->last, memory_order_relaxed);
}

VS_HOT_CODE uint64_t vs_journal_append_uses(struct vs_journal *j, const struct vs_event *like,
                                            const uint64_t *word, uint32_t n)
{
    const struct vs_ring r = {j->header, j->slot, j->mask};
    const struct rest rest = {(uint64_t)like->range << 32 | like->stack,
                              (uint64_t)like->thread | (uint64_t)VS_OP_USE << 16 |
                                  (uint64_t)like->space << 24 | (uint64_t)(uint8_t)like->device << 32 |
                                  (uint64_t)like->status << 48};
    uint64_t seq = VS_SEQ_NONE;
    while (n != 0) {
        uint32_t slots = (n + WORDS - 1) / WORDS;
        seq = claim(&r, slots);
        if (unlikely(seq == VS_SEQ_NONE) && (seq = claim_slow(j, &r, slots)) == VS_SEQ_NONE) {
            lose(j);
            return VS_SEQ_NONE;
        }
        for (uint32_t i = 0; i < slots; i++, seq++) {
            struct vs_slot *slot = vs_ring_slot(&r, seq);
            uint32_t words = n < WORDS ? n : WORDS;
            if (unlikely(!vs_ring_usable(&r, seq)))
                continue; /* its words go into another one */
            fill(slot, like->t_ns, word, words, &rest);
            vs_fetch_to_write(slot + VS_FETCH_FAR);
            if (unlikely(!vs_ring_publish(&r, seq)) && !vs_ring_publish_doubtful(&r, seq))
                lose(j);
            word += words;
            n -= words;
        }
        seq--;
    }
    return seq;
}

/*
 * ---- rows ----
 *
 *      take() --> born, used, used, ... --> free, in the ring --> written, committed --> give()
 *
 * A block keeps its row from its birth until the row is committed to the database: the event of its free
 * names the row, and the writer gives it back after the commit.  So the journal of a killed process has the
 * row of every block that lives, or whose end is not written yet.
 *
 * Vacant rows form a list through their `next`, whose head lies in the owner's private memory.  The upper
 * half of the head counts changes, so that a compare-and-swap fails when the same row was taken and given
 * back meanwhile (ABA).  Rows that were never taken are handed out in order.
 */

struct vs_access_row *vs_journal_access_state(const struct vs_journal *j)
{
    return vs_journal_row(j, VS_SEC_ACCESSES, sizeof(struct vs_access_row), 0);
}

struct vs_access_row *vs_journal_access(const struct vs_journal *j, uint32_t id)
{
    if (id == 0 || id >= j->capacity[VS_SEC_ACCESSES])
        return NULL;
    return vs_journal_row(j, VS_SEC_ACCESSES, sizeof(struct vs_access_row), id);
}

uint32_t vs_journal_access_rows(const struct vs_journal *j)
{
    uint64_t rows = atomic_load_explicit(&j->header->rows[VS_SEC_ACCESSES], memory_order_relaxed);
    return (uint32_t)(rows < j->capacity[VS_SEC_ACCESSES] ? rows : j->capacity[VS_SEC_ACCESSES]);
}

static uint32_t take_new(struct vs_journal *j)
{
    _Atomic uint64_t *rows = &j->header->rows[VS_SEC_ACCESSES];
    /* Relaxed: the counter only hands out numbers.  It stops at the capacity, so that it never wraps. */
    uint64_t id = atomic_load_explicit(rows, memory_order_relaxed);
    do {
        if (id >= j->capacity[VS_SEC_ACCESSES])
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(rows, &id, id + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    return (uint32_t)id;
}

uint32_t vs_journal_access_take(struct vs_journal *j)
{
    /* Acquire, pairs with give(): the row's last user has finished reading it before we write to it. */
    uint64_t head = atomic_load_explicit(&j->vacant, memory_order_acquire);
    for (;;) {
        struct vs_access_row *row = vs_journal_access(j, (uint32_t)head);
        if (row == NULL)
            return take_new(j);
        /* If another thread takes the row meanwhile this may be any number; the swap then fails. */
        uint64_t next = __atomic_load_n(&row->next, __ATOMIC_RELAXED) | ((head >> 32) + 1) << 32;
        if (atomic_compare_exchange_weak_explicit(&j->vacant, &head, next, memory_order_acquire,
                                                  memory_order_acquire))
            return (uint32_t)head;
    }
}

void vs_journal_access_give(struct vs_journal *j, uint32_t id)
{
    struct vs_access_row *row = vs_journal_access(j, id);
    if (row == NULL || !j->writable)
        return;
    __atomic_store_n(&row->address, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&row->end, 0, __ATOMIC_RELAXED);
    uint64_t head = atomic_load_explicit(&j->vacant, memory_order_relaxed), now;
    do {
        __atomic_store_n(&row->next, (uint32_t)head, __ATOMIC_RELAXED);
        now = id | ((head >> 32) + 1) << 32;
        /* Release: our reads of the row come before the writes of its next user. */
    } while (!atomic_compare_exchange_weak_explicit(&j->vacant, &head, now, memory_order_release,
                                                    memory_order_relaxed));
}
