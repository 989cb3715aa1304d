/*
 * live.c - writes the living allocations (table live), and those that lived at the peak (peak_live).
 *
 * Table live is rewritten now and then and at the end; peak_live at the end, and before a stretch after the
 * peak is folded (fold.c): until then the events show what lived.  Without room for the two the events stay
 * the only source.  Once rows of events are left out for lack of room, every commit updates table live,
 * because after a kill it is then the only source.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define ROW_BYTES 72 /* of live and peak_live, with room for pages that are not full */

struct each {
    struct vs_store *s;
    struct vs_peak_info peak;
    int rc;
};

static void put_live(void *context, const struct vs_alloc *a)
{
    struct each *e = context;
    if (e->rc == 0)
        e->rc = vs_put_row(e->s, VS_SQL_LIVE, a);
}

static void put_at_peak(void *context, const struct vs_alloc *a)
{
    struct each *e = context;
    struct vs_alloc_then row = {*a, e->peak.seq};
    row.is.device = (int8_t)e->peak.device;
    if (e->rc == 0)
        e->rc = vs_put_row(e->s, VS_SQL_PEAK_LIVE, &row);
}

static int write_anew(struct vs_store *s, const struct vs_commit *c)
{
    struct each e = {.s = s, .rc = vs_store_exec(s, "DELETE FROM live")};
    vs_ledger_each_live(c->ledger, put_live, &e);
    return e.rc;
}

static int write_changes(struct vs_store *s, const struct vs_output *out)
{
    struct each e = {.s = s};
    for (size_t i = 0; e.rc == 0 && i < out->died.n; i++)
        e.rc = vs_sql_run(s, VS_SQL_LIVE_GONE, "i", (int64_t)out->died.at[i]);
    for (size_t i = 0; i < out->born.n; i++)
        put_live(&e, &out->born.at[i]);
    return e.rc;
}

static int write_peak(struct vs_store *s, const struct vs_commit *c, const struct vs_peak_info *peak)
{
    struct each e = {.s = s, .peak = *peak};
    if (s->access_kinds.count) /* rows that were kept only for the former peak */
        e.rc = vs_sql_run(s, VS_SQL_ACCESS_PEAK_GONE, "i", (int64_t)peak->device);
    if (e.rc == 0)
        e.rc = vs_roles_peak_gone(s, peak->device);
    if (e.rc == 0)
        e.rc = vs_sql_run(s, VS_SQL_PEAK_LIVE_GONE, "i", (int64_t)peak->device);
    vs_ledger_each_at_peak(c->ledger, peak->device, put_at_peak, &e);
    return e.rc;
}

/* Writes the allocations that lived at peaks before row SEQ. */
static int write_peaks(struct vs_store *s, const struct vs_commit *c, uint64_t seq)
{
    struct vs_peak_info peaks[VS_LEDGER_DEVICES];
    size_t n = vs_ledger_peaks(c->ledger, peaks, VS_LEDGER_DEVICES);
    for (size_t i = 0; i < n; i++) {
        uint64_t *written = &s->peak_seq[peaks[i].device + 1];
        bool wanted = peaks[i].seq < seq && *written != peaks[i].seq;
        int rc = wanted ? write_peak(s, c, &peaks[i]) : 0;
        if (!wanted)
            continue;
        if (rc < 0)
            return rc;
        *written = peaks[i].seq;
    }
    return 0;
}

/* Whether LIVING more rows might pass the limit.  If so these tables are not written any more, and
 * meta.live_incomplete says so. */
static bool no_room(struct vs_store *s, size_t living)
{
    return !vs_store_fits(s, living * ROW_BYTES, s->config.max_bytes);
}

/* No detail is folded to make room for them either, because the events have the same information. */
static bool not_worth_it(struct vs_store *s, size_t living)
{
    return !vs_store_fits(s, living * ROW_BYTES, VS_FILE_SHARE(s->config.max_bytes));
}

static int give_up(struct vs_store *s)
{
    if (s->live_incomplete)
        return 0;
    s->live_incomplete = true;
    return vs_sql_run(s, VS_SQL_META, "ti", "live_incomplete", (int64_t)1);
}

int vs_live_write(struct vs_store *s, const struct vs_commit *c)
{
    size_t living = vs_ledger_live_count(c->ledger);
    int rc = 0;
    s->live_written = false;
    if (c->level && no_room(s, c->live ? living : c->out->born.n))
        return give_up(s);
    if (c->live && (c->level || !not_worth_it(s, living))) {
        rc = write_anew(s, c);
        s->live_written = true;
    } else if (c->level && !s->live_incomplete) {
        rc = write_changes(s, c->out);
    }
    if (rc == 0 && (c->peak_live || c->level)) {
        if (!c->level && not_worth_it(s, living))
            return 0;
        if (no_room(s, living))
            return give_up(s);
        rc = write_peaks(s, c, UINT64_MAX);
    }
    return rc;
}

/* Without room for them the allocations that lived at the peak are not known in full: the view shows
 * fewer. */
int vs_live_peaks_before(struct vs_store *s, const struct vs_commit *c, uint64_t seq)
{
    return no_room(s, vs_ledger_live_count(c->ledger)) ? 0 : write_peaks(s, c, seq);
}

/* ---- what a framework says that allocations are for: the rows go with theirs, but for those that the tables
 * of a peak or of an out-of-memory still name ---- */

int vs_roles_gone(struct vs_store *s, uint64_t alloc)
{
    return s->roles ? vs_sql_run(s, VS_SQL_FRAMEWORK_ROLE_GONE, "i", (int64_t)alloc) : 0;
}

int vs_roles_peak_gone(struct vs_store *s, int device)
{
    return s->roles ? vs_sql_run(s, VS_SQL_FRAMEWORK_ROLE_PEAK_GONE, "i", (int64_t)device) : 0;
}
