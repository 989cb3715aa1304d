/* points.c - reads the points of a sweep's database (shim/trace/store/files.h), whichever process is shown.
 */
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "sweep.h"

/* Not of the shown process alone: tables under the temporary views (process.c). */
#define HELD(kind)                                                                                           \
    "(SELECT max(k.peak_bytes) FROM sweep_process s JOIN main.peak k ON k.process = s.process WHERE "        \
    "s.point "                                                                                               \
    "= p.id AND k.kind = '" kind "')"

bool trace_is_sweep(struct trace *t)
{
    /* of a file of several processes alone, and never of a view, which might be an endless one */
    return trace_sql_one(t,
                         "SELECT count(*) FROM main.sqlite_master WHERE type = 'table' AND rootpage > 0 "
                         "AND name IN ('sweep_point', 'sweep_process', 'sweep_value')",
                         0) == 3;
}

/* The number of the axis NAME, which is added where it is new. */
static size_t axis_of(struct trace_sweep *s, const char *name)
{
    size_t a = 0;
    while (a < s->axis_count && strcmp(s->axes[a], name) != 0)
        a++;
    if (a == s->axis_count)
        *PUSH(s->axes, s->axis_count) = name;
    return a;
}

static struct trace_sweep_point *point_of(struct trace_sweep *s, const int64_t *ids, int64_t id)
{
    const int64_t *found = FIND(id, ids, s->n);
    return found ? &s->points[found - ids] : NULL;
}

static int load_points(struct trace *t, struct trace_sweep *out, int64_t **ids)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT id, name, outcome, status, ns, expected_processes, (SELECT count(*) FROM sweep_process "
        "s WHERE s.point = p.id), refused_bytes, " HELD("allocated") ", " HELD(
            "reserved") ", predicted_allocated_bytes, predicted_reserved_bytes, predicted_rank, fitted FROM "
                        "sweep_point p ORDER BY id",
        0);
    size_t id_count = 0;
    while (trace_sql_row(s)) {
        *PUSH(*ids, id_count) = trace_sql_int(s, 0);
        *PUSH(out->points, out->n) = (struct trace_sweep_point){.name = trace_sql_text(t, s, 1),
                                                                .outcome = trace_sql_text(t, s, 2),
                                                                .status = trace_sql_text(t, s, 3),
                                                                .ns = trace_sql_int(s, 4),
                                                                .expected = trace_sql_amount(s, 5),
                                                                .recorded = trace_sql_amount(s, 6),
                                                                .refused = trace_sql_int(s, 7),
                                                                .allocated = trace_sql_int(s, 8),
                                                                .reserved = trace_sql_int(s, 9),
                                                                .predicted_allocated = trace_sql_int(s, 10),
                                                                .predicted = trace_sql_int(s, 11),
                                                                .predicted_rank = trace_sql_int(s, 12),
                                                                .fitted = trace_sql_amount(s, 13) != 0};
    }
    return trace_sql_done(t, s);
}

static int load_axes(struct trace *t, struct trace_sweep *out)
{
    struct sqlite3_stmt *s = trace_sql(
        t, "SELECT name FROM sweep_value WHERE name IS NOT NULL GROUP BY name ORDER BY min(axis), name", 0);
    while (trace_sql_row(s))
        axis_of(out, trace_sql_text(t, s, 0));
    return trace_sql_done(t, s);
}

static int load_values(struct trace *t, struct trace_sweep *out, const int64_t *ids)
{
    for (size_t i = 0; i < out->n; i++) {
        out->points[i].values = xrealloc(NULL, (out->axis_count + 1) * sizeof *out->points[i].values);
        memset(out->points[i].values, 0, (out->axis_count + 1) * sizeof *out->points[i].values);
    }
    struct sqlite3_stmt *s =
        trace_sql(t, "SELECT point, name, CAST(value AS TEXT) FROM sweep_value WHERE name IS NOT NULL", 0);
    while (trace_sql_row(s)) {
        struct trace_sweep_point *p = point_of(out, ids, trace_sql_int(s, 0));
        const char *name = (const char *)sqlite3_column_text(s, 1);
        size_t a = 0;
        while (a < out->axis_count && strcmp(out->axes[a], name) != 0)
            a++;
        if (p && a < out->axis_count)
            p->values[a] = trace_sql_text(t, s, 2);
    }
    return trace_sql_done(t, s);
}

/* NAN where it is not known, or no program's: a step takes a nanosecond at least. */
static double rate_of(struct sqlite3_stmt *s, int column)
{
    double rate = sqlite3_column_double(s, column);
    return rate > 0 && rate <= 1e9 ? rate : NAN;
}

/* A row a device of a process: that where it reserved most counts, of equal ones the first. */
static int load_ranks(struct trace *t, struct trace_sweep *out, const int64_t *ids)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT s.point, s.process, (SELECT rank FROM main.process r WHERE r.id = s.process), "
        "s.steps_per_second, k.reserved, k.allocated, k.framework, k.managed FROM sweep_process s LEFT JOIN "
        "(SELECT process, device, max(peak_bytes) FILTER (WHERE kind = 'reserved') AS reserved, "
        "max(peak_bytes) FILTER (WHERE kind = 'allocated') AS allocated, "
        "max(peak_bytes) FILTER (WHERE kind = 'framework') AS framework, "
        "max(peak_bytes) FILTER (WHERE kind = 'managed_reserved') AS managed FROM main.peak WHERE device >= "
        "0 "
        "GROUP BY process, device) k ON k.process = s.process ORDER BY s.point, s.process, k.device",
        0);
    while (trace_sql_row(s)) {
        struct trace_sweep_point *p = point_of(out, ids, trace_sql_int(s, 0));
        int64_t process = trace_sql_int(s, 1), reserved = trace_sql_int(s, 4);
        if (!p)
            continue;
        struct trace_sweep_rank *r = p->rank_count ? &p->ranks[p->rank_count - 1] : NULL;
        if (!r || r->process != process) {
            r = PUSH(p->ranks, p->rank_count);
            *r = (struct trace_sweep_rank){process, trace_sql_int(s, 2), UNKNOWN, UNKNOWN, UNKNOWN,
                                           UNKNOWN, rate_of(s, 3)};
        }
        if (reserved == UNKNOWN || (r->reserved != UNKNOWN && reserved <= r->reserved))
            continue;
        r->reserved = reserved;
        r->allocated = trace_sql_int(s, 5);
        r->framework_allocated = trace_sql_int(s, 6);
        r->framework_reserved = trace_sql_int(s, 7);
        if (r->framework_allocated == 0)
            r->framework_allocated = r->framework_reserved = UNKNOWN;
    }
    return trace_sql_done(t, s);
}

int trace_sweep_load(struct trace *t, struct trace_sweep *out)
{
    int64_t *ids = NULL;
    *out = (struct trace_sweep){.n = 0};
    if (!trace_is_sweep(t))
        return 0;
    int rc =
        load_points(t, out, &ids) || load_axes(t, out) || load_values(t, out, ids) || load_ranks(t, out, ids);
    free(ids);
    if (rc)
        trace_sweep_free(out);
    return rc ? -1 : 0;
}

void trace_sweep_free(struct trace_sweep *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->points[i].values);
        free(s->points[i].ranks);
    }
    free(s->points);
    free(s->axes);
    *s = (struct trace_sweep){.n = 0};
}

bool trace_sweep_point_missing(const struct trace_sweep_point *p)
{
    return !p->outcome || p->recorded < 1 || p->recorded < p->expected;
}
