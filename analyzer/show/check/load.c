/*
 * load.c - all files against all limits: which base run stands beside which file, what is missing of a job,
 * which limits found nothing that they are about.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "read/ooms.h"
#include "read/sweep.h"
#include "show/ranks/ranks.h"

/* ---- a process of a file ---- */

static void close_file(struct check_file *f)
{
    if (!f->open)
        return;
    free(f->ooms);
    report_free(&f->report);
    trace_close(&f->trace);
    f->open = false;
}

/* 0, or -1 with the reason said.  GROWTH: look for it. */
static int open_file(struct check_file *f, const char *path, const struct relabel *relabel, bool growth)
{
    *f = (struct check_file){0};
    if (relabel_open(&f->trace, path, relabel)) {
        complain("%s", f->trace.why);
        return -1;
    }
    f->open = true;
    int result = report_load(&f->report, &f->trace, REPORT_UNSEEN | (growth ? REPORT_GROWTH : 0));
    if (!result)
        result = trace_ooms_kept(&f->trace, &f->ooms, &f->oom_count);
    if (result) {
        complain("%s", f->trace.why);
        close_file(f);
    }
    return result;
}

/* ---- the base run ---- */

struct base {
    struct check_file *files;
    size_t count;
};

static void close_base(struct base *b)
{
    for (size_t i = 0; i < b->count; i++)
        close_file(&b->files[i]);
    free(b->files);
}

static int open_base(struct base *b, const struct check_options *o)
{
    char why[512], *paths[] = {(char *)o->against};
    size_t n;
    *b = (struct base){0};
    if (!o->against)
        return 0;
    char **files = trace_files(paths, 1, &n, why, sizeof why);
    if (!files) {
        complain("check: --against: %s", why);
        return -1;
    }
    int result = 0;
    for (size_t i = 0; !result && i < n; i++)
        result = open_file(PUSH(b->files, b->count), files[i], &o->relabel, false);
    trace_free_files(files, n);
    return result;
}

/* The same rank; where there is one file on either side, that. */
static struct check_file *base_of(const struct base *b, const struct check_file *f, size_t files)
{
    if (b->count == 1 && files == 1)
        return &b->files[0];
    for (size_t i = 0; f->trace.process.rank != UNKNOWN && i < b->count; i++)
        if (b->files[i].trace.process.rank == f->trace.process.rank)
            return &b->files[i];
    return NULL;
}

/* ---- a job's ranks ---- */

static char *list_of(const int64_t *ranks, size_t n)
{
    char *list = xstrdup("");
    for (size_t i = 0; i < n && i < 8; i++)
        xappend(&list, "%s%lld", i ? ", " : "", (long long)ranks[i]);
    if (n > 8)
        xappend(&list, ", ...");
    return list;
}

/* Whether any limit is about all ranks. */
static bool about_all(const struct check_options *o)
{
    bool all = o->no_growth || o->against;
    for (size_t i = 0; i < o->limit_count; i++)
        all = all || o->limits[i].rank == UNKNOWN;
    return all;
}

static void check_ranks(struct check *c, const struct rank_file *files, size_t n)
{
    size_t count;
    struct rank_job *jobs = ranks_jobs(files, n, &count);
    for (size_t i = 0; i < count; i++) {
        size_t missing;
        int64_t *ranks = ranks_missing(&jobs[i], &missing);
        if (missing) {
            char *list = list_of(ranks, missing);
            struct check_row *r =
                check_add_row(c, CHECK_RANKS, xstrdup("all ranks"), xstrdup("the ranks of the job"),
                              jobs[i].files[0]->label, jobs[i].files[0]->path);
            r->why = xformat("of %lld ranks there is no file of %s", (long long)jobs[i].world_size, list);
            free(list);
        }
        free(ranks);
    }
    ranks_free_jobs(jobs, count);
}

/* ---- all of it ---- */

struct run {
    struct check *c;
    const struct check_options *o;
    struct base base;
    struct rank_file *ranks;
    size_t rank_count, files;
};

static void check_process(struct run *r, struct check_file *f)
{
    for (size_t i = 0; i < r->o->limit_count; i++)
        check_limit(r->c, f, i, r->o);
    if (r->o->no_growth)
        check_growth(r->c, f, r->o);
    if (r->o->against)
        check_against(r->c, f, base_of(&r->base, f, r->files), r->o);
    *PUSH(r->ranks, r->rank_count) = ranks_file_of(&f->report);
}

static int check_one(struct run *r, char *const *files, size_t n, size_t i, int64_t process)
{
    struct relabel relabel = r->o->relabel;
    struct check_file f;
    relabel.process = process;
    if (open_file(&f, files[i], &relabel, r->o->no_growth))
        return -1;
    f.trace.label = trace_label(files, n, i);
    check_process(r, &f);
    close_file(&f);
    return 0;
}

/* What of a sweep's points is in no recording, and points that crashed, in a row each. */
static int check_points(struct run *r, struct trace *t, char *const *files, size_t n, size_t i)
{
    struct trace_sweep sweep;
    int result = trace_sweep_load(t, &sweep);
    if (result)
        complain("%s", t->why);
    for (size_t k = 0; k < sweep.n; k++) {
        const struct trace_sweep_point *p = &sweep.points[k];
        bool missing = trace_sweep_point_missing(p), crash = p->outcome && !strcmp(p->outcome, "crash");
        if (!missing && (!crash || r->o->allow_killed))
            continue;
        char *outcome = report_point_outcome(p, false);
        struct check_row *row = check_add_row(r->c, CHECK_POINTS, xstrdup("all points"),
                                              xformat("the point %s", p->name ? p->name : "without a name"),
                                              trace_label(files, n, i), files[i]);
        row->why = !p->outcome       ? xstrdup(outcome)
                   : !missing        ? xformat("%s: what it would have used later is unknown", outcome)
                   : p->recorded < 1 ? xformat("%s; nothing of it was recorded", outcome)
                                     : xformat("%s; of its %lld processes %lld %s recorded", outcome,
                                               (long long)p->expected, (long long)p->recorded,
                                               p->recorded == 1 ? "was" : "were");
        free(outcome);
    }
    trace_sweep_free(&sweep);
    return result;
}

/* Every process of the file, unless one is asked for. */
static void check_file(struct run *r, char *const *files, size_t n, size_t i)
{
    struct trace t;
    int64_t *ids = NULL;
    size_t count = 0;
    if (trace_open(&t, files[i])) {
        complain("%s", t.why);
        r->c->unusable++;
        return;
    }
    int result = trace_process_ids(&t, &ids, &count);
    if (result)
        complain("%s", t.why);
    else if (!r->o->relabel.process)
        result = check_points(r, &t, files, n, i);
    trace_close(&t);
    int64_t asked = r->o->relabel.process;
    if (!result && asked && count == 1 && ids[0] != asked)
        result =
            complain("%s has no process %lld: it has %lld", files[i], (long long)asked, (long long)ids[0]);
    else if (asked || count < 2)
        result = result ? result : check_one(r, files, n, i, asked);
    else
        for (size_t k = 0; k < count; k++)
            result |= check_one(r, files, n, i, ids[k]);
    r->c->unusable += result != 0;
    free(ids);
}

/* Whether another row of the same limit stands for row I, which found nothing: one that found something, or
 * an earlier one that did not. */
static bool stood_for(const struct check *c, size_t i)
{
    for (size_t k = 0; c->rows[i].nothing && k < c->count; k++)
        if (c->rows[k].limit == c->rows[i].limit && (!c->rows[k].nothing || k < i))
            return true;
    return false;
}

/* A limit that met something somewhere is not in doubt because of files that have nothing of it. */
static void drop_nothing(struct check *c)
{
    struct check_row *rows = NULL;
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++)
        if (!stood_for(c, i))
            *PUSH(rows, kept) = c->rows[i];
    for (size_t i = 0; i < c->count; i++)
        if (stood_for(c, i))
            check_row_free(&c->rows[i]);
    free(c->rows);
    c->rows = rows;
    c->count = kept;
}

int check_run(struct check *c, char *const *files, size_t n, bool directory, const struct check_options *o)
{
    struct run r = {.c = c, .o = o, .files = n};
    *c = (struct check){0};
    int result = open_base(&r.base, o);
    for (size_t i = 0; !result && i < n; i++)
        check_file(&r, files, n, i);
    if (!result && (n > 1 || directory) && about_all(o))
        check_ranks(c, r.ranks, r.rank_count);
    close_base(&r.base);
    for (size_t i = 0; i < r.rank_count; i++)
        ranks_free_file(&r.ranks[i]);
    free(r.ranks);
    drop_nothing(c);
    for (size_t i = 0; i < c->count; i++)
        c->verdicts[c->rows[i].verdict]++;
    return result;
}

void check_row_free(struct check_row *r)
{
    free(r->given);
    free(r->what);
    free(r->dry);
    free(r->label);
    free(r->path);
    free(r->why);
    check_cause_free(&r->cause);
}

void check_free(struct check *c)
{
    for (size_t i = 0; i < c->count; i++)
        check_row_free(&c->rows[i]);
    free(c->rows);
    *c = (struct check){0};
}

int check_status(const struct check *c)
{
    return c->unusable                   ? 2
           : c->verdicts[VERDICT_BEYOND] ? 1
           : c->verdicts[VERDICT_UNTOLD] ? 3
           : c->verdicts[VERDICT_WITHIN] ? 0
                                         : 3;
}
