/*
 * report_text.c - the report as people read it: what went wrong first, then what the run was, then each
 * device from the question asked most (which phase peaked) to the details (who held it, what the driver uses
 * beyond).
 */
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "table.h"
#include "units.h"

#define B(n)       units_bytes(n, exact).s
#define OOMS_SHOWN 3                   /* of each kind: more would push the answer off the first screen */
#define ROUNDING   (INT64_C(32) << 20) /* a framework asks the driver for this much more at most */

/* The live set at the peak is the best witness of who held the bytes, where the peak is about that high. */
static void print_witness(const struct report *r, const struct trace_oom *o, FILE *out, bool exact)
{
    const struct trace_peak *peak = trace_find_peak(r->trace, o->device, "allocated");
    int64_t held = o->framework + o->direct;
    if (peak && peak->bytes > 0 && held >= peak->bytes - peak->bytes / 20)
        fprintf(out, "; who held them: the peak of device %lld below (%s)\n", (long long)o->device,
                B(peak->bytes));
    else if (peak)
        fprintf(out, "; %s below the peak\n", B(peak->bytes - held));
    else
        fputc('\n', out);
}

/* What the framework had of the driver, and why that did not help. */
static void print_reserved(const struct report *r, const struct trace_oom *o, FILE *out, bool exact)
{
    const struct trace_device *device = trace_find_device(r->trace, o->device);
    int64_t total = device ? device->total_bytes : UNKNOWN, unused = o->reserved - o->framework - o->direct;
    fprintf(out, "    reserved then   %s", B(o->reserved));
    if (total != UNKNOWN)
        fprintf(out, " of the device's %s", B(total));
    if (o->framework > 0 && unused >= 0)
        fprintf(out, "; %s of it unused", B(unused));
    fputc('\n', out);
    if (total != UNKNOWN && o->size > total)
        fprintf(out, "    the device could never have held it: the request alone is larger\n");
    else if (!o->driver && o->framework > 0 && unused >= o->size)
        fprintf(out, "    fragmentation: enough was unused, but in no piece that the request could take\n");
    else if (total != UNKNOWN && o->size + ROUNDING <= total - o->reserved)
        fprintf(out,
                "    it would have fitted beside what was reserved: the residual or other processes held "
                "the rest of the device, or a limit was set\n");
}

static void print_oom(const struct report *r, const struct trace_oom *o, FILE *out, bool exact)
{
    int64_t step = trace_step_at(r->trace, o->t);
    bool phase = o->phase && strcmp(o->phase, "none") != 0;
    fprintf(out, "  device %lld at %s", (long long)o->device, units_time(o->t).s);
    if (step != UNKNOWN)
        fprintf(out, ", step %lld", (long long)step);
    fprintf(out, ", %s%s: asked for %s\n", phase ? "in " : "outside any phase", phase ? o->phase : "",
            B(o->size));
    fprintf(out, "    allocated then  %s (%s framework, %s direct)", B(o->framework + o->direct),
            B(o->framework), B(o->direct));
    print_witness(r, o, out, exact);
    print_reserved(r, o, out, exact);
}

static void print_oom_list(const struct report *r, bool driver, int64_t total, FILE *out, bool exact)
{
    const struct trace *t = r->trace;
    int64_t shown = 0;
    for (size_t i = 0; i < t->oom_count && shown < OOMS_SHOWN; i++) {
        if (t->ooms[i].driver != driver)
            continue;
        print_oom(r, &t->ooms[i], out, exact);
        shown++;
    }
    if (total > shown)
        fprintf(out, "  and %lld more: report --json has the first %d\n", (long long)(total - shown),
                TRACE_OOMS);
}

static void print_ooms(const struct report *r, FILE *out, bool exact)
{
    const struct trace *t = r->trace;
    if (t->oom_total > 0) {
        fprintf(out, "OUT OF MEMORY: %s failed\n", units_count(t->oom_total, "framework allocation").s);
        print_oom_list(r, false, t->oom_total, out, exact);
    }
    if (t->refused_total > 0) {
        fprintf(out, "%s: the driver refused %s%s\n", t->oom_total > 0 ? "and before" : "OUT OF MEMORY",
                units_count(t->refused_total, "allocation").s,
                t->oom_total > 0 || t->reports > 0
                    ? "; a framework frees what it caches then, and tries again"
                    : "");
        print_oom_list(r, true, t->refused_total, out, exact);
    }
    if (t->oom_total > 0 || t->refused_total > 0)
        fputc('\n', out);
}

static void print_complete(const struct trace *t, FILE *out)
{
    if (t->loss_count)
        return;
    fprintf(out, "complete: no events lost");
    if (t->reports == UNKNOWN || t->reports == 0)
        fprintf(out, "; no framework reported its totals");
    else if (t->reports_mismatched <= 0 && !t->mismatch_count)
        fprintf(out, "; our totals equal the framework's in all %s", units_count(t->reports, "report").s);
    fputc('\n', out);
}

static void print_losses(const struct report *r, FILE *out)
{
    const struct trace *t = r->trace;
    for (size_t i = 0; i < t->loss_count; i++) {
        const struct trace_loss *l = &t->losses[i];
        if (l->events > 0)
            fprintf(out, "LOST: %s from %s on: %s\n", units_count(l->events, "event").s,
                    units_time(l->t_first).s, l->why ? l->why : "unknown");
        else
            fprintf(out, "NOTE: from %s on: %s\n", units_time(l->t_first).s, l->why ? l->why : "unknown");
    }
    for (size_t i = 0; i < t->mismatch_count; i++) {
        const struct trace_mismatch *m = &t->mismatches[i];
        fprintf(out,
                "MISMATCH: %s of device %lld disagrees with the framework's own total %s; first at %s: ours "
                "%s bytes, theirs %s\n",
                m->what ? m->what : "a total", (long long)m->device, units_count(m->rows, "time").s,
                units_time(m->t_first).s, units_bytes(m->ours, true).s, units_bytes(m->theirs, true).s);
    }
    print_complete(t, out);
    if (t->thinned)
        fprintf(out, "thinned: VRAMSCOPE_MAX_BYTES was reached; from there on single framework events are "
                     "not in the file, peaks are\n");
    if (t->running)
        fprintf(out, "still running: pid %lld; the report shows what is written so far\n",
                (long long)t->process.pid);
    else if (t->recovered)
        fprintf(out, "recovered: %s merged from the journal that the killed process left\n",
                units_count(t->recovered, "event").s);
    else if (!t->clean_end)
        fprintf(out, "the process did not end in good order; everything up to its end is here\n");
}

void report_header_text(const struct report *r, FILE *out, bool exact)
{
    const struct trace *t = r->trace;
    const struct trace_process *p = &t->process;
    print_ooms(r, out, exact);
    print_losses(r, out);
    if (p->simulated)
        fprintf(out, "simulated driver: no GPU was involved\n");
    fprintf(out, "\n  command   %s\n  host      %s, pid %lld", p->command ? p->command : "unknown",
            p->host ? p->host : "unknown", p->pid == UNKNOWN ? -1 : (long long)p->pid);
    if (p->rank != UNKNOWN)
        fprintf(out, ", rank %lld", (long long)p->rank);
    if (p->rank != UNKNOWN && p->world_size != UNKNOWN)
        fprintf(out, " of %lld", (long long)p->world_size);
    fprintf(out, "\n  started   %s\n", units_date(p->start_realtime_ns).s);
    fprintf(out, "  recorded  %s", units_time(t->t_last == UNKNOWN ? 0 : t->t_last).s);
    if (t->steps > 0)
        fprintf(out, ", %s", units_count(t->steps, "step").s);
    fprintf(out, ", %s\n", units_count(t->events, "event").s);
}

static void print_phases(const struct report *r, const struct device_report *d, FILE *out, bool exact)
{
    static const char *const header[] = {"phase",          "ranges",        "time",
                                         "peak allocated", "peak reserved", "allocated at end"};
    struct table table;
    table_init(&table, "<>>>>>", header);
    for (size_t i = 0; i < r->trace->phase_count; i++) {
        const struct trace_phase *p = &r->trace->phases[i];
        if (p->device != d->device)
            continue;
        bool top = d->allocated && p->allocated == d->allocated->bytes;
        table_cell(&table, "%s", p->name ? p->name : "unknown");
        if (p->ranges > 0)
            table_cell(&table, "%lld", (long long)p->ranges);
        else
            table_cell(&table, "-");
        table_cell(&table, "%s", p->ns == UNKNOWN ? "-" : units_time(p->ns).s);
        table_cell(&table, "%s%s", top ? "▸ " : "", B(p->allocated));
        table_cell(&table, "%s", B(p->reserved));
        table_cell(&table, "%s", B(p->end_allocated));
    }
    table_rule(&table);
    table_cell(&table, "whole run");
    table_cell(&table, "%s", "");
    table_cell(&table, "%s", units_time(r->trace->t_last).s);
    table_cell(&table, "%s", d->allocated ? B(d->allocated->bytes) : "unknown");
    table_cell(&table, "%s", d->reserved ? B(d->reserved->bytes) : "unknown");
    table_cell(&table, "%s", d->allocated ? B(d->allocated->end) : "unknown");
    table_print(&table, out, 2);
    table_free(&table);
}

static void peak_row(struct table *t, const char *sign, const char *name, int64_t bytes, int64_t whole,
                     bool exact)
{
    table_cell(t, "%s", sign);
    table_cell(t, "%s", name);
    table_cell(t, "%s", B(bytes));
    table_cell(t, "%s", units_share(bytes, whole).s);
}

static void print_where(const char *phase, FILE *out)
{
    if (phase && !strcmp(phase, "none"))
        fputs(", outside any phase", out);
    else
        fprintf(out, ", in %s", phase ? phase : "an unknown phase");
}

static void print_peak(const struct report *r, const struct device_report *d, FILE *out, bool exact)
{
    struct table table;
    if (!d->allocated)
        return;
    fprintf(out, "\n  peak: %s allocated at %s", B(d->allocated->bytes), units_time(d->allocated->t).s);
    if (d->step_at_peak != UNKNOWN)
        fprintf(out, ", step %lld", (long long)d->step_at_peak);
    print_where(d->phase_at_peak, out);
    fputs(", made of\n", out);
    int64_t whole = d->reserved_at_peak == UNKNOWN ? d->allocated->bytes : d->reserved_at_peak;
    table_init(&table, "<<>>", NULL);
    for (size_t i = 0; i < d->held_count; i++) {
        char *name = report_holder_name(&d->held[i]);
        peak_row(&table, "", name, d->held[i].bytes, whole, exact);
        free(name);
    }
    if (d->held_bytes != d->allocated->bytes)
        peak_row(&table, "", "not in the file (unknown)", d->allocated->bytes - d->held_bytes, whole, exact);
    peak_row(&table, "=", "allocated", d->allocated->bytes, whole, exact);
    peak_row(&table, "+", "reserved but unused then", d->unused_at_peak, whole, exact);
    peak_row(&table, "=", "reserved then", d->reserved_at_peak, whole, exact);
    table_print(&table, out, 4);
    table_free(&table);
    fprintf(out, "    by library and call stack: vramscope peak %s\n", r->trace->path);
}

static void print_residual(const struct device_report *d, FILE *out, bool exact)
{
    const struct residual *r = &d->residual;
    struct table table;
    if (!r->known) {
        fprintf(out, "\n  residual: unknown, no sample of the driver's own figure was taken\n");
        return;
    }
    fprintf(out, "\n  driver used: %s at %s (%s)\n", B(r->driver_used), units_time(r->t).s,
            residual_source(r->source));
    table_init(&table, "<<>>", NULL);
    peak_row(&table, "", "reserved", r->reserved, r->driver_used, exact);
    peak_row(&table, "+", "residual", r->residual, r->driver_used, exact);
    peak_row(&table, "", "  context and modules at the first sample", r->at_first, r->driver_used, exact);
    peak_row(&table, "", "  modules loaded later", r->modules, r->driver_used, exact);
    peak_row(&table, "", r->whole_device ? "  unexplained (other processes included)" : "  unexplained",
             r->unexplained, r->driver_used, exact);
    table_print(&table, out, 4);
    table_free(&table);
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
}

void report_text(const struct report *r, FILE *out, bool exact)
{
    report_header_text(r, out, exact);
    for (size_t i = 0; i < r->device_count; i++) {
        const struct device_report *d = &r->devices[i];
        fprintf(out, "\ndevice %lld: %s", (long long)d->device, d->name ? d->name : "unknown name");
        if (d->total_bytes != UNKNOWN)
            fprintf(out, ", %s", B(d->total_bytes));
        fputs("\n\n", out);
        print_phases(r, d, out, exact);
        print_peak(r, d, out, exact);
        print_residual(d, out, exact);
    }
    if (!r->device_count)
        fputs("\nno device memory was ever allocated\n", out);
    else
        print_host(r, out, exact);
}
