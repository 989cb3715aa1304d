/*
 * text.c - the page of several ranks: who is missing, who peaked highest, a row for each rank, and for each
 * phase the span over the ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "ranks.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/page.h"
#include "show/report/code.h"
#include "read/living.h"

#define B(n)           units_bytes(n, exact).s
#define TROUBLES_SHOWN 8
#define GPUS_SHOWN     3
#define RANKS_SHOWN    5
#define UUID_SHOWN     12 /* "GPU-1a2b3c4d" */

struct page {
    const struct choice *choice; /* of rows */
    const struct rank_job *job;
    FILE *out;
    bool exact, uuid, all;
    const struct relabel *relabel;
    struct rank_span top; /* of allocated, or of reserved if no framework reports */
    bool by_reserved;
};

/* ---- above the table ---- */

/* Each kind of dry run once. */
static void print_dry(const struct page *p)
{
    for (size_t i = 0; i < p->job->file_count; i++) {
        const char *dry = p->job->files[i]->dry;
        bool first = dry != NULL;
        for (size_t k = 0; first && k < i; k++)
            first = !p->job->files[k]->dry || strcmp(p->job->files[k]->dry, dry) != 0;
        if (first)
            wrap_print(p->out, 0, 2, "%s", dry);
    }
}

static void print_missing(const struct page *p)
{
    size_t n;
    int64_t *missing = ranks_missing(p->job, &n);
    char *list = ranks_list(missing, n);
    if (n)
        fprintf(p->out, "MISSING: no file of rank%s %s (%zu of %lld)\n", n > 1 ? "s" : "", list, n,
                (long long)p->job->world_size);
    free(list);
    free(missing);
}

static void print_rank(const struct rank_file *f, FILE *out)
{
    if (f->rank != UNKNOWN)
        fprintf(out, "rank %lld", (long long)f->rank);
    else
        fputs(units_pid(f->pid).s, out);
}

/* Problems, which are printed before any figure. */
static void print_troubles(const struct page *p)
{
    size_t shown = 0, n = 0;
    for (size_t i = 0; i < p->job->file_count; i++) {
        const struct rank_file *f = p->job->files[i];
        if (!strcmp(f->state, RANK_COMPLETE) || ++n > TROUBLES_SHOWN)
            continue;
        fprintf(p->out, "NOTE: ");
        print_rank(f, p->out);
        fprintf(p->out, ": %s\n", f->state);
        shown++;
    }
    if (n > shown)
        fprintf(p->out, "NOTE: and %zu more\n", n - shown);
}

static void print_top(const struct page *p)
{
    const struct rank_device *d = p->top.device;
    bool exact = p->exact;
    if (!d)
        return;
    fprintf(p->out, "highest: ");
    print_rank(p->top.file, p->out);
    fprintf(p->out, " on %s, device %lld: ", p->top.file->host ? shown(p->top.file->host) : "an unknown host",
            (long long)d->device);
    if (p->by_reserved)
        fprintf(p->out, "%s reserved", B(d->reserved));
    else
        fprintf(p->out, "%s allocated, %s reserved", B(d->allocated), B(d->reserved));
    if (d->phase_at_peak)
        fprintf(p->out, "; %s%s", strcmp(d->phase_at_peak, "none") ? "in " : "outside any phase",
                strcmp(d->phase_at_peak, "none") ? shown(d->phase_at_peak) : "");
    if (d->step_at_peak != UNKNOWN)
        fprintf(p->out, ", step %lld", (long long)d->step_at_peak);
    fputc('\n', p->out);
}

/* Prints which code holds the highest peak. */
static void print_code(const struct page *p)
{
    struct trace t;
    struct trace_live *live = NULL;
    size_t n;
    if (!p->top.device || p->by_reserved || relabel_open(&t, p->top.file->path, p->relabel))
        return;
    if (!trace_live(&t, p->top.device->device, &live, &n)) {
        report_parts_text(live, n, p->top.most, p->out, p->exact);
        report_code_text(&t, live, n, p->top.most, p->top.device->device, UNKNOWN, p->out, p->exact);
    }
    free(live);
    trace_close(&t);
}

static char *name_of(const struct rank_file *f)
{
    return f->rank != UNKNOWN ? xformat("rank %lld", (long long)f->rank) : xstrdup(units_pid(f->pid).s);
}

/* What the highest has beyond the lowest. */
static void print_why(const struct page *p)
{
    bool exact = p->exact;
    if (p->by_reserved || !p->top.n || p->top.most <= p->top.least)
        return;
    struct rank_excess e = ranks_excess(&p->top, p->relabel, exact);
    if (e.words) {
        char *who = name_of(p->top.least_file);
        wrap_print(p->out, 4, 6, "%s more than the lowest, %s: most of all %s", B(p->top.most - p->top.least),
                   who, e.words);
        free(who);
    }
    if (e.communication > 0)
        wrap_print(p->out, 4, 6, "of communication (NCCL's own memory and buffers) it holds %s more",
                   B(e.communication));
    if (e.gathered > 0)
        wrap_print(p->out, 4, 6, "of parameters gathered by FSDP or ZeRO it holds %s more", B(e.gathered));
    ranks_free_excess(&e);
}

/* ---- what the driver has beyond reserved ---- */

#define BEYOND_LEAST (INT64_C(32) << 20) /* less is the noise of the driver's own bookkeeping */

static void print_beyond(const struct page *p)
{
    bool exact = p->exact;
    struct rank_span rest = ranks_span(p->job, FIGURE_RESIDUAL);
    struct rank_beyond b;
    if (rest.n < 2 || rest.most - rest.least < BEYOND_LEAST || !ranks_beyond(&rest, p->relabel, &b))
        return;
    char *high = name_of(rest.file), *low = name_of(rest.least_file);
    wrap_print(p->out, 0, 2, "beyond reserved the driver has %s more for %s than for %s: most of all %s, +%s",
               B(rest.most - rest.least), high, low, b.part, B(b.bytes));
    free(high);
    free(low);
}

/* "rank 1", "ranks 1-7", "3 processes" */
static char *others_of(const struct rank_gpu *g)
{
    int64_t *ranks = NULL;
    size_t n = 0;
    for (size_t i = 0; i < g->other_count; i++)
        if (g->others[i]->rank != UNKNOWN && g->others[i]->rank != g->owner->rank)
            *PUSH(ranks, n) = g->others[i]->rank;
    bool ordered = n == g->other_count && n > 0;
    for (size_t i = 0; ordered && i < n; i++) /* by_gpu has them by bytes, then by rank */
        for (size_t k = i; k > 0 && ranks[k - 1] > ranks[k]; k--) {
            int64_t swap = ranks[k];
            ranks[k] = ranks[k - 1];
            ranks[k - 1] = swap;
        }
    char *list = ranks_list(ranks, ordered ? n : 0),
         *text = ordered ? xformat("rank%s %s", n > 1 ? "s" : "", list)
                         : xformat("%zu other process%s", g->other_count, g->other_count > 1 ? "es" : "");
    free(list);
    free(ranks);
    return text;
}

static void print_shared(const struct page *p)
{
    bool exact = p->exact;
    size_t n;
    struct rank_gpu *gpus = ranks_shared_gpus(p->job, &n);
    for (size_t i = 0; i < n && i < GPUS_SHOWN; i++) {
        const struct rank_gpu *g = &gpus[i];
        char *owner = name_of(g->owner), *others = others_of(g);
        wrap_print(p->out, 0, 2,
                   "on the GPU of %s (%s, device %lld) %s took memory too: %s at their peaks%s, %s of it "
                   "allocated; its own peak is %s",
                   owner, g->owner->host ? shown(g->owner->host) : "an unknown host",
                   (long long)g->device->device, others, B(g->foreign),
                   g->at_least ? " without their contexts (not known)" : "", B(g->foreign_allocated),
                   B(g->own));
        free(owner);
        free(others);
    }
    if (n > GPUS_SHOWN)
        fprintf(p->out, "%s more shared by several processes\n",
                units_count((int64_t)(n - GPUS_SHOWN), "GPU").s);
    ranks_free_gpus(gpus, n);
}

static void print_head(const struct page *p)
{
    const struct rank_job *job = p->job;
    const struct rank_file *first = job->files[0];
    if (!job->ranked)
        fprintf(p->out, "%s without a rank", units_count((int64_t)job->file_count, "file").s);
    else if (job->world_size == UNKNOWN)
        fprintf(p->out, "%s of a job", units_count((int64_t)job->file_count, "file").s);
    else
        fprintf(p->out, "job of %s", units_count(job->world_size, "rank").s);
    fprintf(p->out, " on %s\n", units_count((int64_t)ranks_hosts(job), "host").s);
    if (first->labels)
        fprintf(p->out, "labels %s\n", shown(first->labels));
    print_missing(p);
    print_troubles(p);
    print_top(p);
    print_why(p);
    print_code(p);
    print_beyond(p);
    print_shared(p);
    if (job->ranked)
        fprintf(p->out, "\n  command  %s\n  started  %s\n",
                first->command ? shown(first->command) : "unknown", units_date(first->from_ns).s);
    fputc('\n', p->out);
}

/* ---- the ranks ---- */

static bool is_top(const struct page *p, const struct rank_device *d)
{
    if (!d || !p->top.n)
        return false;
    return (p->by_reserved ? d->reserved : d->allocated) == p->top.most;
}

static void bytes_cell(struct table *t, int64_t bytes, const char *mark, bool exact)
{
    if (bytes == UNKNOWN)
        table_cell(t, "-");
    else
        table_cell(t, "%s%s", mark, B(bytes));
}

static void device_cell(struct page *p, struct table *t, const struct rank_device *d)
{
    if (!d)
        table_cell(t, "-");
    else if (p->uuid)
        table_cell(t, "%lld %.*s", (long long)d->device, UUID_SHOWN, d->uuid ? d->uuid : "unknown");
    else
        table_cell(t, "%lld", (long long)d->device);
}

static void rank_row(struct page *p, struct table *t, const struct rank_file *f, const struct rank_device *d)
{
    bool exact = p->exact;
    if (p->job->ranked)
        table_cell(t, "%lld", (long long)f->rank);
    table_cell(t, "%s", f->host ? f->host : "unknown");
    device_cell(p, t, d);
    bytes_cell(t, d ? d->allocated : UNKNOWN, is_top(p, d) && !p->by_reserved ? "▸ " : "", exact);
    bytes_cell(t, d ? d->reserved : UNKNOWN, is_top(p, d) && p->by_reserved ? "▸ " : "", exact);
    table_cell(t, "%s", d && d->phase_at_peak ? d->phase_at_peak : "-");
    table_cell(t, "%s%s", d && d->residual != UNKNOWN && d->whole_device ? "≤ " : "",
               d ? B(d->residual) : "-");
    table_cell(t, "%lld", (long long)f->steps);
    table_cell(t, "%s", f->state);
    table_cell(t, "%s", f->label);
}

static void span_row(struct page *p, struct table *t, const char *name, int64_t allocated, int64_t reserved,
                     int64_t residual)
{
    bool exact = p->exact;
    table_cell(t, "%s", name);
    for (int blanks = p->job->ranked ? 2 : 1; blanks > 0; blanks--)
        table_cell(t, "%s", "");
    bytes_cell(t, allocated, "", exact);
    bytes_cell(t, reserved, "", exact);
    table_cell(t, "%s", "");
    bytes_cell(t, residual, "", exact);
    for (int blanks = 3; blanks > 0; blanks--)
        table_cell(t, "%s", "");
}

static bool any_whole_device(const struct rank_job *job)
{
    for (size_t i = 0; i < job->file_count; i++)
        for (size_t k = 0; k < job->files[i]->device_count; k++)
            if (job->files[i]->devices[k].whole_device)
                return true;
    return false;
}

struct row { /* of a device of a rank; device NULL: it has none */
    const struct rank_file *file;
    const struct rank_device *device;
};

static int64_t row_peak(const struct page *p, const struct row *r)
{
    return !r->device ? -1 : p->by_reserved ? r->device->reserved : r->device->allocated;
}

/* A row a device, in the order of the ranks or as --sort says, of many the highest first; the caller frees
 * them. */
static struct row *order_rows(const struct page *p, size_t *n)
{
    struct row *rows = NULL;
    bool peaks = choice_sorts(p->choice, "peak"), names = choice_sorts(p->choice, "name");
    *n = 0;
    for (size_t i = 0; i < p->job->file_count; i++)
        *n += p->job->files[i]->device_count ? p->job->files[i]->device_count : 1;
    peaks = peaks || (!p->all && *n > RANKS_SHOWN);
    *n = 0;
    for (size_t i = 0; i < p->job->file_count; i++) {
        const struct rank_file *f = p->job->files[i];
        for (size_t k = 0; k < f->device_count || k == 0; k++) {
            struct row row = {f, f->device_count ? &f->devices[k] : NULL};
            size_t at = *n;
            *PUSH(rows, *n) = row;
            for (; at > 0 && ((peaks && row_peak(p, &row) > row_peak(p, &rows[at - 1])) ||
                              (names && strcmp(f->label, rows[at - 1].file->label) < 0));
                 at--)
                rows[at] = rows[at - 1];
            rows[at] = row;
        }
    }
    return rows;
}

static void print_ranks(struct page *p)
{
    static const char *const header[] = {"rank",    "host",     "device", "peak allocated", "peak reserved",
                                         "peak in", "residual", "steps",  "state",          "file"};
    const struct rank_job *job = p->job;
    struct rank_span a = p->by_reserved ? ranks_span(job, FIGURE_ALLOCATED) : p->top,
                     r = ranks_span(job, FIGURE_RESERVED), rest = ranks_span(job, FIGURE_RESIDUAL);
    struct table t;
    table_init(&t, &"><<>><>><<"[!job->ranked], &header[!job->ranked]);
    table_drops(&t, job->ranked ? "-27-6453-1" : "-7-6453--");
    size_t n;
    struct row *rows = order_rows(p, &n);
    size_t shown_rows = p->all ? choice_rows(p->choice, n, 0) : n < RANKS_SHOWN ? n : RANKS_SHOWN;
    for (size_t i = 0; i < shown_rows; i++)
        rank_row(p, &t, rows[i].file, rows[i].device);
    free(rows);
    if (r.n > 1) {
        table_rule(&t);
        span_row(p, &t, "min", a.least, r.least, rest.least);
        span_row(p, &t, "mean", a.mean, r.mean, rest.mean);
        span_row(p, &t, "max", a.most, r.most, rest.most);
    }
    table_print(&t, p->out, 2);
    table_free(&t);
    report_words_text("residual: what the driver uses beyond it", p->out);
    if (shown_rows < n)
        fprintf(p->out, "  %s more: %s shows all\n", units_count((int64_t)(n - shown_rows), "device").s,
                p->all ? "--top=0" : "--all");
    if (r.n > 1 && job->aside_count)
        fprintf(p->out, "  min, mean and max are without what a rank took on the GPU of another\n");
    if (any_whole_device(job))
        fprintf(p->out, "  ≤: the driver's figure is the whole device's, other processes included\n");
}

/* ---- the phases ---- */

static void phase_row(struct page *p, struct table *t, const char *name)
{
    struct rank_span a = ranks_phase_span(p->job, name, PHASE_ALLOCATED),
                     r = ranks_phase_span(p->job, name, PHASE_RESERVED),
                     ns = ranks_phase_span(p->job, name, PHASE_TIME);
    bool exact = p->exact;
    table_cell(t, "%s", name);
    table_cell(t, "%zu", a.n);
    table_cell(t, "%s", B(a.least));
    table_cell(t, "%s", B(a.mean));
    table_cell(t, "%s%s", p->top.n && !p->by_reserved && a.most == p->top.most ? "▸ " : "", B(a.most));
    if (p->job->ranked && a.least == a.most && a.n > 1)
        table_cell(t, "all");
    else if (p->job->ranked && a.file)
        table_cell(t, "%lld", (long long)a.file->rank);
    else if (p->job->ranked)
        table_cell(t, "-");
    table_cell(t, "%s", B(r.most));
    table_cell(t, "%s", ns.n ? units_time(ns.least).s : "-");
    table_cell(t, "%s", ns.n ? units_time(ns.most).s : "-");
}

static void print_phases(struct page *p)
{
    static const char *const ranked[] = {"phase", "devices", "peak allocated: min", "mean",
                                         "max",   "of rank", "peak reserved: max",  "time: min",
                                         "max"};
    static const char *const unranked[] = {
        "phase", "devices", "peak allocated: min", "mean", "max", "peak reserved: max", "time: min", "max"};
    struct table t;
    size_t n;
    const char **names = ranks_phases(p->job, &n);
    table_init(&t, p->job->ranked ? "<>>>>>>>>" : "<>>>>>>>", p->job->ranked ? ranked : unranked);
    table_drops(&t, p->job->ranked ? "-243--511" : "-243-511");
    for (size_t i = 0; i < n; i++)
        phase_row(p, &t, names[i]);
    if (n) {
        fputc('\n', p->out);
        table_print(&t, p->out, 2);
    }
    table_free(&t);
    free(names);
}

static void print_job(const struct rank_job *job, const struct relabel *relabel, const struct choice *choice,
                      bool all, FILE *out, bool exact)
{
    struct page p = {.job = job,
                     .out = out,
                     .exact = exact,
                     .all = all,
                     .uuid = ranks_need_uuid(job),
                     .relabel = relabel,
                     .choice = choice};
    p.top = ranks_span(job, FIGURE_ALLOCATED);
    p.by_reserved = !p.top.n || p.top.most <= 0;
    if (p.by_reserved)
        p.top = ranks_span(job, FIGURE_RESERVED);
    print_dry(&p);
    print_head(&p);
    print_ranks(&p);
    if (all)
        print_phases(&p);
    if (p.top.file)
        fprintf(out, "\n  the highest one's own page: vramscope report %s\n", shown_word(p.top.file->path));
}

bool ranks_text(const struct rank_file *files, size_t n, const struct relabel *relabel,
                const struct choice *choice, bool all, FILE *out, bool exact)
{
    size_t count;
    bool whole = true;
    struct rank_job *jobs = ranks_jobs(files, n, &count);
    if (count > 1)
        fprintf(out, "these files are of %zu jobs (told apart by labels, world size, time and rank)\n\n",
                count);
    for (size_t i = 0; i < count; i++) {
        if (i)
            fputs("\n\n", out);
        print_job(&jobs[i], relabel, choice, all, out, exact);
        whole = whole && ranks_whole(&jobs[i]);
    }
    ranks_free_jobs(jobs, count);
    if (!all)
        fputs("  the phases, and each rank: report --all\n", out);
    return whole;
}
