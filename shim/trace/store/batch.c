/* batch.c - one batch, one transaction: names first, then the rows that refer to them, the mark last. */
#include "internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EACH(list, item) for (size_t i_ = 0; rc == 0 && i_ < (list).n && ((item) = &(list).at[i_], 1); i_++)

static int write_events(struct vs_store *s, const struct vs_output *out)
{
    return vs_rows_write(s, out->rows.at, out->rows.n);
}

static int write_ranges(struct vs_store *s, const struct vs_output *out)
{
    const struct vs_range_row *r;
    const struct vs_range_peak_row *p;
    int rc = 0;
    EACH(out->ranges, r)
    rc = vs_sql_run(s, VS_SQL_RANGE, "iiiniiiiiiin", (int64_t)r->id, (int64_t)r->phase, (int64_t)r->name,
                    r->domain ? (int64_t)r->domain : (int64_t)-1, (int64_t)r->source,
                    (int64_t)(r->outermost | r->cross_thread << 1 | r->lost << 2), (int64_t)r->parent,
                    (int64_t)r->thread, (int64_t)r->step, (int64_t)r->first_seq, r->t_push, r->t_pop);
    EACH(out->range_peaks, p)
    rc = vs_sql_run(s, VS_SQL_RANGE_PEAK, "iinii", (int64_t)p->range, (int64_t)p->device,
                    (int64_t)p->allocated, (int64_t)p->reserved, p->t);
    return rc;
}

#define HELD_TEXT (VS_HELD_PHASES * 64 + 4)

/* [[phase, framework bytes, direct bytes], ...]; phase -1 is all further phases; phases with 0 bytes are
 * left out. */
static const char *held_text(const struct vs_held *h, char *text)
{
    size_t at = 0;
    for (int i = 0; i < VS_HELD_PHASES; i++)
        if (h->framework[i] || h->direct[i])
            at +=
                (size_t)snprintf(text + at, HELD_TEXT - at, "%s[%d,%" PRIu64 ",%" PRIu64 "]", at ? "," : "[",
                                 i < VS_HELD_PHASES - 1 ? i : -1, h->framework[i], h->direct[i]);
    snprintf(text + at, HELD_TEXT - at, at ? "]" : "[]");
    return text;
}

static int write_zones(struct vs_store *s, const struct vs_output *out)
{
    const struct vs_zone_row *z;
    int rc = 0;
    char held[HELD_TEXT];
    EACH(out->zones, z)
    rc = vs_sql_run(s, VS_SQL_ZONE, "iiiiiiiiiiiiiiiiiiiitn", (int64_t)z->first_seq, (int64_t)z->last_seq,
                    (int64_t)z->device, (int64_t)z->phase, z->t_first, z->t_last, (int64_t)z->min_allocated,
                    (int64_t)z->max_allocated, z->max_t, (int64_t)z->min_reserved, (int64_t)z->max_reserved,
                    (int64_t)z->last_framework, (int64_t)z->last_direct, (int64_t)z->last_reserved,
                    (int64_t)z->events, z->min_t, z->max_reserved_t, z->min_reserved_t,
                    (int64_t)z->reserved_at_max, (int64_t)z->reserved_at_min, held_text(&z->held, held),
                    (int64_t)-1);
    return rc;
}

static int write_samples(struct vs_store *s, const struct vs_output *out)
{
    static const char *const source[] = {"unknown", "nvml_process", "meminfo", "nvml_device"};
    const struct vs_sample_row *p;
    int rc = 0;
    EACH(out->samples, p)
    rc = vs_sql_run(s, VS_SQL_SAMPLE, "iiitiiii", p->t, (int64_t)p->device, (int64_t)p->used,
                    source[p->source < 4 ? p->source : 0], (int64_t)p->rss, (int64_t)p->pinned,
                    (int64_t)p->reserved, (int64_t)p->seq);
    return rc;
}

static int write_arenas(struct vs_store *s, const struct vs_output *out)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < out->arenas.n; i++) {
        const struct vs_arena_row *a = &out->arenas.at[i];
        int64_t value[2 + VS_FIGURE_END] = {a->device, a->t};
        for (int k = 0; k < VS_FIGURE_END; k++)
            value[2 + k] = (int64_t)a->figure[k];
        rc = vs_sql_run_list(s, VS_SQL_ARENA, value, 2 + VS_FIGURE_END);
    }
    return rc;
}

static int write_pools(struct vs_store *s, const struct vs_output *out)
{
    const struct vs_pool_row *p;
    int rc = 0;
    EACH(out->pools, p)
    rc = vs_sql_run(s, VS_SQL_POOL_USE, "iiiinn", p->t, (int64_t)p->device, (int64_t)p->name,
                    (int64_t)p->used, (int64_t)p->peak, (int64_t)p->held);
    return rc;
}

static int write_facts(struct vs_store *s, const struct vs_output *out)
{
    const struct vs_fact_row *f;
    int rc = 0;
    EACH(out->facts, f)
    rc = vs_sql_run(s, VS_SQL_FACT, "ii", (int64_t)f->key, (int64_t)f->value);
    return rc;
}

static int write_moments(struct vs_store *s, const struct vs_output *out)
{
    const struct vs_step_row *step;
    const struct vs_mark_row *m;
    const struct vs_amend_row *a;
    int rc = 0;
    EACH(out->steps, step)
    rc = vs_sql_run(s, VS_SQL_STEP, "iii", (int64_t)step->step, step->t, (int64_t)step->seq);
    EACH(out->marks, m)
    rc = vs_sql_run(s, VS_SQL_MOMENT, "iiiii", (int64_t)m->seq, m->t, (int64_t)m->name, (int64_t)m->source,
                    (int64_t)m->thread);
    EACH(out->amends, a)
    rc = vs_sql_run(s, VS_SQL_AMEND, "iii", (int64_t)a->seq, (int64_t)a->op, (int64_t)a->by);
    s->amends |= out->amends.n > 0;
    return rc;
}

static int write_mismatches(struct vs_store *s, const struct vs_output *out)
{
    static const char *const text[] = {
#define X(NAME, name) name,
        VS_MISMATCHES(X)
#undef X
    };
    const struct vs_mismatch_row *m;
    int rc = 0;
    EACH(out->mismatches, m)
    rc = vs_sql_run(s, VS_SQL_MISMATCH, "iiitii", (int64_t)m->seq, m->t, (int64_t)m->device, text[m->what],
                    (int64_t)m->ours, (int64_t)m->theirs);
    return rc;
}

static int write_statistics(struct vs_store *s, const struct vs_output *out)
{
    static const char *const curve[] = {
#define X(NAME, name) name,
        VS_CURVES(X)
#undef X
#define X(n, NAME, name) name,
            VS_SPACES(X)
#undef X
    };
    static const char *const count[] = {
#define X(NAME, name) name,
        VS_COUNTS(X)
#undef X
    };
    const struct vs_phase_row *p;
    const struct vs_peak_row *k;
    const struct vs_count_row *c;
    const struct vs_doubt_row *d;
    int rc = 0;
    EACH(out->phases, p)
    rc = vs_sql_run(s, VS_SQL_PHASE_STAT, "iiiniinini", (int64_t)p->device, (int64_t)p->phase,
                    (int64_t)p->ranges, p->ns, p->open_ns, (int64_t)p->events, (int64_t)p->allocated,
                    (int64_t)p->reserved, (int64_t)p->end_allocated, p->t_allocated);
    EACH(out->peaks, k)
    rc = vs_sql_run(s, VS_SQL_PEAK, "itniinn", (int64_t)k->device, curve[k->curve], (int64_t)k->peak,
                    (int64_t)k->seq, k->t, (int64_t)k->end, (int64_t)k->known);
    EACH(out->counts, c)
    rc = vs_sql_run(s, VS_SQL_COUNTER, "iti", (int64_t)c->device, count[c->what], (int64_t)c->value);
    EACH(out->doubts, d)
    rc = vs_sql_run(s, VS_SQL_UPPER_BOUND, "itiinn", (int64_t)d->device, curve[d->curve],
                    (int64_t)d->from_seq, d->t_from, d->to_seq ? (int64_t)d->to_seq : (int64_t)-1, d->t_to);
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

static int write_simulated(struct vs_store *s)
{
    char sql[64];
    snprintf(sql, sizeof sql, "UPDATE process SET simulated=%d", s->simulated);
    return s->simulated_dirty ? vs_store_exec(s, sql) : 0;
}

static int write_all(struct vs_store *s, const struct vs_commit *c)
{
    int rc = vs_names_for_batch(s, c->out);
    int (*const parts[])(struct vs_store *, const struct vs_output *) = {
        write_events, write_ranges, write_zones,   write_samples,    write_arenas,
        write_pools,  write_facts,  write_moments, write_mismatches, write_statistics};
    for (size_t i = 0; rc == 0 && i < sizeof parts / sizeof *parts; i++)
        rc = parts[i](s, c->out);
    if (rc == 0)
        rc = vs_losses_write(s, c);
    if (rc == 0)
        rc = vs_thinning_write(s, c);
    if (rc == 0)
        rc = vs_live_write(s, c);
    if (rc == 0)
        rc = vs_access_write(s, c);
    if (rc == 0)
        rc = vs_roles_write(s, c);
    if (rc == 0)
        rc = vs_oom_write(s, c);
    if (rc == 0)
        rc = vs_resume_write(s, c);
    if (rc == 0)
        rc = write_simulated(s);
    if (rc == 0)
        rc = vs_fold_commit(s, c);
    if (rc == 0 && c->merged)
        rc = vs_sql_run(s, VS_SQL_META, "ti", "journal_merged", (int64_t)1);
    if (rc == 0 && c->merged && c->came_to_exit)
        rc = vs_sql_run(s, VS_SQL_META, "ti", VS_FACT_CAME_TO_EXIT, (int64_t)(*c->came_to_exit == '1'));
    return rc == 0 ? write_mark(s, c) : rc;
}

static void committed(struct vs_store *s, const struct vs_commit *c)
{
    vs_names_committed(s);
    vs_resume_committed(s);
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
