/* json.c - the report for programs: stable names, units in the names (see vramscope-report(1)). */
#include <stdlib.h>
#include <string.h>

#include "parts.h"
#include "report.h"
#include "unused.h"
#include "base/shown.h"

static void ooms_json(const struct trace *t, struct json *j)
{
    json_int(j, "oom_count", t->oom_total);
    json_int(j, "driver_refused_count", t->refused_total);
    json_begin(j, "ooms", '[');
    for (size_t i = 0; i < t->oom_count; i++) {
        const struct trace_oom *o = &t->ooms[i];
        json_begin(j, NULL, '{');
        json_int(j, "t_ns", o->t);
        json_int(j, "device", o->device);
        json_text(j, "phase", o->phase);
        json_bool(j, "driver", o->driver);
        json_int(j, "asked_bytes", o->size);
        json_int(j, "framework_bytes", o->framework);
        json_int(j, "direct_bytes", o->direct);
        json_int(j, "reserved_bytes", o->reserved);
        json_end(j);
    }
    json_end(j);
}

static void folded_json(const struct trace *t, struct json *j)
{
    const struct trace_folded *f = &t->folded;
    bool any = f->stretches > 0, steps = any && t->steps > 0;
    json_begin(j, "folded", '{');
    json_int(j, "stretches", f->stretches);
    json_int(j, "from_ns", any ? f->from : UNKNOWN);
    json_int(j, "to_ns", any ? f->to : UNKNOWN);
    json_int(j, "first_step", steps ? f->first_step : UNKNOWN);
    json_int(j, "last_step", steps ? f->last_step : UNKNOWN);
    json_int(j, "events", f->events);
    json_int(j, "ranges", f->ranges);
    json_int(j, "samples", f->samples);
    json_end(j);
}

static void labels_json(const struct trace *t, struct json *j)
{
    json_begin(j, "labels", '[');
    for (size_t i = 0; i < t->label_count; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "name", t->labels[i].name);
        json_text(j, "value", t->labels[i].value);
        json_end(j);
    }
    json_end(j);
}

void report_file_json(const struct trace *t, struct json *j)
{
    const struct trace_process *p = &t->process;
    json_text(j, "file", t->path);
    json_text(j, "command", p->command);
    json_text(j, "host", p->host);
    labels_json(t, j);
    json_int(j, "process", p->id);
    json_int(j, "processes", t->processes);
    json_int(j, "pid", p->pid);
    json_int(j, "rank", p->rank);
    json_int(j, "local_rank", p->local_rank);
    json_int(j, "world_size", p->world_size);
    json_bool(j, "simulated", p->driver != VS_DRIVER_REAL);
    json_text(j, "dry", trace_dry(t));
    json_int(j, "start_realtime_ns", p->start_realtime_ns);
    json_int(j, "duration_ns", t->t_last);
    json_int(j, "steps", t->steps);
    json_int(j, "unfinished_step", t->unfinished_step);
    json_int(j, "events", t->events);
    json_bool(j, "complete", trace_whole(t));
    json_text(j, "end", trace_end_name(t));
    json_text(j, "end_line", t->end_line);
    json_bool(j, "running", t->end == TRACE_END_RUNNING);
    json_bool(j, "clean_end", t->end == TRACE_END_CLEAN);
    if (t->came_to_exit == UNKNOWN)
        json_int(j, "came_to_exit", UNKNOWN);
    else
        json_bool(j, "came_to_exit", t->came_to_exit == 1);
    json_text(j, "journal_elsewhere", t->end == TRACE_END_ELSEWHERE ? t->journal : NULL);
    json_bool(j, "thinned", t->thinned);
    json_int(j, "unwritten_events", t->unwritten);
    folded_json(t, j);
    json_int(j, "recovered_events", t->recovered);
    json_int(j, "framework_reports", t->reports);
    json_int(j, "framework_reports_mismatched", t->reports_mismatched);
    report_losses_json(t, j);
}

void report_file_begin(struct trace *t, const char *file, bool several, struct json *j)
{
    if (j) {
        json_begin(j, NULL, '{');
        report_file_json(t, j);
        json_begin(j, "devices", '[');
    } else if (several) {
        printf("== %s\n", shown(trace_rank_label(t, file)));
    }
    if (!j)
        report_dry_text(t, stdout);
    if (!j && t->end_line)
        printf("%s\n", shown(t->end_line));
}

void report_file_end(struct json *j)
{
    if (j) {
        json_end(j);
        json_end(j);
    }
}

static void phases_json(const struct trace *t, int64_t device, struct json *j)
{
    json_begin(j, "phases", '[');
    for (size_t i = 0; i < t->phase_count; i++) {
        const struct trace_phase *p = &t->phases[i];
        if (p->device != device)
            continue;
        json_begin(j, NULL, '{');
        json_text(j, "phase", p->name);
        json_int(j, "ranges", p->ranges);
        json_int(j, "time_ns", p->ns);
        json_int(j, "events", p->events);
        json_int(j, "peak_allocated_bytes", p->allocated);
        json_int(j, "peak_reserved_bytes", p->reserved);
        json_int(j, "end_allocated_bytes", p->end_allocated);
        json_int(j, "peak_t_ns", p->t_allocated);
        json_end(j);
    }
    json_end(j);
}

/* The bytes that each line of the program holds of the peak; memory without a line is left out. */
static void lines_json(const struct device_report *d, struct json *j)
{
    size_t n;
    struct holder *held = holders_group(d->live, d->live_count, BY_LINE, &n);
    json_begin(j, "lines", '[');
    for (size_t i = 0; i < n; i++) {
        if (!held[i].line)
            continue;
        json_begin(j, NULL, '{');
        json_text(j, "line", held[i].line);
        json_int(j, "size_bytes", held[i].bytes);
        json_int(j, "allocations", held[i].count);
        json_end(j);
    }
    json_end(j);
    free(held);
}

static void away_parts_json(const char *name, const struct trace_away_part *parts, size_t n, struct json *j)
{
    json_begin(j, name, '[');
    for (size_t i = 0; i < n; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "role", parts[i].role);
        json_bool(j, "all", parts[i].all);
        json_text(j, "why", parts[i].why);
        json_int(j, "size_bytes", parts[i].bytes);
        json_end(j);
    }
    json_end(j);
}

void report_away_json(const struct device_report *d, struct json *j)
{
    if (d->away_most <= 0)
        return;
    json_int(j, "away_then_bytes", d->away_at_peak);
    json_int(j, "away_most_bytes", d->away_most);
    away_parts_json("away_then", d->away_parts, d->away_part_count, j);
    away_parts_json("away_most", d->away_most_parts, d->away_most_count, j);
}

static void peak_json(struct trace *t, const struct device_report *d, struct json *j)
{
    json_begin(j, "peak", '{');
    json_int(j, "allocated_bytes", trace_peak_bytes(d->allocated));
    json_int(j, "known_bytes", d->allocated ? d->allocated->bytes : UNKNOWN);
    json_bool(j, "is_upper_bound", d->allocated && d->allocated->at_most);
    json_int(j, "t_ns", d->allocated ? d->allocated->t : UNKNOWN);
    json_int(j, "step", d->step_at_peak);
    json_text(j, "phase", d->phase_at_peak);
    json_int(j, "reserved_then_bytes", d->reserved_at_peak);
    json_int(j, "unused_then_bytes", d->unused_at_peak);
    report_away_json(d, j);
    report_fragmentation_json(d, j);
    json_int(j, "held_bytes", d->held_bytes);
    json_begin(j, "held", '[');
    for (size_t i = 0; i < d->held_count; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "category", d->held[i].category);
        json_text(j, "phase", d->held[i].phase);
        json_text(j, "library", d->held[i].owner);
        json_int(j, "size_bytes", d->held[i].bytes);
        json_int(j, "allocations", d->held[i].count);
        json_end(j);
    }
    json_end(j);
    lines_json(d, j);
    report_parts_json(d->live, d->live_count, j);
    json_end(j);
    report_unused_json(t, &d->unused, "not_allocated_at_peak", j);
    report_unused_json(t, d->unused_most.seq > 0 ? &d->unused_most : &d->unused,
                       "not_allocated_at_most_reserved", j);
    report_captures_json(t, d->unused_most.seq > 0 ? &d->unused_most : &d->unused, j);
}

static void totals_json(const struct trace *t, int64_t device, const char *name, struct json *j)
{
    json_begin(j, name, '[');
    for (size_t i = 0; i < t->peak_count; i++) {
        const struct trace_peak *p = &t->peaks[i];
        if (p->device != device)
            continue;
        json_begin(j, NULL, '{');
        json_text(j, "kind", p->kind);
        json_int(j, "peak_bytes", trace_peak_bytes(p));
        json_int(j, "known_bytes", p->bytes);
        json_int(j, "peak_t_ns", p->t);
        json_int(j, "end_bytes", p->end);
        json_bool(j, "peak_is_upper_bound", p->at_most);
        json_bool(j, "end_is_upper_bound", p->end_at_most);
        json_end(j);
    }
    json_end(j);
}

void report_json(const struct report *r, struct json *j)
{
    json_begin(j, NULL, '{');
    report_file_json(r->trace, j);
    ooms_json(r->trace, j);
    oom_report_json(&r->oom, r->trace, j);
    json_begin(j, "devices", '[');
    for (size_t i = 0; i < r->device_count; i++) {
        const struct device_report *d = &r->devices[i];
        json_begin(j, NULL, '{');
        json_int(j, "device", d->device);
        json_text(j, "name", d->name);
        json_text(j, "uuid", d->uuid);
        json_int(j, "total_bytes", d->own_bytes);
        json_int(j, "limit_bytes", d->total_bytes != d->own_bytes ? d->total_bytes : UNKNOWN);
        totals_json(r->trace, d->device, "totals", j);
        phases_json(r->trace, d->device, j);
        report_names_json(d, j);
        peak_json(r->trace, d, j);
        report_park_json(d, j);
        report_causes_json(d, j);
        report_pools_json(r->trace, d->device, j);
        report_arenas_json(r, d->device, j);
        report_growth_json(r->trace, &d->growth, j);
        report_savings_json(&d->savings, j);
        report_residual_json(d, j);
        json_end(j);
    }
    json_end(j);
    totals_json(r->trace, -1, "process_totals", j); /* totals that belong to no device */
    json_end(j);
}
