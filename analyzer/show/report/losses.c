/*
 * losses.c - what is missing in a recording, what disagrees in it, and what it could not rely on.
 *
 * Where ends of allocations were lost totals are upper bounds (table upper_bound).  Of mismatches (table
 * mismatch, `what`) only two kinds are about a framework's own totals.
 */
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "base/shown.h"
#include "base/units.h"
#include "base/page.h"
#include "trace/database.h"

#define EXACT(n) units_bytes(n, true).s

void report_unproven(const struct trace *t, const char *part, int indent, FILE *out)
{
    const char *why = trace_unproven(t, part);
    if (why)
        wrap_print(out, indent, indent + 2, "%s", shown(why));
}

bool report_is_complete(const struct report *r)
{
    for (size_t i = 0; i < r->device_count; i++)
        if (r->devices[i].unseen > 0)
            return false;
    return trace_whole(r->trace);
}

char *report_unseen_words(const struct device_report *d)
{
    return d->unseen > 0
               ? xformat("%s of this process on device %lld were allocated by no call that was seen",
                         units_bytes(d->unseen, false).s, (long long)d->device)
               : NULL;
}

/* The headline is about events.  If the end may be missing, or calls may have bypassed the recording, it is
 * not known whether all events are there. */
static void print_complete(const struct report *r, FILE *out, bool complete)
{
    const struct trace *t = r->trace;
    for (size_t i = 0; i < r->device_count; i++) {
        char *words = report_unseen_words(&r->devices[i]);
        if (words)
            wrap_print(out, 0, 2,
                       "UNSEEN: %s: the driver says that the process uses them, beside what was recorded and "
                       "what calls were measured to take",
                       words);
        free(words);
    }
    if (!complete || !report_is_complete(r))
        return;
    fprintf(out, "complete: no events lost");
    if (t->reports == UNKNOWN || t->reports == 0)
        fprintf(out, "; no framework reported its totals");
    else if (t->reports_mismatched <= 0 && !trace_disagreements(t))
        fprintf(out, "; our totals equal the framework's in all %s", units_count(t->reports, "report").s);
    fputc('\n', out);
}

static void print_loss(const struct trace_loss *l, FILE *out)
{
    const char *why = l->why ? shown(l->why) : "unknown";
    struct text from = units_time(l->t_first);
    if (l->kind == LOSS_EVENTS)
        fprintf(out, "LOST: %s from %s on: %s\n", units_count(l->events, "event").s, from.s, why);
    else if (l->contract ||
             (l->code && !strcmp(l->code, vs_loss_code(VS_LOSS_IMPORTED)))) /* of the whole run */
        fprintf(out, "NOTE: %s\n", why);
    else
        fprintf(out, "%s: from %s on: %s\n", l->kind == LOSS_GAP ? "GAP" : "NOTE", from.s, why);
}

/* Prints which detail is not in the file, from when to when. */
static void print_folded(const struct trace *t, FILE *out)
{
    const struct trace_folded *f = &t->folded;
    if (f->stretches > 0) {
        fprintf(out, "folded: %lld of %s, from %s to %s", (long long)f->events,
                units_count(t->events, "event").s, units_time(f->from).s, units_time(f->to).s);
        if (t->steps > 0)
            fprintf(out, " (steps %lld to %lld)", (long long)f->first_step, (long long)f->last_step);
        fprintf(out,
                ", stand with their ranges and samples as %s, to stay below VRAMSCOPE_MAX_BYTES; no peak is "
                "affected\n",
                units_count(f->stretches, "sum").s);
    }
    if (t->unwritten > 0)
        fprintf(
            out,
            "NO ROOM: %s from %s on have no rows: VRAMSCOPE_MAX_BYTES is too small for what lives; totals "
            "and peaks count them\n",
            units_count(t->unwritten, "event").s, units_time(t->unwritten_from).s);
}

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

/* ---- mismatches ---- */

static void print_totals(const struct trace_mismatch *m, FILE *out)
{
    fprintf(out,
            "MISMATCH: %s of device %lld disagrees with the framework's own total %s;\n"
            "          first at %s: ours %s bytes, theirs %s\n",
            m->what, (long long)m->device, units_count(m->rows, "time").s, units_time(m->t_first).s,
            EXACT(m->ours), EXACT(m->theirs));
}

/* Bytes from before the recording became the base, so the totals agree from there on. */
static void print_late(const struct trace_mismatch *m, FILE *out)
{
    bool reserved = !strcmp(m->what, "late_reserved");
    fprintf(out,
            "NOTE: the recording began late: by %s the framework %s already %s bytes of device %lld;\n"
            "      they are counted from there on, and who asked for them is unknown\n",
            units_time(m->t_first).s, reserved ? "had reserved" : "had given out",
            EXACT(m->theirs == UNKNOWN || m->ours == UNKNOWN ? UNKNOWN : m->theirs - m->ours),
            (long long)m->device);
}

static void print_missed(const struct trace_mismatch *m, FILE *out)
{
    fprintf(out,
            "MISMATCH: the free of %s of device %lld was never seen: its address was handed out again;\n"
            "          first at %s, %s bytes\n",
            units_count(m->rows, "allocation").s, (long long)m->device, units_time(m->t_first).s,
            EXACT(m->ours));
}

void report_mismatch_text(const struct trace_mismatch *m, FILE *out)
{
    const char *what = m->what ? m->what : "";
    if (!strcmp(what, "allocated") || !strcmp(what, "reserved"))
        print_totals(m, out);
    else if (trace_mismatch_is_late(m))
        print_late(m, out);
    else if (!strcmp(what, "free_missed"))
        print_missed(m, out);
    else
        fprintf(out, "MISMATCH: %s, device %lld, %s; first at %s: ours %s bytes, theirs %s\n",
                *what ? shown(what) : "of an unknown kind", (long long)m->device,
                units_count(m->rows, "time").s, units_time(m->t_first).s, EXACT(m->ours), EXACT(m->theirs));
}

/* ---- the whole ---- */

/* Missing events come first. */
void report_losses_text(const struct report *r, FILE *out, bool complete)
{
    const struct trace *t = r->trace;
    for (int kind = LOSS_EVENTS; kind <= LOSS_GAP; kind++)
        for (size_t i = 0; i < t->loss_count; i++)
            if (t->losses[i].kind == (enum trace_loss_kind)kind)
                print_loss(&t->losses[i], out);
    print_complete(r, out, complete);
    for (size_t i = 0; i < t->loss_count; i++)
        if (t->losses[i].kind == LOSS_NOTE)
            print_loss(&t->losses[i], out);
    report_bounds_text(t, out);
    for (size_t i = 0; i < t->mismatch_count; i++)
        report_mismatch_text(&t->mismatches[i], out);
    print_folded(t, out);
    if (t->recovered)
        fprintf(out, "recovered: %s merged from the journal that the process left\n",
                units_count(t->recovered, "event").s);
    else if (t->end == TRACE_END_MERGED)
        wrap_print(
            out, 0, 2,
            t->came_to_exit == 1 ? "the process came to its exit in good order before all was written "
                                   "(VRAMSCOPE_EXIT_MS); everything up to its end is here"
            : t->came_to_exit == 0
                ? "the process was killed, or left without its exit handlers (_exit, exec); everything up to "
                  "its end is here"
                : "the process did not end in good order, or not all was written by then "
                  "(VRAMSCOPE_EXIT_MS); everything up to its end is here");
}

static void bounds_json(const struct trace *t, struct json *j)
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

void report_losses_json(const struct trace *t, struct json *j)
{
    int64_t lost = 0;
    for (size_t i = 0; i < t->loss_count; i++)
        lost += t->losses[i].events > 0 ? t->losses[i].events : 0;
    json_int(j, "lost_events", lost);
    json_begin(j, "losses", '[');
    for (size_t i = 0; i < t->loss_count; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "code", t->losses[i].code);
        json_text(j, "why", t->losses[i].why);
        json_int(j, "events", t->losses[i].events);
        json_int(j, "first_t_ns", t->losses[i].t_first);
        json_end(j);
    }
    json_end(j);
    bounds_json(t, j);
    json_begin(j, "mismatches", '[');
    for (size_t i = 0; i < t->mismatch_count; i++) {
        const struct trace_mismatch *m = &t->mismatches[i];
        json_begin(j, NULL, '{');
        json_text(j, "what", m->what);
        json_int(j, "device", m->device);
        json_int(j, "times", m->rows);
        json_int(j, "first_t_ns", m->t_first);
        json_int(j, "ours_bytes", m->ours);
        json_int(j, "theirs_bytes", m->theirs);
        json_end(j);
    }
    json_end(j);
}
