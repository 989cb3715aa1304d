/* park.c - what became of the states that were to be parked: in report.h. */
#include "report.h"

#include <stdlib.h>

#include "base/page.h"
#include "base/shown.h"
#include "base/units.h"

#define B(bytes) units_bytes(bytes, exact).s

/* Of BYTES there and back. */
static int64_t both_ways_ns(const struct trace_park *p, int64_t bytes)
{
    double ns = 2e9 * (double)bytes / (double)p->link;
    return ns < 0x1p62 ? (int64_t)ns : INT64_MAX; /* a damaged file has any number */
}

static void print_plan(const struct trace_park *p, FILE *out, bool exact)
{
    const char *when = p->from ? "in the recording before" : "at first";
    char *later = p->later_ns > 0 ? xformat(", for %s later", units_time(p->later_ns).s) : xstrdup("");
    if (p->decided && p->parked == 0)
        wrap_print(
            out, 4, 6,
            "nothing was parked: %s of optimizer states lay idle for %s of a step %s, and at %s/s none of "
            "them goes there and back in nine tenths of that",
            B(p->idle), units_time(p->idle_ns).s, when, B(p->link));
    else if (p->decided)
        wrap_print(
            out, 4, 6,
            "parked: %s of %s of optimizer states that lay idle for %s of a step %s%s; at %s/s they go "
            "there and back in %s",
            B(p->parked), B(p->idle), units_time(p->idle_ns).s, when, later, B(p->link),
            units_time(both_ways_ns(p, p->parked)).s);
    else if (p->none)
        wrap_print(out, 4, 6, "nothing was parked: %s", shown(p->none));
    if (p->first_parked > 0)
        wrap_print(out, 4, 6, "at first it was %s, for which the optimizer waited %s in each step",
                   B(p->first_parked), units_time(p->first_waited_ns).s);
    free(later);
}

static void print_moves(const struct trace_park *p, FILE *out, bool exact)
{
    if (p->times <= 0)
        return;
    bool known = p->times > 1 && p->waited_ns != UNKNOWN;
    char *waited =
        known ? xformat("at least %s in all", units_time(p->waited_ns).s) : xstrdup("for an unknown time");
    wrap_print(out, 4, 6,
               "they went %s, %s each on average, and %s of %s came back or were freed there; the optimizer "
               "waited for them %s",
               units_count(p->times, "time").s, B(p->out / p->times), B(p->back), B(p->out), waited);
    free(waited);
}

void report_park_text(const struct device_report *d, FILE *out, bool exact)
{
    const struct trace_park *p = &d->park;
    if (p->spilled > 0)
        wrap_print(out, 4, 6,
                   "spilled: %s went to the host because the device was full, and %s came back or were freed "
                   "there",
                   B(p->spilled), B(p->unspilled));
    print_plan(p, out, exact);
    print_moves(p, out, exact);
    if (p->unforeseen > 0)
        wrap_print(out, 4, 6, "%s of parked states %s not foreseen%s%s", units_count(p->unforeseen, "use").s,
                   p->unforeseen == 1 ? "was" : "were", p->ended ? "; parking ended: " : "",
                   p->ended ? shown(p->ended) : "");
    else if (p->ended)
        wrap_print(out, 4, 6, "parking ended: %s", shown(p->ended));
}

void report_park_json(const struct device_report *d, struct json *j)
{
    const struct trace_park *p = &d->park;
    if (!p->decided && !p->none && !p->times && !p->spilled)
        return;
    json_begin(j, "park", '{');
    json_int(j, "idle_bytes", p->decided ? p->idle : UNKNOWN);
    json_int(j, "idle_ns", p->decided ? p->idle_ns : UNKNOWN);
    json_int(j, "later_ns", p->later_ns);
    json_int(j, "link_bytes_per_second", p->decided ? p->link : UNKNOWN);
    json_int(j, "parked_bytes", p->decided ? p->parked : UNKNOWN);
    json_int(j, "first_parked_bytes", p->first_parked);
    json_int(j, "first_waited_ns", p->first_waited_ns);
    json_text(j, "none", p->none);
    json_int(j, "times", p->times);
    json_int(j, "out_bytes", p->out);
    json_int(j, "back_bytes", p->back);
    json_int(j, "waited_ns", p->waited_ns);
    json_int(j, "spilled_bytes", p->spilled);
    json_int(j, "unspilled_bytes", p->unspilled);
    json_int(j, "unforeseen_uses", p->unforeseen);
    json_text(j, "ended", p->ended);
    json_end(j);
}
