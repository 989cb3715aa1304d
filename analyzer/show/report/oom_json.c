/* oom_json.c - an out-of-memory as members of a report's JSON (oom.h). */
#include "oom.h"

#include <stdlib.h>

#include "parts.h"
#include "report.h"
#include "unused.h"
#include "read/stacks.h"

static void need_json(const struct oom_report *r, struct json *j)
{
    const struct oom_need *n = &r->need;
    int64_t largest;
    json_text(j, "cause", oom_cause_name(n->cause));
    json_int(j, "short_by_bytes", n->short_by);
    json_int(j, "missing_even_with_unused_bytes", n->missing);
    json_int(j, "framework_unused_bytes", n->unused);
    json_int(j, "framework_unused_pieces", unused_pieces(&r->unused, &largest));
    json_int(j, "framework_largest_unused_bytes", largest);
    json_int(j, "usable_cached_bytes", n->usable);
    json_int(j, "own_limit_bytes", r->unused.limit ? r->unused.limit : UNKNOWN);
    json_int(j, "beyond_own_limit_bytes", r->unused.beyond_limit ? r->unused.beyond_limit : UNKNOWN);
    json_bool(j, "expandable_segments", r->unused.expandable);
    json_int(j, "given_back_bytes", n->returned);
    json_int(j, "residual_bytes", n->residual);
    json_int(j, "other_processes_bytes", n->others);
    json_int(j, "residual_and_other_processes_bytes", n->beyond);
}

static void kept_json(const struct trace_oom_kept *o, struct trace *t, struct json *j)
{
    json_int(j, "seq", o->seq);
    json_int(j, "t_ns", o->t);
    json_int(j, "device", o->device);
    json_int(j, "step", o->step);
    json_text(j, "phase", o->phase);
    json_text(j, "thread", o->thread_name);
    json_text(j, "asked_by", o->owner);
    json_text(j, "line", o->stack > 0 ? trace_line(t, o->stack) : NULL);
    json_int(j, "stack", o->stack);
    json_bool(j, "framework", o->op == OOM_FRAMEWORK);
    json_text(j, "api", o->api);
    json_text(j, "space", o->space);
    json_int(j, "requested_bytes", o->requested);
    json_text(j, "made_for", o->made_for);
    json_text(j, "element_type", o->element_type);
    json_text(j, "shape", o->shape);
    json_int(j, "request_bytes", o->tensor_bytes);
    json_int(j, "asked_driver_bytes", o->asked_driver);
    json_int(j, "driver_refusals", o->refusals);
    json_int(j, "framework_bytes", o->framework);
    json_int(j, "direct_bytes", o->direct);
    json_int(j, "managed_reserved_bytes", o->managed);
    json_int(j, "unknown_use_bytes", o->unknown_use);
    json_int(j, "reserved_bytes", o->reserved);
    json_int(j, "pinned_bytes", o->pinned);
    json_int(j, "registered_bytes", o->registered);
    json_int(j, "driver_free_bytes", o->free);
    json_int(j, "driver_free_t_ns", o->free == UNKNOWN ? UNKNOWN : o->free_t);
}

static void live_json(const struct oom_report *r, struct json *j)
{
    size_t n;
    struct holder *held = holders_composition(r->live, r->live_count, &n);
    json_int(j, "held_bytes", r->live_bytes);
    json_begin(j, "held", '[');
    for (size_t i = 0; i < n; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "category", held[i].category);
        json_text(j, "phase", held[i].phase);
        json_text(j, "library", held[i].owner);
        json_int(j, "size_bytes", held[i].bytes);
        json_int(j, "allocations", held[i].count);
        json_end(j);
    }
    json_end(j);
    report_parts_json(r->live, r->live_count, j);
    free(held);
}

void oom_report_json(const struct oom_report *r, struct trace *t, struct json *j)
{
    json_int(j, "driver_refused_absorbed_count", r->absorbed);
    json_int(j, "driver_refused_then_reported_count", r->then_reported);
    if (!r->lead)
        return;
    json_begin(j, "out_of_memory", '{');
    kept_json(r->lead, t, j);
    need_json(r, j);
    json_int(j, "total_bytes", r->total_bytes);
    json_int(j, "steps_after", r->steps_after);
    json_int(j, "ends_after_ns", oom_report_ends_after(r));
    live_json(r, j);
    report_unused_json(t, &r->unused, "not_allocated", j);
    json_end(j);
}
