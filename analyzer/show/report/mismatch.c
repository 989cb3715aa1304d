/*
 * mismatch.c - a sentence for each kind of mismatch (table mismatch, `what`); only two kinds are about a
 * framework's own totals.
 */
#include <string.h>

#include "report.h"
#include "base/shown.h"
#include "base/units.h"

#define EXACT(n) units_bytes(n, true).s

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
