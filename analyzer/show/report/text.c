/*
 * text.c - the report for people: first what went wrong, then the run, then each device, from the most
 * frequent question (which phase peaked) to details.
 */
#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "parts.h"
#include "report.h"
#include "unused.h"
#include "base/page.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"

#define B(n) units_bytes(n, exact).s

void report_mark_text(const struct trace *t, FILE *out)
{
    char *line = trace_mark_line(t);
    if (line)
        wrap_print(out, 0, 2, "%s", line);
    free(line);
}

void report_dry_text(const struct trace *t, FILE *out)
{
    if (trace_dry(t))
        report_mark_text(t, out);
}

void report_header_text(const struct report *r, FILE *out, bool exact, bool full)
{
    const struct trace *t = r->trace;
    const struct trace_process *p = &t->process;
    if (t->end_line)
        fprintf(out, "%s\n", shown(t->end_line));
    oom_report_text(&r->oom, r->trace, out, exact, full);
    report_losses_text(r, out, true);
    report_mark_text(t, out);
    char *command = shown_cut(p->command ? p->command : "unknown", page_room() - 12);
    fprintf(out, "\n  command   %s\n  host      %s, %s", command, p->host ? shown(p->host) : "unknown",
            units_pid(p->pid).s);
    free(command);
    if (t->processes > 1)
        fprintf(out, " (process %lld of the file's %s)", (long long)p->id, t->process_names);
    if (p->rank != UNKNOWN)
        fprintf(out, ", rank %lld", (long long)p->rank);
    if (p->rank != UNKNOWN && p->world_size != UNKNOWN)
        fprintf(out, " of %lld", (long long)p->world_size);
    char *labels = trace_run_labels(t);
    if (labels)
        fprintf(out, "\n  labels    %s", shown(labels));
    free(labels);
    fprintf(out, "\n  started   %s\n", units_date(p->start_realtime_ns).s);
    fprintf(out, "  recorded  %s", units_time(t->t_last == UNKNOWN ? 0 : t->t_last).s);
    if (t->steps > 0)
        fprintf(out, ", %s", units_count(t->steps, "step").s);
    if (t->unfinished_step != UNKNOWN)
        fprintf(out, "%s a step without an end", t->steps > 0 ? " and" : ",");
    fprintf(out, ", %s (with ranges, steps, samples)\n", units_count(t->events, "event").s);
}

static void bound_cell(struct table *table, const struct trace *t, const struct trace_peak *p, bool exact)
{
    bool known = trace_peak_bytes(p) != UNKNOWN, lost = trace_has_loss(t, LOSS_EVENTS);
    table_cell(table, "%s%s", !known ? "" : p->at_most ? "≤ " : lost ? "≥ " : "", B(trace_peak_bytes(p)));
}

/* The phases of a device in the order that was asked for; the caller frees them. */
static const struct trace_phase **order_phases(const struct report *r, int64_t device, size_t *n)
{
    const struct trace_phase **order = NULL;
    const struct choice *c = r->choice;
    *n = 0;
    for (size_t i = 0; i < r->trace->phase_count; i++) {
        const struct trace_phase *p = &r->trace->phases[i];
        size_t at = *n;
        if (p->device != device)
            continue;
        *PUSH(order, *n) = p;
        for (; at > 0; at--) {
            const struct trace_phase *q = order[at - 1];
            bool before = choice_sorts(c, "peak")   ? p->allocated > q->allocated
                          : choice_sorts(c, "time") ? p->ns > q->ns
                          : choice_sorts(c, "name")
                              ? strcmp(p->name ? p->name : "", q->name ? q->name : "") < 0
                              : false;
            if (!before)
                break;
            order[at] = q;
        }
        order[at] = p;
    }
    return order;
}

static void phase_row(struct table *table, const struct trace_phase *p, const struct device_report *d,
                      bool exact)
{
    bool top = d->allocated && p->allocated == d->allocated->bytes;
    table_cell(table, "%s", p->name ? p->name : "unknown");
    if (p->ranges > 0)
        table_cell(table, "%lld", (long long)p->ranges);
    else
        table_cell(table, "-");
    table_cell(table, "%s", p->ns == UNKNOWN ? "-" : units_time(p->ns).s);
    table_cell(table, "%s%s", top ? "▸ " : "", B(p->allocated));
    table_cell(table, "%s", B(p->reserved));
    table_cell(table, "%s", B(p->end_allocated));
}

void report_words_text(const char *other, FILE *out)
{
    wrap_print(out, 2, 4, "reserved: asked of the driver and held; %s; more words: vramscope explain", other);
}

static void print_phases(const struct report *r, const struct device_report *d, FILE *out, bool exact)
{
    static const char *const header[] = {"phase",          "ranges",        "time",
                                         "peak allocated", "peak reserved", "allocated at end"};
    struct table table;
    size_t n;
    const struct trace_phase **phases = order_phases(r, d->device, &n);
    size_t shown_rows = choice_rows(r->choice, n, 0);
    table_init(&table, "<>>>>>", header);
    table_drops(&table, "-12-43");
    for (size_t i = 0; i < shown_rows; i++)
        phase_row(&table, phases[i], d, exact);
    if (shown_rows < n) {
        table_cell(&table, "%zu more", n - shown_rows);
        for (int i = 1; i < table.columns; i++)
            table_cell(&table, "%s", "");
    }
    free(phases);
    table_rule(&table);
    table_cell(&table, "whole run");
    table_cell(&table, "%s", "");
    table_cell(&table, "%s", units_time(r->trace->t_last).s);
    bound_cell(&table, r->trace, d->allocated, exact);
    bound_cell(&table, r->trace, d->reserved, exact);
    table_cell(&table, "%s%s", d->allocated && d->allocated->end_at_most ? "≤ " : "",
               d->allocated ? B(d->allocated->end) : "unknown");
    table_print(&table, out, 2);
    table_free(&table);
    if (d == r->devices)
        report_words_text("allocated: what of that is in use", out);
    report_unproven(r->trace, "phases", 2, out);
}

static void peak_row(struct table *t, const char *sign, const char *name, int64_t bytes, int64_t whole,
                     bool exact)
{
    table_cell(t, "%s", sign);
    table_cell(t, "%s", name);
    table_cell(t, "%s", B(bytes));
    table_cell(t, "%s", units_share(bytes, whole).s);
}

char *report_peak_where(const struct device_report *d)
{
    const char *phase = d->phase_at_peak;
    char *step =
        d->step_at_peak == UNKNOWN ? xstrdup("") : xformat(", step %lld", (long long)d->step_at_peak);
    char *text = phase && !strcmp(phase, "none")
                     ? xformat("%s%s, outside any phase", units_time(d->allocated->t).s, step)
                     : xformat("%s%s, in %s", units_time(d->allocated->t).s, step,
                               phase ? shown(phase) : "an unknown phase");
    free(step);
    return text;
}

bool report_has_blocks(const struct device_report *d)
{
    for (size_t i = 0; i < d->live_count; i++)
        if (d->live[i].category && !strcmp(d->live[i].category, "framework block"))
            return true;
    return false;
}

/* Without phases of a training no change of the program has an answer (edit/build.c). */
static bool has_training(const struct trace *t, int64_t device)
{
    static const char *const names[] = {"forward", "backward", "optimizer"};
    for (size_t i = 0; i < t->phase_count; i++)
        for (size_t j = 0; j < sizeof names / sizeof *names; j++)
            if (t->phases[i].device == device && t->phases[i].name && !strcmp(t->phases[i].name, names[j]))
                return true;
    return false;
}

static bool has_changes(const struct report *r, const struct device_report *d)
{
    return report_has_blocks(d) && has_training(r->trace, d->device);
}

/* Points to what changes of the program would make of the run: once, where the file has all of a framework's
 * blocks of a training.  An out-of-memory has its changes at the head of the report. */
static void print_changes(const struct report *r, const struct device_report *d, FILE *out)
{
    for (const struct device_report *before = r->devices; before < d; before++)
        if (has_changes(r, before))
            return;
    if (has_changes(r, d) && !r->oom.lead && !r->trace->thinned && !trace_has_loss(r->trace, LOSS_EVENTS))
        wrap_print(out, 4, 6, "what changes of the program would make of it: vramscope whatif %s",
                   shown_word(r->trace->path));
}

/* What was reserved and not allocated, at the peak and when most was reserved. */
static void print_unused(const struct report *r, const struct device_report *d, int least, FILE *out,
                         bool exact)
{
    char *most = xformat("at the most, at %s,", units_time(d->reserved ? d->reserved->t : UNKNOWN).s);
    report_unused_text(r->trace, &d->unused, "then", least, out, exact);
    report_unused_text(r->trace, &d->unused_most, most, least, out, exact);
    free(most);
    if (d->unused_left_out && d->reserved && trace_peak_bytes(d->reserved) > trace_peak_bytes(d->allocated))
        wrap_print(out, 4, 6, "up to %s were reserved: vramscope peak %s takes it apart",
                   B(d->reserved->bytes), shown_word(r->trace->path));
}

char *report_peak_words(const struct report *r, const struct device_report *d, bool exact)
{
    const char *bytes = B(d->allocated->bytes), *bound = d->allocated->at_most ? "at most " : "";
    if (d->allocated->at_least)
        return xformat("unknown; the most that is known to have been allocated: %s", bytes);
    if (!*bound && trace_has_loss(r->trace, LOSS_EVENTS))
        bound = "at least ";
    return xformat("%s%s allocated", bound, bytes);
}

char *report_nothing_words(const struct report *r, const struct device_report *d)
{
    if (d->allocated->bytes > 0 || d->held_count)
        return NULL;
    const char *what = d->unseen > 0                           ? "no call was seen that allocated"
                       : d->reserved && d->reserved->bytes > 0 ? "memory was reserved and nothing allocated"
                                                               : "nothing was ever allocated";
    return xformat("%s%s", what, d->unseen > 0 || trace_whole(r->trace) ? "" : ", as far as the file goes");
}

/* " (optimizer state, parked)"; "" where nobody knows. */
static char *away_words(const struct trace_away_part *parts, size_t n, bool exact)
{
    char *words = trace_away_words(parts, n, exact ? AWAY_EXACT : AWAY_BYTES),
         *all = n ? xformat(" (%s)", words) : xstrdup("");
    free(words);
    return all;
}

void report_away_text(const struct device_report *d, FILE *out, bool exact)
{
    if (d->away_most <= 0)
        return;
    bool more = d->away_most > d->away_at_peak;
    char *then = away_words(d->away_parts, d->away_part_count, exact),
         *of_most = more ? away_words(d->away_most_parts, d->away_most_count, exact) : xstrdup(""),
         *most = more ? xformat("; at most %s at any time", B(d->away_most)) : xstrdup("");
    wrap_print(out, 4, 6, "of %s allocated then %s were on the host%s%s%s", B(d->allocated->bytes),
               B(d->away_at_peak), then, most, strcmp(then, of_most) ? of_most : "");
    free(then);
    free(of_most);
    free(most);
}

/* Prints how high the peak was and why. */
static void print_peak(const struct report *r, const struct device_report *d, FILE *out, bool exact)
{
    if (!d->allocated)
        return;
    char *nothing = report_nothing_words(r, d);
    if (nothing) {
        fprintf(out, "  %s\n", nothing);
        free(nothing);
        print_unused(r, d, UNUSED_LARGE, out, exact);
        return;
    }
    char *where = report_peak_where(d), *words = report_peak_words(r, d, exact);
    wrap_print(out, 2, 4, "peak: %s at %s", words, where);
    free(words);
    free(where);
    report_away_text(d, out, exact);
    report_park_text(d, out, exact);
    report_parts_text(d->live, d->live_count, d->allocated->bytes, out, exact);
    report_code_text(r->trace, d->live, d->live_count, d->allocated->bytes, d->device, UNKNOWN, out, exact);
    report_leak_text(r->trace, &d->growth, out, exact); /* first: every later step is higher for it */
    report_causes_text(d, out, exact);
    print_unused(r, d, UNUSED_LARGE, out, exact);
    report_growth_unknown_text(&d->growth, out);
}

/* Prints the composition of the peak. */
static void print_composition(const struct report *r, const struct device_report *d, FILE *out, bool exact,
                              bool full)
{
    struct table table;
    if (!d->allocated || (d->allocated->bytes == 0 && d->held_count == 0))
        return;
    bool away = d->away_at_peak > 0; /* then reserved may be less */
    int64_t whole = d->reserved_at_peak == UNKNOWN || away ? d->allocated->bytes : d->reserved_at_peak;
    fputs("\n  the peak was made of\n", out);
    table_init(&table, "<<>>", NULL);
    for (size_t i = 0; i < d->held_count; i++) {
        char *name = report_holder_name(&d->held[i]);
        peak_row(&table, "", name, d->held[i].bytes, whole, exact);
        free(name);
    }
    if (d->held_bytes != d->allocated->bytes)
        peak_row(&table, "", "not in the file (unknown)", d->allocated->bytes - d->held_bytes, whole, exact);
    bool least = d->allocated->at_least;
    peak_row(&table, "=", least ? "known to be allocated" : "allocated", d->allocated->bytes, whole, exact);
    if (away)
        peak_row(&table, "-", "on the host then", d->away_at_peak, whole, exact);
    peak_row(&table, "+", least ? "reserved, its use unknown or unused then" : "reserved, not allocated then",
             d->reserved_at_peak == UNKNOWN ? UNKNOWN
                                            : d->reserved_at_peak + d->away_at_peak - d->allocated->bytes,
             whole, exact);
    peak_row(&table, "=", "reserved then", d->reserved_at_peak, whole, exact);
    table_print(&table, out, 4);
    table_free(&table);
    report_fragmentation_text(d, out);
    if (full)
        print_unused(r, d, UNUSED_ALL, out, exact);
    fprintf(out, "    by line, layer, role and call stack: vramscope peak %s\n", shown_word(r->trace->path));
}

static void print_host(const struct report *r, FILE *out, bool exact)
{
    static const char *const kinds[][2] = {
        {"pinned", "pinned"}, {"registered", "registered"}, {"managed", "managed"}, {"host_vmm", "host VMM"}};
    int64_t rss = UNKNOWN;
    for (size_t i = 0; i < r->device_count; i++)
        rss = r->devices[i].residual.rss > rss ? r->devices[i].residual.rss : rss;
    fprintf(out, "\nhost: peak RSS %s", B(rss));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int64_t most = UNKNOWN;
        for (size_t k = 0; k < r->trace->peak_count; k++) {
            const struct trace_peak *p = &r->trace->peaks[k];
            if (p->kind && !strcmp(p->kind, kinds[i][0]) && p->bytes > 0)
                most = (most == UNKNOWN ? 0 : most) + p->bytes;
        }
        if (most != UNKNOWN)
            fprintf(out, ", peak %s %s", kinds[i][1], B(most));
    }
    fputc('\n', out);
    for (size_t k = 0; k < r->trace->peak_count; k++)
        if (r->trace->peaks[k].kind && !strcmp(r->trace->peaks[k].kind, "imported") &&
            r->trace->peaks[k].bytes > 0)
            wrap_print(
                out, 0, 2,
                "imported: up to %s of other processes' or interfaces' memory were open here, in no total "
                "of this process",
                B(r->trace->peaks[k].bytes));
}

void report_text(const struct report *r, FILE *out, bool exact, bool full)
{
    report_header_text(r, out, exact, full);
    for (size_t i = 0; i < r->device_count; i++) {
        const struct device_report *d = &r->devices[i];
        fprintf(out, "\ndevice %lld: %s", (long long)d->device, d->name ? shown(d->name) : "unknown name");
        if (d->own_bytes != UNKNOWN)
            fprintf(out, ", %s", B(d->own_bytes));
        if (d->total_bytes != d->own_bytes)
            fprintf(out, ", limited to %s", B(d->total_bytes));
        fputc('\n', out);
        print_peak(r, d, out, exact);
        print_changes(r, d, out);
        fputc('\n', out);
        print_phases(r, d, out, exact);
        report_pools_text(r->trace, d->device, out, exact);
        report_names_text(d, out, exact);
        print_composition(r, d, out, exact, full);
        report_arenas_text(r, d->device, out, exact);
        report_growth_text(r->trace, &d->growth, out, exact, full);
        report_savings_text(&d->savings, out, exact);
        report_residual_text(d, out, exact);
    }
    if (!r->device_count)
        fprintf(out, "\n%s\n", trace_no_device(r->trace));
    else
        print_host(r, out, exact);
}
