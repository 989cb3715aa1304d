/*
 * pending.c - a small table of waiting pushes and pops.
 *
 * Each entry's state word is ticket << 2 | state.  So taking back and writing compete by one
 * compare-and-swap, and a reused entry is never mistaken for its previous use:
 *
 *      FREE -> BUSY (being filled) -> READY -> BUSY (being written) -> FREE
 *                                       `--> FREE (taken back)
 *
 * One thread writes at a time.  Others wait for it a little, so that their own events come after the pushes
 * that they belong to.  The wait is bounded, because the writer may be the very thread that a signal handler
 * interrupted.
 */
#include "pending.h"
#include "core/arch/cpu.h"

#include <string.h>

enum { FREE = 0, BUSY = 1, READY = 2, SLOTS = 256, SPINS = 2000, TEXT_KEPT = 64 };

struct slot {
    uint64_t state;
    struct vs_range_event event;
    char text[TEXT_KEPT]; /* a truncated copy, if the table of names was full */
};

#define ONE (UINT64_C(1) << VS_CAREFUL_PENDING) /* one waiting event, in the count in vs_hot.careful */

static struct slot slots[SLOTS];
static uint64_t last_ticket;
static const void *writer; /* the thread that flushes */

/* An event outside the record window does not count as lost. */
static void count_lost(const struct vs_range_event *event)
{
    struct vs_journal *j = vs_record_journal();

    if (j && vs_record_takes())
        vs_journal_count_lost(j, event->op);
}

uint64_t vs_pending_keep(const struct vs_range_event *event)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct slot *s = &slots[i];
        uint64_t old = __atomic_load_n(&s->state, __ATOMIC_RELAXED);

        /* Acquire: the entry's last user has finished before we fill it. */
        if ((old & 3) != FREE || !__atomic_compare_exchange_n(&s->state, &old, old | BUSY, false,
                                                              __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        uint64_t ticket = __atomic_add_fetch(&last_ticket, 1, __ATOMIC_RELAXED);

        s->event = *event;
        if (!event->names.name && event->names.text) {
            size_t length = event->names.length < TEXT_KEPT ? event->names.length : TEXT_KEPT;

            memcpy(s->text, event->names.text, length);
            s->event.names.text = s->text;
            s->event.names.length = length;
        }
        /* Counted before it is visible, so that a thread which takes it out never counts below 0. */
        atomic_fetch_add_explicit(&vs_hot.careful, ONE, memory_order_relaxed);
        /* Release: a thread that sees READY sees the filled entry. */
        __atomic_store_n(&s->state, ticket << 2 | READY, __ATOMIC_RELEASE);
        return ticket;
    }
    count_lost(event);
    return 0;
}

static bool free_slot(struct slot *s, uint64_t state)
{
    if (!__atomic_compare_exchange_n(&s->state, &state, state & ~3ull, false, __ATOMIC_RELEASE,
                                     __ATOMIC_RELAXED))
        return false;
    atomic_fetch_sub_explicit(&vs_hot.careful, ONE, memory_order_relaxed);
    return true;
}

bool vs_pending_cancel(uint64_t ticket)
{
    for (uint32_t i = 0; ticket && i < SLOTS; i++)
        if (__atomic_load_n(&slots[i].state, __ATOMIC_RELAXED) == (ticket << 2 | READY))
            return free_slot(&slots[i], ticket << 2 | READY);
    return false;
}

bool vs_pending_cancel_id(uint32_t id)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint64_t state = __atomic_load_n(&slots[i].state, __ATOMIC_ACQUIRE);

        /* If the entry was reused between the two reads its state differs, and the swap fails. */
        if ((state & 3) == READY && slots[i].event.id == id && slots[i].event.op == VS_OP_RANGE_PUSH)
            return free_slot(&slots[i], state);
    }
    return false;
}

/* The waiting event with the smallest ticket, made BUSY; NULL: none. */
static struct slot *take_oldest(void)
{
    for (;;) {
        struct slot *oldest = NULL;
        uint64_t least = UINT64_MAX;

        for (uint32_t i = 0; i < SLOTS; i++) {
            uint64_t state = __atomic_load_n(&slots[i].state, __ATOMIC_RELAXED);

            if ((state & 3) == READY && state < least) {
                least = state;
                oldest = &slots[i];
            }
        }
        if (!oldest)
            return NULL;
        if (__atomic_compare_exchange_n(&oldest->state, &least, (least & ~3ull) | BUSY, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return oldest;
    }
}

static void write_all(void)
{
    struct slot *s;

    while ((s = take_oldest())) {
        uint64_t state = __atomic_load_n(&s->state, __ATOMIC_RELAXED);

        if (!vs_range_event_write(&s->event, s->event.owner && s->event.owner != vs_range_self())) {
            __atomic_store_n(&s->state, (state & ~3ull) | READY, __ATOMIC_RELEASE);
            return;
        }
        free_slot(s, state);
    }
}

static void wait_for_writer(const void *self)
{
    const void *who;

    for (int i = 0; i < SPINS; i++) {
        who = __atomic_load_n(&writer, __ATOMIC_ACQUIRE);
        if (!who || who == self)
            return;
        vs_arch_relax();
    }
}

void vs_pending_flush_slow(void)
{
    const void *none = NULL, *self = vs_range_self();

    if (!vs_record_journal())
        return;
    /* Acquire and release on `writer`: each flush sees the entries as the previous one left them. */
    if (!__atomic_compare_exchange_n(&writer, &none, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        wait_for_writer(self);
        return;
    }
    write_all();
    __atomic_store_n(&writer, NULL, __ATOMIC_RELEASE);
}

void vs_pending_forget(void)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        __atomic_store_n(&slots[i].state, 0, __ATOMIC_RELAXED);
    atomic_fetch_and_explicit(&vs_hot.careful, ONE - 1, memory_order_relaxed);
    __atomic_store_n(&writer, NULL, __ATOMIC_RELEASE);
}
