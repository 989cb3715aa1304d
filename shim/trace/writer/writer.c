/*
 * writer.c - rounds of a writer.
 *
 * A round: peek, feed new events to the ledger, commit the rows that come out, release the events that are
 * committed.  Events that the ledger still holds back stay in the ring and are peeked again, so each round
 * first skips events that were fed already.  A batch that failed to commit is kept, and committed before new
 * events are taken.
 */
#include "writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "trace/ledger/ledger.h"
#include "trace/store/store.h"
#include "trace/store/vfs.h"
#include "trace/uses/uses.h"
#include "beside.h"
#include "losses.h"

#define LIVE_EVERY 250000 /* rows between two rewrites of table live, at least */
#define HOLD_NS    50000000
#define LOG_TOLD   (UINT64_C(64) << 20)

struct vs_writer {
    struct vs_journal *journal;
    struct vs_store *store;
    struct vs_ledger *ledger;
    struct vs_uses *uses; /* NULL: the journal has none */
    size_t uses_before; /* among the events of the round before: no rows, so a batch may have as many more */
    struct vs_output out;
    bool pending; /* OUT holds a batch that is not committed */
    int pending_level;
    uint64_t pending_ring_seq; /* the ledger's when OUT was finished */
    struct vs_event *events;
    uint64_t *seqs;
    size_t room;
    uint64_t fed;      /* ring sequence of the last event given to the ledger */
    long taken;        /* events given to it since opening */
    uint64_t live_seq; /* row at which table live was last rewritten */
    struct vs_losses losses;
    bool log_reported;  /* a row says that a reader holds the log */
    uint64_t log_limit; /* bytes of the log from which on that is reported */
    int64_t start_ns, last_t;
    int64_t step_t; /* of the last step that ended */
    int level;
    bool grown;  /* since the level was chosen; idle rounds do not query SQLite */
    bool merged; /* see vs_writer_merged */
    bool whole;  /* the file was merged to its end before it was opened */
};

/* ---- the ledger's callbacks ---- */

static uint32_t phase_of(void *context, uint32_t name)
{
    return vs_store_phase(((struct vs_writer *)context)->store, name);
}

static bool is_autograd(void *context, uint16_t thread)
{
    const struct vs_thread_row *t = vs_journal_get_thread(((struct vs_writer *)context)->journal, thread);
    return t && t->flags & VS_THREAD_AUTOGRAD;
}

static bool access_of(void *context, uint32_t id, struct vs_access_row *out)
{
    const struct vs_access_row *row = vs_journal_access(((struct vs_writer *)context)->journal, id);
    if (row)
        *out = *row;
    return row != NULL;
}

/* ---- open, free ---- */

static void writer_free(struct vs_writer *w)
{
    vs_ledger_free(w->ledger);
    vs_uses_free(w->uses);
    vs_output_free(&w->out);
    free(w->events);
    free(w->seqs);
    free(w);
}

static int start(struct vs_writer *w, char *why, size_t why_size)
{
    uint32_t stretch = vs_store_stretch(w->store);
    w->ledger = vs_ledger_new(&(struct vs_ledger_config){.start_ns = w->start_ns,
                                                         .context = w,
                                                         .phase_of = phase_of,
                                                         .is_autograd = is_autograd,
                                                         .access_of = access_of,
                                                         .stretch_min = stretch / 16,
                                                         .stretch_max = stretch});
    int rc = w->ledger ? vs_store_load(w->store, w->ledger) : -ENOMEM;
    if (rc < 0) {
        snprintf(why, why_size, "cannot continue the database: %s", strerror(-rc));
        return rc;
    }
    w->fed = vs_ledger_ring_seq(w->ledger);
    if ((rc = vs_uses_open(&w->uses, w->journal, w->fed)) < 0) {
        snprintf(why, why_size, "cannot take up the access ledger: %s", strerror(-rc));
        return rc;
    }
    w->live_seq = vs_ledger_seq(w->ledger);
    w->grown = true;
    w->whole = vs_store_merged(w->store);
    vs_losses_load(&w->losses, w->store);
    if (w->fed) /* events that were committed before the kill but not handed back */
        vs_journal_release(w->journal, w->fed);
    return 0;
}

int vs_writer_open(struct vs_writer **out, const struct vs_database *config, struct vs_journal *journal,
                   char *why, size_t why_size)
{
    struct vs_journal_stats stats;
    struct vs_writer *w = calloc(1, sizeof *w);
    if (!w) {
        snprintf(why, why_size, "%s: out of memory", config->path);
        return -ENOMEM;
    }
    vs_journal_stats(journal, &stats);
    w->journal = journal;
    w->start_ns = (int64_t)stats.start_ns;
    w->log_limit = config->max_bytes ? config->max_bytes : UINT64_MAX;
    int rc = vs_store_open(&w->store, config, journal, why, why_size);
    if (rc == 0) {
        rc = start(w, why, why_size);
        if (rc < 0)
            vs_store_close(w->store, -1);
    }
    if (rc < 0) {
        writer_free(w);
        return rc;
    }
    *out = w;
    return 0;
}

/* ---- a round ---- */

static bool make_room(struct vs_writer *w, size_t room)
{
    if (room <= w->room)
        return true;
    struct vs_event *events = realloc(w->events, room * sizeof *events);
    if (events)
        w->events = events;
    uint64_t *seqs = realloc(w->seqs, room * sizeof *seqs);
    if (seqs)
        w->seqs = seqs;
    if (!events || !seqs)
        return false;
    w->room = room;
    return true;
}

/* Applies the uses among the events from FIRST to N, and gives frees the rows of their blocks.  Returns how
 * many events were uses. */
static size_t apply_uses(struct vs_writer *w, size_t first, size_t n)
{
    struct vs_journal_stats s;
    size_t uses = 0;
    if (w->uses == NULL)
        return 0;
    vs_journal_stats(w->journal, &s);
    vs_uses_missing(w->uses, s.head);
    for (size_t i = first; i < n; i++) {
        vs_uses_apply(w->uses, &w->events[i], w->seqs[i]);
        uses += w->events[i].op == VS_OP_USE;
    }
    return uses;
}

static long feed(struct vs_writer *w, bool final)
{
    size_t batch = vs_store_batch(w->store);
    size_t want =
        vs_ledger_held(w->ledger) + batch + (w->uses_before < 3 * batch ? w->uses_before : 3 * batch);
    if (!make_room(w, want))
        return -ENOMEM;
    size_t n = vs_journal_peek(w->journal, w->events, w->seqs, want, final), first = 0;
    while (first < n && w->seqs[first] <= w->fed)
        first++;
    vs_losses_report(&w->losses, w->journal, w->ledger, w->fed, n ? w->seqs[n - 1] : w->fed);
    size_t uses = apply_uses(w, first, n);
    for (size_t i = first; i < n; i++) /* the last even if it is a use, so that all of them are handed back */
        if (w->events[i].op != VS_OP_USE || i == n - 1)
            vs_ledger_feed(w->ledger, &w->events[i], w->seqs[i], &w->out);
    w->uses_before = uses;
    if (n > first) {
        w->fed = w->seqs[n - 1];
        w->last_t = (int64_t)w->events[n - 1].t_ns - w->start_ns;
    }
    w->taken += (long)(n - first - uses);
    return (long)(n - first);
}

/* Whether the events that the ledger holds back have waited long enough. */
static bool waited_enough(struct vs_writer *w, long fed, bool final, bool losses)
{
    if (!vs_ledger_held(w->ledger))
        return false;
    if (losses) /* the ring is full of events that are held back */
        return true;
    return fed == 0 && (final || (int64_t)vs_clock_ns() - vs_ledger_held_since(w->ledger) > HOLD_NS);
}

/* Tells whoever watches the process where it stands. */
static void publish(struct vs_writer *w)
{
    struct vs_now now;
    vs_ledger_now(w->ledger, &now);
    now.step_t = w->step_t;
    now.published_ns = vs_clock_ns();
    vs_journal_publish(w->journal, &now);
}

static int commit(struct vs_writer *w, bool live, bool peaks)
{
    struct vs_commit c = {.out = &w->out,
                          .ledger = w->ledger,
                          .seq = vs_ledger_seq(w->ledger),
                          .ring_seq = w->pending_ring_seq,
                          .live = live,
                          .peak_live = peaks,
                          .merged = w->merged,
                          .came_to_exit = vs_journal_fact(w->journal, VS_FACT_CAME_TO_EXIT),
                          .level = w->pending_level};
    int rc = vs_store_commit(w->store, &c);
    if (rc < 0)
        return rc;
    w->pending = false;
    w->grown = true;
    for (size_t i = 0; i < w->out.accesses.n; i++)
        vs_journal_access_give(w->journal, w->out.accesses.at[i].id);
    if (w->out.steps.n)
        w->step_t = w->out.steps.at[w->out.steps.n - 1].t;
    vs_output_clear(&w->out);
    if (w->pending_ring_seq)
        vs_journal_release(w->journal, w->pending_ring_seq);
    if (live)
        w->live_seq = c.seq;
    return 0;
}

/* Adds a row, once, that explains a log which makes the whole larger than the limit. */
static void note_held_log(struct vs_writer *w)
{
    uint64_t log = w->log_reported ? 0 : vs_store_log_held(w->store);
    if (log == 0 || log < (w->log_limit < LOG_TOLD ? w->log_limit : LOG_TOLD))
        return;
    vs_store_loss(w->store, w->last_t, 0, VS_LOSS_HELD_LOG, NULL);
    w->log_reported = true;
}

/* Chooses the level of thinning for the next events.  When thinning begins, table live is written once as a
 * whole. */
static bool choose_level(struct vs_writer *w)
{
    if (!w->grown)
        return false;
    w->grown = false;
    int level = vs_store_level(w->store);
    bool begins = level > 0 && w->level == 0;
    note_held_log(w);
    if (begins)
        vs_ledger_track_live(w->ledger, true);
    w->level = level;
    vs_ledger_set_thinning(w->ledger, level);
    return begins;
}

/* The file's limit, not the disk, is the obstacle: the batch is written without its single rows. */
static void thin_pending(struct vs_writer *w)
{
    w->out.dropped += w->out.rows.n;
    w->out.rows.n = w->out.ranges.n = w->out.range_peaks.n = w->out.zones.n = 0;
    w->out.samples.n = w->out.pools.n = w->out.marks.n = w->out.steps.n = 0;
    for (size_t i = 0; i < w->out.stretches.n; i++)
        w->out.stretches.at[i].unwritten += 1; /* at least: some or all of its events */
    w->pending_level = 3;
}

static int commit_pending(struct vs_writer *w)
{
    if (!w->pending)
        return 0;
    uint64_t living =
        vs_ledger_live_count(w->ledger); /* if there are many: not before all of them could have changed */
    bool live = vs_ledger_seq(w->ledger) - w->live_seq >= (living > LIVE_EVERY ? living : LIVE_EVERY) &&
                w->level == 0;
    int rc = commit(w, live, false);
    if (rc != -ENOSPC || vs_store_level(w->store) < 3)
        return rc;
    thin_pending(w);
    return commit(w, false, false);
}

/* From the first thinned batch on table live must be right: it is written before that batch is made. */
static int begin_thinning(struct vs_writer *w)
{
    w->pending_level = w->level;
    w->pending_ring_seq = vs_ledger_ring_seq(w->ledger);
    return commit(w, true, true);
}

long vs_writer_drain(struct vs_writer *w, bool final)
{
    int rc = commit_pending(w);
    if (rc < 0)
        return rc;
    int level = w->level;
    if (choose_level(w) && (rc = begin_thinning(w)) < 0) {
        w->level = level;
        w->grown = true;
        return rc;
    }
    bool losses = vs_losses_note(&w->losses, w->journal, w->store, w->last_t, false);
    long fed = feed(w, final);
    if (fed < 0)
        return fed;
    bool flush = waited_enough(w, fed, final, losses);
    if (flush)
        vs_ledger_flush(w->ledger, &w->out);
    if (fed == 0 && !flush && !losses) {
        publish(w); /* that it is alive */
        return 0;
    }
    vs_ledger_end_batch(w->ledger, &w->out);
    w->pending = true;
    w->pending_level = w->level;
    w->pending_ring_seq = vs_ledger_ring_seq(w->ledger);
    rc = commit_pending(w);
    if (rc < 0)
        return rc;
    publish(w);
    return fed ? fed : (long)flush;
}

bool vs_writer_broken(void)
{
    return vs_vfs_gone();
}

void vs_writer_alone(void)
{
    vs_vfs_alone();
}

long vs_writer_taken(const struct vs_writer *w)
{
    return w->taken;
}

size_t vs_writer_blocks(const struct vs_writer *w, const struct vs_control_request *request,
                        struct vs_control_block *blocks, size_t most, size_t *named)
{
    size_t n = vs_ledger_blocks(w->ledger, request, blocks, most, named);
    for (size_t i = 0; i < n && i < most; i++)
        blocks[i].reached = w->uses == NULL || vs_uses_reached(w->uses, blocks[i].address);
    return n;
}

uint64_t vs_writer_beside(const struct vs_writer *w, char *text, size_t size)
{
    return vs_beside(w->ledger, w->store, text, size);
}

void vs_writer_loss(struct vs_writer *w, uint64_t events, enum vs_loss what, const char *why)
{
    vs_store_loss(w->store, w->last_t, events, what, why);
}

void vs_writer_set_simulated(struct vs_writer *w, int simulated, const char *dry)
{
    if (simulated == VS_DRIVER_DRY && dry)
        vs_writer_fact(w, VS_FACT_DRY, dry);
    vs_store_set_simulated(w->store, simulated);
}

/* ---- the end ---- */

void vs_writer_merged(struct vs_writer *w)
{
    w->merged = true;
}

/* The ledger is finished only if no more events come.  If an exit has no time for the rest, another writer
 * continues as after a kill.  What was finished is never finished again: table resume, of which a ledger
 * knows the last moment, is empty then. */
static int write_rest(struct vs_writer *w, bool last)
{
    int rc = commit_pending(w);
    if (rc < 0)
        return rc;
    if (w->whole && !w->taken) /* a recovery that was killed behind its last commit */
        return 0;
    vs_losses_note(&w->losses, w->journal, w->store, w->last_t, true);
    if (last)
        vs_ledger_finish(w->ledger, &w->out);
    else
        vs_ledger_end_batch(w->ledger, &w->out);
    w->pending_level = w->level;
    w->pending_ring_seq = vs_ledger_ring_seq(w->ledger);
    return commit(w, true, true);
}

/* END -1: the process did not end in good order. */
static int end_at(struct vs_writer *w, int64_t end)
{
    int rc = write_rest(w, end >= 0 || w->merged);
    int closed = vs_store_close(w->store, rc == 0 ? end : -1);
    writer_free(w);
    return rc < 0 ? rc : closed;
}

int vs_writer_close(struct vs_writer *w, bool clean)
{
    return end_at(w, clean ? (int64_t)vs_clock_ns() - w->start_ns : -1);
}

int vs_writer_close_at(struct vs_writer *w, int64_t end_ns)
{
    return end_at(w, end_ns);
}

int vs_writer_fact(struct vs_writer *w, const char *key, const char *value)
{
    return vs_store_fact(w->store, key, value);
}
