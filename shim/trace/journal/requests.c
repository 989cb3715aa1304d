/*
 * requests.c - the page on which another process asks the recorded one for something (trace/control.h).
 *
 *      asker                                     recorded process
 *      writes the request; ASKED    ──────────▶  TAKEN; copies the request and carries it out
 *        │ where it is late: WITHDRAWN             │
 *      reads the answer             ◀──────────  writes the answer; ANSWERED
 *
 * One word has the request's number and how far it has come.  From ASKED it goes on by a swap that one side
 * wins, so a request is carried out or withdrawn, and its asker knows which.  Askers exclude each other by a
 * lock on the file, which the kernel takes back however its holder ends: who gets it may withdraw a request
 * that was left, and half a request was never ASKED.  Nothing that stands here is trusted: counts and ends of
 * texts are set by who reads them.
 */
#include "format.h"

enum state { IDLE, ASKED, TAKEN, DONE }; /* IDLE: none yet, or withdrawn */

enum {
    REQUEST_WORDS = sizeof(struct vs_control_request) / sizeof(uint64_t),
    ANSWER_WORDS = sizeof(struct vs_control_answer) / sizeof(uint64_t)
};
_Static_assert(sizeof(struct vs_control_request) % sizeof(uint64_t) == 0, "it is copied by words");
_Static_assert(sizeof(struct vs_control_answer) % sizeof(uint64_t) == 0, "it is copied by words");

struct page {
    _Atomic uint32_t at; /* number << 2 | enum state */
    uint32_t reserved;
    _Atomic uint64_t until_ns; /* CLOCK_MONOTONIC; later it is not taken: its asker is not there any more */
    _Atomic uint64_t request[REQUEST_WORDS], answer[ANSWER_WORDS];
};
_Static_assert(sizeof(struct page) <= VS_PAGE, "see vs_journal_row_bytes");

/* NULL: the journal is of a vramscope that knew no requests. */
static struct page *page_of(const struct vs_journal *j)
{
    return j->capacity[VS_SEC_PAGES] > VS_PAGE_REQUESTS
               ? vs_journal_row(j, VS_SEC_PAGES, VS_PAGE, VS_PAGE_REQUESTS)
               : NULL;
}

static void put(_Atomic uint64_t *to, const void *from, int words)
{
    for (int i = 0; i < words; i++) /* relaxed: published by the word behind it */
        atomic_store_explicit(&to[i], ((const uint64_t *)from)[i], memory_order_relaxed);
}

static void get(void *to, const _Atomic uint64_t *from, int words)
{
    for (int i = 0; i < words; i++) /* relaxed: the word before it was acquired */
        ((uint64_t *)to)[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
}

static uint32_t at_of(uint32_t number, enum state state)
{
    return number << 2 | (uint32_t)state;
}

/* Acquire, release: what was written before either side's step is seen behind it. */
static bool step(struct page *p, uint32_t number, enum state from, enum state to)
{
    uint32_t expected = at_of(number, from);
    return atomic_compare_exchange_strong_explicit(&p->at, &expected, at_of(number, to), memory_order_acq_rel,
                                                   memory_order_relaxed);
}

/* ---- who asks ---- */

bool vs_journal_can_ask(const struct vs_journal *j)
{
    return j->writable && page_of(j);
}

uint32_t vs_journal_ask(struct vs_journal *j, const struct vs_control_request *request, uint64_t until_ns)
{
    struct page *p = page_of(j);
    uint32_t at = atomic_load_explicit(&p->at, memory_order_acquire), number = at >> 2;
    if ((at & 3) == TAKEN || ((at & 3) == ASKED && !step(p, number, ASKED, IDLE)))
        return 0;
    number = (number + 1) & UINT32_MAX >> 2;
    number += number == 0;
    put(p->request, request, REQUEST_WORDS);
    atomic_store_explicit(&p->until_ns, until_ns, memory_order_relaxed);
    atomic_store_explicit(&p->at, at_of(number, ASKED), memory_order_release);
    return number;
}

bool vs_journal_withdraw(struct vs_journal *j, uint32_t number)
{
    return step(page_of(j), number, ASKED, IDLE);
}

enum vs_request_state vs_journal_request_state(const struct vs_journal *j, uint32_t number,
                                               struct vs_control_answer *answer)
{
    struct page *p = page_of(j);
    uint32_t at = atomic_load_explicit(&p->at, memory_order_acquire);
    if (at >> 2 != number || (at & 3) == IDLE)
        return VS_REQUEST_DROPPED;
    if ((at & 3) != DONE)
        return (at & 3) == TAKEN ? VS_REQUEST_TAKEN : VS_REQUEST_WAITS;
    get(answer, p->answer, ANSWER_WORDS);
    answer->number = number;
    answer->text[sizeof answer->text - 1] = 0;
    return VS_REQUEST_ANSWERED;
}

/* ---- the recorded process ---- */

bool vs_journal_requested(struct vs_journal *j, struct vs_control_request *out, uint64_t now_ns)
{
    struct page *p = page_of(j);
    uint32_t at = atomic_load_explicit(&p->at, memory_order_acquire), number = at >> 2;
    if ((at & 3) != ASKED)
        return false;
    bool late = now_ns > atomic_load_explicit(&p->until_ns, memory_order_relaxed);
    if (!step(p, number, ASKED, late ? IDLE : TAKEN) || late)
        return false;
    get(out, p->request, REQUEST_WORDS);
    out->number = number;
    out->to[sizeof out->to - 1] = 0;
    return true;
}

void vs_journal_answer(struct vs_journal *j, const struct vs_control_answer *answer)
{
    struct page *p = page_of(j);
    put(p->answer, answer, ANSWER_WORDS);
    /* Release: who sees it sees the answer. */
    atomic_store_explicit(&p->at, at_of(answer->number, DONE), memory_order_release);
}
