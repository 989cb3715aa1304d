/*
 * bounds.c - reports where totals are upper bounds, because ends of allocations were lost when the ring was
 * full (schema.sql, table upper_bound).
 */
#include <string.h>

#include "report.h"
#include "base/shown.h"
#include "base/units.h"

/* One line per total, for all its intervals. */
void report_bounds_text(const struct trace *t, FILE *out)
{
    for (size_t i = 0; i < t->bound_count; i++) {
        const struct trace_bound *b = &t->bounds[i];
        fputs("UPPER BOUND: ", out);
        if (b->device >= 0)
            fprintf(out, "%s of device %lld", shown(b->kind), (long long)b->device);
        else
            fputs("memory outside the devices' totals", out);
        fprintf(out, " may be too high from %s to ", units_time(b->t_from).s);
        fputs(b->t_to == UNKNOWN ? "the end" : units_time(b->t_to).s, out);
        if (b->rows > 1)
            fprintf(out, " (%s)", units_count(b->rows, "time").s);
        fputs(": ends of allocations or ranges were lost", out);
        if (b->t_to != UNKNOWN)
            fputs("; then a framework's own total, or that nothing was alive, showed it right", out);
        fputc('\n', out);
    }
}

void report_bounds_json(const struct trace *t, struct json *j)
{
    json_begin(j, "upper_bounds", '[');
    for (size_t i = 0; i < t->bound_count; i++) {
        const struct trace_bound *b = &t->bounds[i];
        json_begin(j, NULL, '{');
        json_int(j, "device", b->device);
        json_text(j, "kind", b->kind);
        json_int(j, "times", b->rows);
        json_int(j, "from_t_ns", b->t_from);
        json_int(j, "to_t_ns", b->t_to);
        json_end(j);
    }
    json_end(j);
}
