/* points.c - the points of a sweep, above the page of their recordings. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/page.h"
#include "read/sweep.h"

#define B(n) units_bytes(n, exact).s

char *report_point_outcome(const struct trace_sweep_point *p, bool exact)
{
    const char *outcome = p->outcome ? shown(p->outcome) : "not run";
    if (p->outcome && !strcmp(p->outcome, "oom") && p->refused != UNKNOWN)
        return xformat("%s, asked %s", outcome, B(p->refused));
    if (p->outcome && !strcmp(p->outcome, "crash") && p->status && *p->status) {
        char *first = xstrdup(outcome), *both = xformat("%s, %s", first, shown(p->status));
        free(first);
        return both;
    }
    return xstrdup(outcome);
}

static void bytes_cell(struct table *t, int64_t bytes, bool exact)
{
    if (bytes == UNKNOWN)
        table_cell(t, "-");
    else
        table_cell(t, "%s", B(bytes));
}

static void point_row(struct table *t, const struct trace_sweep_point *p, bool exact)
{
    char *outcome = report_point_outcome(p, exact);
    table_cell(t, "%s", p->name ? shown(p->name) : "-");
    table_cell(t, "%s", outcome);
    table_cell(t, "%s", p->ns == UNKNOWN ? "-" : units_time(p->ns).s);
    if (p->recorded < p->expected)
        table_cell(t, "%" PRId64 " of %" PRId64, p->recorded, p->expected);
    else
        table_cell(t, "%" PRId64, p->recorded);
    bytes_cell(t, p->allocated, exact);
    bytes_cell(t, p->reserved, exact);
    if (p->predicted == UNKNOWN)
        table_cell(t, "-");
    else
        table_cell(t, "%s%s", B(p->predicted), p->fitted ? " (fitted)" : "");
    free(outcome);
}

/* How many ended in each way, in the order of their first. */
static char *outcomes(const struct trace_sweep_point *points, size_t n)
{
    char *text = xstrdup("");
    for (size_t i = 0; i < n; i++) {
        size_t before = 0, all = 0;
        const char *of = points[i].outcome ? points[i].outcome : "not run";
        for (size_t k = 0; k < n; k++)
            if (!strcmp(points[k].outcome ? points[k].outcome : "not run", of)) {
                before += k < i;
                all++;
            }
        if (before)
            continue;
        char *longer = xformat("%s%s%zu %s", text, *text ? ", " : "", all, shown(of));
        free(text);
        text = longer;
    }
    return text;
}

void report_points_text(const struct trace_sweep_point *points, size_t n, FILE *out, bool exact)
{
    static const char *const header[] = {"point",     "outcome",  "time",     "recorded",
                                         "allocated", "reserved", "predicted"};
    struct table t;
    size_t missing = 0;
    char *ended = outcomes(points, n);
    fprintf(out, "a sweep of %s: %s\n\n", units_count((int64_t)n, "point").s, ended);
    free(ended);
    table_init(&t, "<<>>>>>", header);
    table_drops(&t, "--21--0");
    for (size_t i = 0; i < n; i++) {
        point_row(&t, &points[i], exact);
        missing += trace_sweep_point_missing(&points[i]);
    }
    table_print(&t, out, 2);
    table_free(&t);
    if (missing)
        wrap_print(out, 2, 4, "of %s not every process was recorded: what follows is of the others",
                   units_count((int64_t)missing, "point").s);
    fputc('\n', out);
}

static void rank_json(const struct trace_sweep_rank *r, struct json *j)
{
    json_begin(j, NULL, '{');
    json_int(j, "process", r->process);
    json_int(j, "rank", r->rank);
    json_int(j, "allocated_bytes", r->allocated);
    json_int(j, "reserved_bytes", r->reserved);
    json_int(j, "framework_allocated_bytes", r->framework_allocated);
    json_int(j, "framework_reserved_bytes", r->framework_reserved);
    json_ratio(j, "steps_per_second", r->rate);
    json_end(j);
}

static void point_json(const struct trace_sweep *s, const struct trace_sweep_point *p, struct json *j)
{
    json_begin(j, NULL, '{');
    json_text(j, "point", p->name);
    json_begin(j, "values", '[');
    for (size_t a = 0; a < s->axis_count; a++) {
        if (!p->values[a])
            continue;
        json_begin(j, NULL, '{');
        json_text(j, "name", s->axes[a]);
        json_text(j, "value", p->values[a]);
        json_end(j);
    }
    json_end(j);
    json_text(j, "outcome", p->outcome);
    json_text(j, "status", p->status);
    json_int(j, "ns", p->ns);
    json_int(j, "expected_processes", p->expected);
    json_int(j, "refused_bytes", p->refused);
    json_int(j, "allocated_bytes", p->allocated);
    json_int(j, "reserved_bytes", p->reserved);
    json_int(j, "predicted_framework_allocated_bytes", p->predicted_allocated);
    json_int(j, "predicted_framework_reserved_bytes", p->predicted);
    json_int(j, "predicted_rank", p->predicted_rank);
    json_bool(j, "fitted", p->fitted);
    json_begin(j, "processes", '[');
    for (size_t r = 0; r < p->rank_count; r++)
        rank_json(&p->ranks[r], j);
    json_end(j);
    json_end(j);
}

void report_points_json(const struct trace_sweep *s, const char *path, struct json *j)
{
    json_begin(j, NULL, '{');
    json_text(j, "path", path);
    json_begin(j, "axes", '[');
    for (size_t a = 0; a < s->axis_count; a++)
        json_text(j, NULL, s->axes[a]);
    json_end(j);
    json_begin(j, "points", '[');
    for (size_t i = 0; i < s->n; i++)
        point_json(s, &s->points[i], j);
    json_end(j);
    json_end(j);
}
