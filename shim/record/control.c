/*
 * control.c - what other processes ask of this one (trace/control.h): to suspend what is alive, and to
 * resume.
 *
 *      the drain, each round          a thread for this one request, which the keeper starts
 *      takes the request, finds ───▶  vs_suppliers.control, writes the answer
 *      the blocks that it names
 *
 * The drain knows which blocks have which role, but must not wait for the device.  One request at a time;
 * another stays on its page meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fork.h"
#include "core/options.h"
#include "recording.h"
#include "trace/roles.h"
#include "trace/writer/writer.h"

/* Of r->control.  The request is written while it is NOTHING, by the drain, and read from UNDER_WAY on, by
 * the thread; each step releases what was written before it. */
enum { NOTHING, FINDING, WANTED, UNDER_WAY, CLOSED };

static struct {
    struct vs_journal *j;
    struct vs_control_request request;
    struct vs_control_block *blocks; /* a mapping of its own */
    size_t count;
    uint64_t goal, until_ns; /* the ring's head when it was taken; how long the ledger may be behind that */
    uint64_t beside_bytes;   /* as in the answer */
    char beside[VS_CONTROL_TEXT];
} asked;

/* ---- which blocks ---- */

static bool names_roles(const struct vs_control_request *q)
{
    return q->kind == VS_CONTROL_SUSPEND && (q->roles | q->keep) && vs_suppliers.control != vs_control_refuse;
}

/* "parameter, gradient" */
static void put_roles(char *out, size_t size, uint32_t roles)
{
    size_t n = 0;
    *out = 0;
    for (unsigned i = 0; i < VS_ROLE_COUNT && n < size; i++)
        if (roles >> i & 1)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "", vs_role_word(i));
}

/* Finds the blocks; false: there are none, and WHY says so. */
static bool find_blocks(const struct vs_writer *w, const struct vs_control_request *q, char *why, size_t size)
{
    char words[200];
    size_t named, n = vs_writer_blocks(w, q, NULL, 0, &named);
    put_roles(words, sizeof words, q->roles | q->keep);
    if (!named)
        snprintf(why, size,
                 "nothing that is alive in the arena is known to be %s: PyTorch says so under vramscope run",
                 words);
    else if (!n)
        snprintf(why, size, "nothing but %s is alive in the arena", words);
    else if (!(asked.blocks = vs_map(n * sizeof *asked.blocks)))
        snprintf(why, size, "no memory for a list of %zu blocks", n);
    else
        asked.count = vs_writer_blocks(w, q, asked.blocks, n, &named);
    return asked.blocks != NULL;
}

static void forget_blocks(void)
{
    if (asked.blocks)
        munmap(asked.blocks, asked.count * sizeof *asked.blocks);
    asked.blocks = NULL;
    asked.count = 0;
}

/* ---- the thread of a request ---- */

bool vs_control_begin(struct vs_recording *r)
{
    uint32_t wanted = WANTED;
    /* acquire: the request, which was written before it was WANTED */
    return atomic_load_explicit(&r->control, memory_order_relaxed) == WANTED &&
           atomic_compare_exchange_strong_explicit(&r->control, &wanted, UNDER_WAY, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void end(struct vs_recording *r, struct vs_control_answer *answer)
{
    forget_blocks();
    answer->number = asked.request.number;
    vs_journal_answer(asked.j, answer);
    atomic_store_explicit(&r->control, NOTHING, memory_order_release);
}

void vs_control_carry_out(struct vs_recording *r)
{
    struct vs_control_answer answer = {.status = VS_CONTROL_REFUSED};
    vs_suppliers.control(&asked.request, asked.blocks, asked.count, &answer);
    if (asked.request.kind == VS_CONTROL_SUSPEND) {
        answer.beside_bytes = asked.beside_bytes;
        memcpy(answer.beside, asked.beside, sizeof answer.beside);
    }
    end(r, &answer);
}

void vs_control_no_thread(struct vs_recording *r, int error)
{
    struct vs_control_answer answer = {.status = VS_CONTROL_REFUSED};
    snprintf(answer.text, sizeof answer.text, "it can start no thread: %s", strerror(error));
    end(r, &answer);
}

/* The thread calls the driver, which goes with the exit handlers that come next. */
void vs_control_end(struct vs_recording *r)
{
    const struct timespec pause = {0, 1000000};
    uint64_t until = vs_clock_ns() + vs_options.exit_ms * UINT64_C(1000000);
    int kept = errno;
    while (r->pid == getpid()) {
        uint32_t at = atomic_load(&r->control);
        if (at == UNDER_WAY ? vs_clock_ns() > until
                            : atomic_compare_exchange_strong(&r->control, &at, CLOSED))
            break;
        nanosleep(&pause, NULL);
    }
    errno = kept;
}

/* ---- the drain ---- */

/* Goes on from FINDING; false: the process ends just now. */
static bool go_to(struct vs_recording *r, uint32_t next)
{
    uint32_t finding = FINDING;
    return atomic_compare_exchange_strong(&r->control, &finding, next);
}

static bool refuse(struct vs_recording *r, const char *why)
{
    struct vs_control_answer answer = {.number = asked.request.number, .status = VS_CONTROL_REFUSED};
    snprintf(answer.text, sizeof answer.text, "%s", why);
    vs_journal_answer(asked.j, &answer);
    go_to(r, NOTHING);
    return false;
}

/* Finds the blocks once the ledger knows what was recorded before the request. */
static bool try_to_find(struct vs_recording *r, const struct vs_writer *w)
{
    char why[VS_CONTROL_TEXT];
    struct vs_journal_stats s;
    vs_journal_stats(asked.j, &s);
    bool behind = !w || s.tail < asked.goal;
    if (w && behind && vs_clock_ns() <= asked.until_ns)
        return false;
    if (behind)
        return refuse(r, "roles are not known while its database can't be written");
    return find_blocks(w, &asked.request, why, sizeof why) ? go_to(r, WANTED) : refuse(r, why);
}

static bool is_known(const struct vs_control_request *q)
{
    return q->kind == VS_CONTROL_SUSPEND || q->kind == VS_CONTROL_RESUME;
}

/* Takes a request, if there is one; false: there is none. */
static bool take(struct vs_recording *r, struct vs_journal *j)
{
    uint32_t nothing = NOTHING;
    struct vs_journal_stats s;
    if (!vs_journal_requested(j, &asked.request, vs_clock_ns()) ||
        !atomic_compare_exchange_strong(&r->control, &nothing, FINDING))
        return false;
    vs_journal_stats(j, &s);
    asked.j = j;
    asked.blocks = NULL;
    asked.count = 0;
    asked.beside_bytes = 0;
    asked.beside[0] = 0;
    asked.goal = s.head;
    asked.until_ns = vs_clock_ns() + asked.request.timeout_ns;
    return true;
}

bool vs_control_round(struct vs_recording *r, struct vs_journal *j, const struct vs_writer *w)
{
    uint32_t at = atomic_load_explicit(&r->control, memory_order_acquire);
    if (at != FINDING && (at != NOTHING || !take(r, j)))
        return false;
    if (!is_known(&asked.request))
        return refuse(r, "its vramscope is older than the one that asks");
    if (w && asked.request.kind == VS_CONTROL_SUSPEND)
        asked.beside_bytes = vs_writer_beside(w, asked.beside, sizeof asked.beside);
    return names_roles(&asked.request) ? try_to_find(r, w) : go_to(r, WANTED);
}
