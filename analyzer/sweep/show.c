/* show.c - a sweep as a table, and as CSV with a row a rank. */
#include "sweep.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/destination.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/page.h"
#include "trace/store/files.h"

/* ---- table ---- */

static void bytes_cell(struct table *t, const struct point *p, enum point_figure what)
{
    double least, mean, greatest;
    if (!point_span(p, what, &least, &mean, &greatest))
        table_cell(t, "-");
    else if (least == greatest)
        table_cell(t, "%s", units_bytes((int64_t)mean, false).s);
    else
        table_cell(t, "%s to %s", units_bytes((int64_t)least, false).s,
                   units_bytes((int64_t)greatest, false).s);
}

static void rate_cell(struct table *t, const struct point *p)
{
    double least, mean, greatest;
    if (point_span(p, FIGURE_POINT_RATE, &least, &mean, &greatest))
        table_cell(t, "%.3g", mean);
    else
        table_cell(t, "-");
}

static void outcome_cell(struct table *t, const struct point *p)
{
    char *status = point_status(p);
    int64_t refused = point_refused(p);
    if (!p->done)
        table_cell(t, "not run");
    else if (p->outcome == POINT_CRASH && !p->dry.there)
        table_cell(t, "crash, %s", status);
    else if (refused != UNKNOWN)
        table_cell(t, "oom, asked %s", units_bytes(refused, false).s);
    else
        table_cell(t, "%s", outcome_names[p->outcome]);
    free(status);
}

static void point_row(struct table *t, const struct point *p)
{
    table_cell(t, "%s", p->name);
    outcome_cell(t, p);
    table_cell(t, "%s", p->done ? units_time(p->ns).s : "-");
    if (p->n < (size_t)p->expected)
        table_cell(t, "%zu of %" PRId64, p->n, p->expected);
    else
        table_cell(t, "%zu", p->n);
    bytes_cell(t, p, FIGURE_POINT_ALLOCATED);
    bytes_cell(t, p, FIGURE_POINT_RESERVED);
    bytes_cell(t, p, FIGURE_POINT_FRAMEWORK);
    if (p->predicted_reserved == UNKNOWN)
        table_cell(t, "-");
    else
        table_cell(t, "%s%s", units_bytes(p->predicted_reserved, false).s, p->fitted ? " (fitted)" : "");
    rate_cell(t, p);
}

static bool predicts(const struct sweep *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->points[i].predicted_reserved != UNKNOWN)
            return true;
    return false;
}

static void print_predicted(const struct sweep *s)
{
    bool several = false;
    for (size_t i = 0; i < s->n; i++)
        several = several || s->points[i].n > 1;
    fputs("predicted: what the framework's allocator reserves", stdout);
    if (several && s->predicted_rank != UNKNOWN)
        printf(" in rank %" PRId64 ", which held most", s->predicted_rank);
    else if (several)
        fputs(" in the process that held most", stdout);
    puts(", by laws of the points marked fitted");
}

/* ---- table of dry runs ---- */

static void dry_cell(struct table *t, int64_t bytes)
{
    if (bytes == UNKNOWN)
        table_cell(t, "-");
    else
        table_cell(t, "%s", units_bytes(bytes, false).s);
}

static void dry_row(struct table *t, const struct point *p)
{
    const struct dry_answer *d = &p->dry;
    bool told = p->done && d->there && d->reserved.least != UNKNOWN;
    table_cell(t, "%s", p->name);
    outcome_cell(t, p);
    dry_cell(t, d->there ? d->at_peak[0] : UNKNOWN);
    dry_cell(t, d->there ? d->at_peak[1] : UNKNOWN);
    dry_cell(t, d->there && p->outcome == POINT_OK ? d->left : UNKNOWN);
    if (told && !d->exact)
        table_cell(t, "within %s", units_bytes(d->reserved.most - d->reserved.least, false).s);
    else
        table_cell(t, "%s", told ? "exact" : "");
}

void show_dry_table(const struct sweep *s, FILE *out)
{
    static const char *const header[] = {"POINT", "OUTCOME", "ALLOCATED", "RESERVED", "LEFT", ""};
    struct table t;
    table_init(&t, "<<>>><", header);
    table_drops(&t, "--102-");
    for (size_t i = 0; i < s->n; i++)
        dry_row(&t, &s->points[i]);
    table_print(&t, out, 0);
    table_free(&t);
    fputs("dry runs, no GPU; allocated and reserved: by PyTorch's allocator\n", out);
}

void show_table(const struct sweep *s)
{
    if (s->dry) {
        wrap_page_begin(false);
        show_dry_table(s, stdout);
        wrap_page_end();
        return;
    }
    static const char *const header[] = {"POINT",    "OUTCOME",      "TIME",      "RANKS",  "ALLOCATED",
                                         "RESERVED", "OF FRAMEWORK", "PREDICTED", "STEPS/S"};
    struct table t;
    wrap_page_begin(false);
    table_init(&t, "<<>>>>>>>", header);
    table_drops(&t, "--312-000");
    for (size_t i = 0; i < s->n; i++)
        point_row(&t, &s->points[i]);
    table_print(&t, stdout, 0);
    table_free(&t);
    if (predicts(s))
        print_predicted(s);
    else if (s->unpredicted && s->n > 1)
        printf("predicted: nothing: %s\n", s->unpredicted);
    wrap_page_end();
}

/* ---- CSV ---- */

static void number(FILE *out, int64_t n)
{
    if (n == UNKNOWN)
        fputc(',', out);
    else
        fprintf(out, ",%" PRId64, n);
}

/* Values and names of a grid need no quotes; a path may. */
static void text(FILE *out, const char *word)
{
    fputs(",\"", out);
    for (; *word; word++) {
        if (*word == '"')
            fputc('"', out);
        fputc(*word, out);
    }
    fputc('"', out);
}

static void csv_row(const struct sweep *s, size_t i, const struct rank_figures *r, FILE *out)
{
    static const struct rank_figures none = {NULL,    false,   UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
                                             UNKNOWN, UNKNOWN, UNKNOWN, NAN,     UNKNOWN};
    const struct point *p = &s->points[i];
    char *status = point_status(p);
    for (size_t a = 0; a < s->grid.n; a++)
        fprintf(out, "%s,", s->points[i].values[a]);
    fprintf(out, "%s,%s,%.3f,%zu,%" PRId64, outcome_names[p->outcome], status, (double)p->ns / 1e9, p->n,
            p->expected);
    r = r ? r : &none;
    number(out, r->rank);
    number(out, r->allocated);
    number(out, r->reserved);
    number(out, r->framework_allocated);
    number(out, r->framework_reserved);
    number(out, p->predicted_allocated);
    number(out, p->predicted_reserved);
    fprintf(out, ",%d", p->fitted);
    number(out, r->steps);
    if (isnan(r->rate))
        fputc(',', out);
    else
        fprintf(out, ",%.6g", r->rate);
    number(out, p->outcome == POINT_OOM && r->refused ? r->refused : UNKNOWN);
    text(out, r->path ? r->path : "");
    fputc('\n', out);
    free(status);
}

static void write_csv(const struct sweep *s, FILE *out)
{
    for (size_t a = 0; a < s->grid.n; a++)
        fprintf(out, "%s%s,", vs_store_axis_prefix(s->grid.axes[a].name), s->grid.axes[a].name);
    fputs("outcome,status,seconds,files,ranks,rank,allocated_bytes,reserved_bytes,framework_allocated_bytes,"
          "framework_reserved_bytes,predicted_framework_allocated_bytes,predicted_framework_reserved_bytes,"
          "fitted,"
          "steps,steps_per_second,refused_bytes,file\n",
          out);
    for (size_t i = 0; i < s->n; i++) {
        const struct point *p = &s->points[i];
        for (size_t r = 0; p->done && r < p->n; r++)
            csv_row(s, i, &p->ranks[r], out);
        if (p->done && !p->n)
            csv_row(s, i, NULL, out);
    }
}

int show_csv(const struct sweep *s, const char *path)
{
    struct destination to;
    FILE *out = destination_open(&to, s->who, path);
    if (!out)
        return 2;
    write_csv(s, out);
    return destination_close(&to, out, true);
}
