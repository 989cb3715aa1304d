/*
 * batch.c - one batch, one transaction: names first, then the rows that refer to them, the mark last; and
 * table resume.
 */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- table resume: state that the next writer of the file needs and that no other table has ----
 *
 * The ledger gives the rows (ledger/resume.c), a few per device.  Each commit after a change rewrites them.
 */

#define SHORT_OF_ROOM 64 /* rows, if the file is full: lost verdicts are made anew */

struct collected {
    struct vs_store *s;
    uint64_t failed;
};

static void collect(void *context, const struct vs_resume_row *row)
{
    struct collected *c = context;
    vs_list_push(&c->s->resume_next, c->failed, *row);
}

static bool same_rows(const struct vs_store *s)
{
    if (s->resume.n != s->resume_next.n)
        return false;
    for (size_t i = 0; i < s->resume.n; i++) {
        const struct vs_resume_row *a = &s->resume.at[i], *b = &s->resume_next.at[i];
        if (a->what != b->what || a->id != b->id || memcmp(a->value, b->value, sizeof a->value) != 0)
            return false;
    }
    return true;
}

static int write_resume(struct vs_store *s, const struct vs_commit *c)
{
    struct collected found = {.s = s};
    s->resume_next.n = 0;
    if (!c->merged) /* more may come even after a clean end, from threads that run on */
        vs_ledger_each_resume(c->ledger, collect, &found);
    if (found.failed)
        return -ENOMEM;
    if (c->level >= 3 && s->resume_next.n > SHORT_OF_ROOM)
        s->resume_next.n = SHORT_OF_ROOM;
    if (same_rows(s))
        return 0;
    int rc = vs_store_exec(s, "DELETE FROM resume");
    return rc == 0
               ? vs_put_rows(s, VS_SQL_RESUME, s->resume_next.at, s->resume_next.n, sizeof *s->resume_next.at)
               : rc;
}

static void resume_committed(struct vs_store *s)
{
    struct vs_resume_rows was = s->resume;
    s->resume = s->resume_next;
    s->resume_next = was;
}

void vs_resume_free(struct vs_store *s)
{
    free(s->resume.at);
    free(s->resume_next.at);
}

/* ---- rows ---- */

static int write_lists(struct vs_store *s, const struct vs_output *out)
{
    const struct {
        enum vs_statement table;
        const void *rows;
        size_t n, bytes;
    } lists[] = {
#define LIST(TABLE, list) {VS_SQL_##TABLE, out->list.at, out->list.n, sizeof *out->list.at}
        LIST(RANGE, ranges),      LIST(RANGE_PEAK, range_peaks),
        LIST(ZONE, zones),        LIST(SAMPLE, samples),
        LIST(ARENA, arenas),      LIST(POOL_USE, pools),
        LIST(FACT, facts),        LIST(FRAMEWORK_ROLE, roles),
        LIST(STEP, steps),        LIST(MOMENT, marks),
        LIST(AMEND, amends),      LIST(MISMATCH, mismatches),
        LIST(PHASE_STAT, phases), LIST(PEAK, peaks),
        LIST(COUNTER, counts),    LIST(UPPER_BOUND, doubts),
        LIST(AWAY, aways),        LIST(AWAY_BLOCK, away_blocks)};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof lists / sizeof *lists; i++)
        rc = vs_put_rows(s, lists[i].table, lists[i].rows, lists[i].n, lists[i].bytes);
    s->amends |= out->amends.n > 0;
    s->roles |= out->roles.n > 0;
    return rc;
}

/* ---- how far the database is ---- */

static int write_mark(struct vs_store *s, const struct vs_commit *c)
{
    bool current = s->live_written || (c->level && !s->live_incomplete);
    return vs_sql_run(s, VS_SQL_MARK, "iii", (int64_t)c->seq, (int64_t)c->ring_seq,
                      (int64_t)(current ? c->seq : s->live_seq));
}

/* ---- the transaction ---- */

static int write_simulated(struct vs_store *s, const struct vs_commit *c)
{
    char sql[64];
    snprintf(sql, sizeof sql, "UPDATE process SET simulated=%d", s->simulated);
    return s->simulated_dirty ? vs_store_exec(s, sql) : 0;
}

static int write_all(struct vs_store *s, const struct vs_commit *c)
{
    int rc = vs_names_for_batch(s, c->out);
    int (*const parts[])(struct vs_store *, const struct vs_commit *) = {
        vs_losses_write, vs_thinning_write, vs_live_write,   vs_access_write,
        vs_oom_write,    write_resume,      write_simulated, vs_fold_commit};
    if (rc == 0)
        rc = vs_rows_write(s, c->out->rows.at, c->out->rows.n);
    if (rc == 0)
        rc = write_lists(s, c->out);
    for (size_t i = 0; rc == 0 && i < sizeof parts / sizeof *parts; i++)
        rc = parts[i](s, c);
    if (rc == 0 && c->merged)
        rc = vs_sql_run(s, VS_SQL_META, "ti", "journal_merged", (int64_t)1);
    if (rc == 0 && c->merged && c->came_to_exit)
        rc = vs_sql_run(s, VS_SQL_META, "ti", VS_FACT_CAME_TO_EXIT, (int64_t)(*c->came_to_exit == '1'));
    return rc == 0 ? write_mark(s, c) : rc;
}

static void committed(struct vs_store *s, const struct vs_commit *c)
{
    vs_names_committed(s);
    resume_committed(s);
    if (c->out->rows.n)
        s->last_ev = c->out->rows.at[c->out->rows.n - 1].seq;
    vs_losses_written(s);
    s->thinned += c->out->dropped;
    s->thinned_written |= c->level > 0;
    s->simulated_dirty = false;
    s->oom_version = vs_ledger_ooms_version(c->ledger);
    if (s->live_written)
        s->live_seq = c->seq;
}

int vs_store_commit(struct vs_store *s, const struct vs_commit *c)
{
    uint64_t peak_seq[VS_LEDGER_DEVICES], oom_set[VS_OOMS_MAX];
    size_t oom_sets = s->oom_sets;
    bool live_incomplete = s->live_incomplete;
    memcpy(peak_seq, s->peak_seq, sizeof peak_seq);
    memcpy(oom_set, s->oom_set, oom_sets * sizeof *oom_set);
    if (c->level && !s->thinned_from)
        s->thinned_from = s->last_ev + 1;
    int rc = vs_store_exec(s, "BEGIN IMMEDIATE");
    if (rc < 0)
        return rc;
    rc = write_all(s, c);
    if (rc == 0)
        rc = vs_store_exec(s, "COMMIT");
    if (rc == 0) {
        committed(s, c);
        return 0;
    }
    sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL); /* fails where SQLite already rolled back */
    memcpy(s->peak_seq, peak_seq, sizeof peak_seq);
    s->live_incomplete = live_incomplete;
    memcpy(s->oom_set, oom_set, oom_sets * sizeof *oom_set);
    s->oom_sets = oom_sets;
    vs_names_forget(s);
    vs_access_forget(s);
    vs_fold_forget(s);
    return rc;
}

int vs_store_fact(struct vs_store *s, const char *key, const char *value)
{
    return vs_sql_run(s, VS_SQL_META, "tt", key, value);
}

void vs_store_set_simulated(struct vs_store *s, int simulated)
{
    s->simulated_dirty |= simulated != s->config.simulated || simulated != s->simulated;
    s->simulated = simulated;
}
