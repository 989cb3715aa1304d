/* load.c - loads the two operands and matches their devices; see diff.h. */
#include <stdlib.h>
#include <string.h>

#include "diff.h"
#include "base/destination.h"
#include "base/units.h"
#include "read/living.h"
#include "read/tables.h"

/* ---- a side ---- */

static int open_shown(struct diff_side *s, const char *path)
{
    if (relabel_open(&s->trace, path, s->relabel))
        return complain("%s", s->trace.why);
    s->open = true;
    s->trace.only_device = s->device;
    if (report_load(&s->report, &s->trace, REPORT_ALL & ~(REPORT_UNUSED | REPORT_RANGES | REPORT_REFUSAL)) ||
        trace_allocations(&s->trace, &s->allocations, &s->allocation_count))
        return complain("%s", s->trace.why);
    return 0;
}

/* The part of one of a job's files that the page needs. */
static int add_file(struct diff_side *s, char *const *files, size_t n, size_t i)
{
    struct trace t;
    struct report r;
    if (relabel_open(&t, files[i], s->relabel))
        return complain("%s", t.why);
    t.label = trace_label(files, n, i);
    t.only_device = s->device;
    int status = report_load(&r, &t, REPORT_RESIDUAL) ? complain("%s", t.why) : 0;
    if (!status)
        *PUSH(s->files, s->file_count) = ranks_file_of(&r);
    report_free(&r);
    trace_close(&t);
    return status;
}

static const struct rank_file *highest(const struct rank_job *job)
{
    struct rank_span top = ranks_span(job, FIGURE_ALLOCATED);
    if (!top.n || top.most <= 0)
        top = ranks_span(job, FIGURE_RESERVED);
    return top.file ? top.file : job->files[0];
}

static int load_job(struct diff_side *s, const char *operand, char *const *files, size_t n)
{
    size_t jobs = 0;
    int status = 0;
    for (size_t i = 0; !status && i < n; i++)
        status = add_file(s, files, n, i);
    if (status)
        return status;
    s->job = ranks_jobs(s->files, s->file_count, &jobs);
    if (jobs != 1) {
        ranks_free_jobs(s->job, jobs);
        s->job = NULL;
        return complain("diff: %s holds the files of %zu jobs: give the files of one (vramscope report %s "
                        "tells them apart)",
                        operand, jobs, operand);
    }
    s->shown = highest(s->job);
    return open_shown(s, s->shown->path);
}

static int load_side(struct diff_side *s, const char *operand)
{
    char why[512];
    size_t n;
    char *paths[] = {(char *)operand};
    char **files = trace_files(paths, 1, &n, why, sizeof why);
    if (!files || (!s->relabel->process && trace_spread(&files, &n, why, sizeof why)))
        return complain("%s", why);
    int status = n > 1 ? load_job(s, operand, files, n) : open_shown(s, files[0]);
    if (!status && n == 1) {
        *PUSH(s->files, s->file_count) = ranks_file_of(&s->report);
        s->shown = s->files;
    }
    trace_free_files(files, n);
    return status;
}

/* ---- notes ---- */

static void note(struct diff *d, char *text)
{
    *PUSH(d->notes, d->note_count) = text;
}

static const char letters[] = "AB";

static void note_folded(struct diff *d)
{
    for (int i = 0; i < 2; i++)
        if (d->side[i].trace.thinned)
            note(d, xformat(
                        "%c: some events are not there one by one (VRAMSCOPE_MAX_BYTES): its allocations are "
                        "not counted",
                        letters[i]));
}

static void note_states(struct diff *d)
{
    for (int i = 0; i < 2; i++) {
        const struct diff_side *s = &d->side[i];
        if (strcmp(s->shown->state, RANK_COMPLETE) != 0)
            note(d, xformat("%c: %s%s", letters[i], s->shown->state,
                            s->shown->whole        ? ""
                            : s->trace.bound_count ? ": its peaks may have been higher or lower"
                                                   : ": its peaks may have been higher"));
        if (!s->report.device_count)
            note(d, xformat("%c: %s", letters[i], trace_no_device(&s->trace)));
    }
}

/* Dry runs may stand for different GPUs, and end after different numbers of steps. */
static void note_marks(struct diff *d, char *a, char *b)
{
    if (!strcmp(a, b)) {
        note(d, xstrdup(a));
    } else {
        note(d, xformat("A: %s", a));
        note(d, xformat("B: %s", b));
    }
    free(a);
    free(b);
}

static void note_drivers(struct diff *d)
{
    const struct trace *a = &d->side[SIDE_A].trace, *b = &d->side[SIDE_B].trace;
    const char *of_a = trace_mark(a), *of_b = trace_mark(b);
    if (of_a && of_b && !strcmp(of_a, of_b))
        note_marks(d, trace_mark_line(a), trace_mark_line(b));
    else if ((of_a || of_b) && !trace_dry(a) && !trace_dry(b))
        note(d,
             xformat("%c ran on the simulated driver, the other on a GPU: times and residual do not compare",
                     of_a ? 'A' : 'B'));
    else if (of_a || of_b)
        note(d, xformat("A: %s; B: %s: times and residual do not compare, what is allocated and reserved "
                        "does",
                        of_a ? of_a : "on a GPU", of_b ? of_b : "on a GPU"));
}

/* Without uses there is no activation, logits or temporary, and as many bytes would seem to come or go. */
static void note_followed(struct diff *d)
{
    const struct trace *one = &d->side[SIDE_A].trace, *other = &d->side[SIDE_B].trace;
    bool a = trace_follows(&d->side[SIDE_A].trace), b = trace_follows(&d->side[SIDE_B].trace);
    if (a != b && !(a ? other : one)->found_roles)
        note(d,
             xformat("%c was recorded with --access, the other was not: roles are compared as PyTorch says "
                     "them, and the rest by the phase that made it",
                     a ? 'A' : 'B'));
}

/* Another allocator changes reserved much and allocated hardly, so the reader must know of it first. */
static void note_arenas(struct diff *d)
{
    bool a = d->side[SIDE_A].report.arena_count > 0, b = d->side[SIDE_B].report.arena_count > 0;
    if (a != b)
        note(d,
             xformat("%c ran on vramscope's arena, the other did not: look at peak reserved", a ? 'A' : 'B'));
}

/* With a leak, comparing peaks of different steps means comparing the lengths of the runs. */
static void note_growth(struct diff *d)
{
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < d->side[i].report.device_count; k++) {
            const struct device_report *r = &d->side[i].report.devices[k];
            if (r->growth.count) {
                char *leak = report_leak_words(&d->side[i].trace, &r->growth, false);
                note(d, xformat("%c leaks on device %lld, %s: its peak depends on how long it ran",
                                letters[i], (long long)r->device, leak));
                free(leak);
            }
        }
}

static void note_jobs(struct diff *d)
{
    size_t a = d->side[SIDE_A].file_count, b = d->side[SIDE_B].file_count;
    if (a != b)
        note(d, xformat("A has %s, B %s: the highest of each is compared", units_count((int64_t)a, "file").s,
                        units_count((int64_t)b, "file").s));
}

static bool same_model(const struct diff_device *x)
{
    const char *a = x->side[SIDE_A]->name, *b = x->side[SIDE_B]->name;
    return !a || !b || !strcmp(a, b);
}

static void note_devices(struct diff *d)
{
    for (size_t i = 0; i < d->device_count; i++) {
        const struct diff_device *x = &d->devices[i];
        const struct device_report *a = x->side[SIDE_A], *b = x->side[SIDE_B];
        if (!a || !b) {
            note(d, xformat("device %lld is used in %c only: nothing to compare it with",
                            (long long)(a ? a : b)->device, a ? 'A' : 'B'));
            continue;
        }
        if (a->device != b->device)
            note(d, xformat("A's device %lld stands beside B's device %lld: each has no other",
                            (long long)a->device, (long long)b->device));
        if (!same_model(x))
            note(d, xformat("A ran on %s, B on %s", a->name, b->name));
    }
}

/* ---- both ---- */

static const struct device_report *device_of(const struct diff_side *s, int64_t device)
{
    for (size_t i = 0; device != UNKNOWN && i < s->report.device_count; i++)
        if (s->report.devices[i].device == device)
            return &s->report.devices[i];
    return NULL;
}

static int64_t *device_numbers(const struct diff_side *s)
{
    int64_t *numbers = xrealloc(NULL, s->report.device_count * sizeof *numbers);
    for (size_t i = 0; i < s->report.device_count; i++)
        numbers[i] = s->report.devices[i].device;
    return numbers;
}

static void pair_devices(struct diff *d)
{
    struct diff_side *a = &d->side[SIDE_A], *b = &d->side[SIDE_B];
    int64_t *of_a = device_numbers(a), *of_b = device_numbers(b);
    size_t n;
    struct compared_devices *pairs =
        compare_devices(of_a, a->report.device_count, of_b, b->report.device_count, &n);
    for (size_t i = 0; i < n; i++)
        *PUSH(d->devices, d->device_count) =
            (struct diff_device){{device_of(a, pairs[i].a), device_of(b, pairs[i].b)}};
    free(pairs);
    free(of_a);
    free(of_b);
}

/* What lived in one run, by roles that the other can have. */
static int live_beside(struct diff *d, int side)
{
    struct diff_side *s = &d->side[side];
    struct trace *other = &d->side[side == SIDE_A ? SIDE_B : SIDE_A].trace;
    if (!trace_follows(&s->trace) || trace_follows(other))
        return 0;
    for (size_t i = 0; i < s->report.device_count; i++) {
        struct device_report *r = &s->report.devices[i];
        free(r->live);
        if (trace_live_beside(&s->trace, other, r->device, &r->live, &r->live_count))
            return complain("%s", s->trace.why);
    }
    return 0;
}

int diff_load(struct diff *d, const char *a, const char *b, const struct relabel *relabel,
              const struct choice *choice)
{
    *d = (struct diff){.side = {{.relabel = relabel, .device = choice->device},
                                {.relabel = relabel, .device = choice->device}},
                       .choice = choice};
    if (same_file(a, b))
        return complain("diff: %s and %s are the same file: give two runs", a, b);
    if (load_side(&d->side[SIDE_A], a) || load_side(&d->side[SIDE_B], b))
        return 2;
    if (same_file(d->side[SIDE_A].trace.path, d->side[SIDE_B].trace.path))
        return complain("diff: %s is on both sides: give two runs", d->side[SIDE_A].trace.path);
    if (live_beside(d, SIDE_A) || live_beside(d, SIDE_B))
        return 2;
    pair_devices(d);
    note_states(d);
    note_folded(d);
    note_drivers(d);
    note_followed(d);
    note_arenas(d);
    note_growth(d);
    note_jobs(d);
    note_devices(d);
    return 0;
}

static bool side_whole(const struct diff_side *s)
{
    return s->job ? ranks_whole(s->job) : trace_whole(&s->trace);
}

bool diff_is_whole(const struct diff *d)
{
    return side_whole(&d->side[SIDE_A]) && side_whole(&d->side[SIDE_B]);
}

static void free_side(struct diff_side *s)
{
    for (size_t i = 0; i < s->file_count; i++)
        ranks_free_file(&s->files[i]);
    free(s->files);
    free(s->allocations);
    ranks_free_jobs(s->job, s->job ? 1 : 0);
    if (s->open) {
        report_free(&s->report);
        trace_close(&s->trace);
    }
}

void diff_free(struct diff *d)
{
    free_side(&d->side[SIDE_A]);
    free_side(&d->side[SIDE_B]);
    for (size_t i = 0; i < d->note_count; i++)
        free(d->notes[i]);
    free(d->notes);
    free(d->devices);
}
