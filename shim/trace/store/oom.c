/*
 * oom.c - writes the out-of-memory events that the ledger keeps, and the allocations that lived then.
 *
 * The few rows of `oom` are rewritten with each commit that adds one.  The allocations follow from the events
 * until a later event is folded (view live_at_oom); they are written out before that, at the end, and, while
 * rows are left out for lack of room, with the commit of the out-of-memory itself.
 */
#include "internal.h"

#include <string.h>

#define ROW_BYTES 72 /* of oom_live, as in live.c */

struct each {
    struct vs_store *s;
    uint64_t seq;
    int64_t rows;
    int rc;
};

static void count_row(void *context, const struct vs_alloc *a)
{
    ((struct each *)context)->rows++;
}

static void put_row(void *context, const struct vs_alloc *a)
{
    struct each *e = context;
    if (e->rc == 0)
        e->rc = vs_put_row(e->s, VS_SQL_OOM_LIVE, &(struct vs_alloc_then){*a, e->seq});
}

static bool is_written(const struct vs_store *s, uint64_t seq)
{
    for (size_t i = 0; i < s->oom_sets; i++)
        if (s->oom_set[i] == seq)
            return true;
    return false;
}

/* Writes its rows of oom_live if there is room; otherwise its row of `oom` says that they are missing. */
static int write_set(struct vs_store *s, const struct vs_ledger *l, uint64_t seq)
{
    struct each e = {.s = s, .seq = seq};
    vs_ledger_each_at_oom(l, seq, count_row, &e);
    if (s->oom_sets == VS_OOMS_MAX || !vs_store_fits(s, (uint64_t)e.rows * ROW_BYTES, s->config.max_bytes))
        return 0;
    vs_ledger_each_at_oom(l, seq, put_row, &e);
    if (e.rc == 0)
        s->oom_set[s->oom_sets++] = seq;
    return e.rc;
}

/* Deletes the rows of out-of-memory events that are no longer kept. */
static void forget_sets(struct vs_store *s, const struct vs_oom_row *rows, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->oom_sets; i++)
        for (size_t k = 0; k < n; k++)
            if (rows[k].seq == s->oom_set[i]) {
                s->oom_set[kept++] = s->oom_set[i];
                break;
            }
    s->oom_sets = kept;
}

static int write_rows(struct vs_store *s, struct vs_oom_row *rows, size_t n)
{
    int rc = vs_store_exec(s, "DELETE FROM oom");
    for (size_t i = 0; i < n; i++)
        rows[i].stored = is_written(s, rows[i].seq);
    if (rc == 0)
        rc = vs_put_rows(s, VS_SQL_OOM, rows, n, sizeof *rows);
    return rc == 0 ? vs_store_exec(s, "DELETE FROM oom_live WHERE oom_seq NOT IN (SELECT seq FROM oom)") : rc;
}

int vs_oom_write(struct vs_store *s, const struct vs_commit *c)
{
    struct vs_oom_row rows[VS_OOMS_MAX];
    size_t n = vs_ledger_ooms(c->ledger, rows, VS_OOMS_MAX), before = s->oom_sets;
    bool changed = vs_ledger_ooms_version(c->ledger) != s->oom_version, sets = c->peak_live || c->level;
    int rc = 0;
    if (!changed && !sets)
        return 0;
    forget_sets(s, rows, n);
    for (size_t i = 0; rc == 0 && sets && i < n; i++)
        if (!is_written(s, rows[i].seq))
            rc = write_set(s, c->ledger, rows[i].seq);
    if (rc == 0 && (changed || s->oom_sets != before))
        rc = write_rows(s, rows, n);
    return rc;
}

/* Called before a stretch that ends with row SEQ is folded. */
int vs_oom_before(struct vs_store *s, const struct vs_commit *c, uint64_t seq)
{
    struct vs_oom_row rows[VS_OOMS_MAX];
    size_t n = vs_ledger_ooms(c->ledger, rows, VS_OOMS_MAX), before = s->oom_sets;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (rows[i].seq < seq && !is_written(s, rows[i].seq))
            rc = write_set(s, c->ledger, rows[i].seq);
    return rc == 0 && s->oom_sets != before ? write_rows(s, rows, n) : rc;
}
