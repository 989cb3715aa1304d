/* json.c - two runs for programs (see vramscope-diff(1)). */
#include "diff.h"
#include "trace/roles.h"

static void figure_json(struct json *j, const char *name, int64_t a, int64_t b)
{
    json_begin(j, name, '{');
    json_int(j, "a", a);
    json_int(j, "b", b);
    json_int(j, "change", compare_change(a, b));
    json_end(j);
}

static void phases_json(const struct diff *d, const struct diff_device *x, struct json *j)
{
    static const char *const names[] = {"peak_allocated_bytes", "peak_reserved_bytes", "ranges",
                                        "time_per_range_ns", "allocations"};
    struct comparison c[5];
    for (int i = 0; i < 5; i++)
        c[i] = diff_phases(d, x, (enum diff_figure)i);
    json_begin(j, "phases", '[');
    for (size_t k = 0; k < c[0].count; k++) {
        json_begin(j, NULL, '{');
        json_text(j, "phase", c[0].rows[k].name);
        for (int i = 0; i < 5; i++)
            figure_json(j, names[i], c[i].rows[k].value[0], c[i].rows[k].value[1]);
        json_end(j);
    }
    json_end(j);
    for (int i = 0; i < 5; i++)
        compare_free(&c[i]);
}

static void moment_json(const struct device_report *r, const char *name, struct json *j)
{
    json_begin(j, name, '{');
    json_int(j, "t_ns", r && r->allocated ? r->allocated->t : UNKNOWN);
    json_int(j, "step", r ? r->step_at_peak : UNKNOWN);
    json_text(j, "phase", r ? r->phase_at_peak : NULL);
    json_end(j);
}

static int64_t reserved_then(const struct device_report *r)
{
    return r ? r->reserved_at_peak : UNKNOWN;
}

static int64_t static_then(const struct device_report *r)
{
    return r && r->savings.known ? r->savings.static_bytes - r->savings.left_bytes : UNKNOWN;
}

static int64_t residual_of_fullest(const struct device_report *r)
{
    return r && r->residual.known ? r->residual.fullest.residual : UNKNOWN;
}

static void rows_json(struct comparison c, const char *list, const char *what, struct json *j)
{
    json_begin(j, list, '[');
    for (size_t i = 0; i < c.count; i++) {
        const int64_t *v = c.rows[i].value;
        json_begin(j, NULL, '{');
        json_text(j, what, c.rows[i].name);
        if (!strcmp(what, "role"))
            json_text(j, "old_role", vs_role_before(c.rows[i].name));
        figure_json(j, "size_bytes", v[0] == UNKNOWN ? 0 : v[0], v[1] == UNKNOWN ? 0 : v[1]);
        json_end(j);
    }
    json_end(j);
    compare_free(&c);
}

static void device_json(const struct diff *d, const struct diff_device *x, struct json *j)
{
    const struct device_report *a = x->side[SIDE_A], *b = x->side[SIDE_B];
    json_begin(j, NULL, '{');
    json_int(j, "a_device", a ? a->device : UNKNOWN);
    json_int(j, "b_device", b ? b->device : UNKNOWN);
    figure_json(j, "peak_allocated_bytes", diff_whole(d, x, SIDE_A, DIFF_ALLOCATED),
                diff_whole(d, x, SIDE_B, DIFF_ALLOCATED));
    figure_json(j, "peak_reserved_bytes", diff_whole(d, x, SIDE_A, DIFF_RESERVED),
                diff_whole(d, x, SIDE_B, DIFF_RESERVED));
    figure_json(j, "reserved_then_bytes", reserved_then(a), reserved_then(b));
    figure_json(j, "static_bytes", static_then(a), static_then(b));
    figure_json(j, "residual_bytes", residual_of_fullest(a), residual_of_fullest(b));
    figure_json(j, "allocations", diff_whole(d, x, SIDE_A, DIFF_ALLOCATIONS),
                diff_whole(d, x, SIDE_B, DIFF_ALLOCATIONS));
    moment_json(a, "a_peak", j);
    moment_json(b, "b_peak", j);
    rows_json(diff_parts(x, MOVED_ROLE), "roles", "role", j);
    rows_json(diff_parts(x, MOVED_LAYER), "layers", "layer", j);
    rows_json(diff_held(x), "held", "holder", j);
    rows_json(diff_lines(x), "lines", "line", j);
    phases_json(d, x, j);
    json_end(j);
}

static void side_json(const struct diff_side *s, const char *name, struct json *j)
{
    json_begin(j, name, '{');
    report_file_json(&s->trace, j);
    json_begin(j, "files", '[');
    for (size_t i = 0; i < s->file_count; i++)
        json_text(j, NULL, s->files[i].path);
    json_end(j);
    json_end(j);
}

void diff_json(const struct diff *d, struct json *j)
{
    side_json(&d->side[SIDE_A], "a", j);
    side_json(&d->side[SIDE_B], "b", j);
    json_begin(j, "notes", '[');
    for (size_t i = 0; i < d->note_count; i++)
        json_text(j, NULL, d->notes[i]);
    json_end(j);
    json_begin(j, "devices", '[');
    for (size_t i = 0; i < d->device_count; i++)
        device_json(d, &d->devices[i], j);
    json_end(j);
}
