/* first.c - see first.h. */
#include "first.h"

#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/units.h"
#include "base/page.h"
#include "read/ooms.h"
#include "show/report/code.h"
#include "show/report/parts.h"
#include "show/report/unused.h"

#define B(n)     units_bytes(n, exact).s
#define PART     50     /* what is less than a 50th is not large */
#define REPLAYED 150000 /* a replay of all changes takes about a second then */

/* The run ended when this request was refused. */
static bool died(const struct report *r)
{
    return r->oom.lead && r->oom.steps_after <= 0;
}

/* The device that the page is about; NULL: the request was for memory of the host. */
static const struct device_report *about(const struct report *r)
{
    const struct device_report *most = NULL;
    double fullest = -1;
    for (size_t i = 0; i < r->device_count; i++) {
        const struct device_report *d = &r->devices[i];
        if (died(r) && d->device == r->oom.lead->device)
            return d;
        double part =
            !d->reserved || d->total_bytes <= 0 ? 0 : (double)d->reserved->bytes / (double)d->total_bytes;
        if (part > fullest) {
            fullest = part;
            most = d;
        }
    }
    return died(r) ? NULL : most;
}

static bool replays(struct trace *t)
{
    return !t->thinned && !trace_has_loss(t, LOSS_EVENTS) && !trace_imported_misfits(t);
}

/* What came after the same line's request in a step that ended: with less left the next request is refused.
 */
static void print_before(const struct report *r, FILE *out, bool exact)
{
    struct trace_before before;
    if (trace_line_before(r->trace, r->oom.lead, &before) || before.more == UNKNOWN || before.more <= 0)
        return;
    wrap_print(
        out, 2, 4,
        "in step %lld the same line got %s, and up to %s more were allocated after it: a row with less "
        "left may only move the error",
        (long long)before.step, B(before.size), B(before.more));
}

/* What park would have to carry: of what lived at the peak, or at the refusal, while something else than the
 * optimizer ran.  How fast the link is nobody has measured. */
static void print_park(const struct report *r, const struct device_report *d, FILE *out, bool exact)
{
    struct trace_park_forecast f;
    bool refused = died(r);
    const char *phase = refused ? r->oom.lead->phase : d->phase_at_peak;
    int64_t allocated = refused ? r->oom.lead->framework + r->oom.lead->direct : d->allocated->bytes;
    if (!phase || (strcmp(phase, "forward") && strcmp(phase, "logits") && strcmp(phase, "backward")) ||
        d->park.decided || d->park.none ||
        trace_park_forecast(r->trace, d->device, refused ? r->oom.lead->seq : UNKNOWN, &f) ||
        f.bytes <= allocated / PART)
        return;
    double rate = 2e9 * (double)f.bytes / (double)f.every_ns; /* of a damaged file any number */
    wrap_print(
        out, 2, 4,
        "%s of what was allocated are optimizer states that the device is given in the optimizer alone, "
        "on average every %s: at that pace vramscope run --park=optimizer-state needs a link of at least "
        "%s/s to have all of them on the host meanwhile",
        B(f.bytes), units_time(f.every_ns).s, B(rate < 0x1p62 ? (int64_t)rate : INT64_MAX));
}

/* Nothing is said of a recording that cannot be replayed. */
static void print_remedies(const struct report *r, const struct device_report *d, FILE *out, bool exact)
{
    struct trace *t = r->trace;
    struct remedies remedies;
    bool refused = died(r);
    if (!refused && !report_has_blocks(d) &&
        d->savings.known) { /* they cannot be replayed, and have bounds */
        report_savings_text(&d->savings, out, exact);
        return;
    }
    if (!replays(t) || (refused && r->oom.lead->op != OOM_FRAMEWORK) ||
        (refused ? remedies_of_refusal(t, r->oom.lead, REPLAYED, &remedies)
                 : remedies_of_peak(t, d->device, REPLAYED, &remedies)))
        return;
    if (remedies.count || remedies.why || remedies.events)
        fputc('\n', out);
    first_remedies_text(t, &remedies, refused, out, exact);
    if (refused && remedies.count)
        print_before(r, out, exact);
    remedies_free(&remedies);
}

/* ---- what happened ---- */

static void print_device(const struct device_report *d, FILE *out, bool exact)
{
    fprintf(out, "    %s", d->name ? shown(d->name) : "device of an unknown name");
    if (d->own_bytes != UNKNOWN)
        fprintf(out, ", %s", B(d->own_bytes));
    if (d->total_bytes != d->own_bytes)
        fprintf(out, ", limited to %s", B(d->total_bytes));
}

static void print_peak(const struct report *r, const struct device_report *d, FILE *out, bool exact)
{
    char *nothing = report_nothing_words(r, d);
    char *where = report_peak_where(d), *words = report_peak_words(r, d, exact);
    if (nothing)
        wrap_print(out, 0, 4, "device %lld: %s", (long long)d->device, nothing);
    else
        wrap_print(out, 0, 4, "PEAK on device %lld at %s: %s", (long long)d->device, where, words);
    free(words);
    free(where);
    free(nothing);
    print_device(d, out, exact);
    if (d->reserved)
        fprintf(out, ": %s reserved from the driver at the most", B(d->reserved->bytes));
    fputc('\n', out);
    report_away_text(d, out, exact);
    report_park_text(d, out, exact);
    report_leak_text(r->trace, &d->growth, out, exact); /* every later step is higher for it */
}

static void print_refusal(const struct report *r, const struct device_report *d, FILE *out, bool exact)
{
    const struct trace_oom_kept *o = r->oom.lead;
    char *place = oom_report_place(&r->oom, r->trace);
    oom_report_head_text(&r->oom, out, exact);
    if (o->stack > 0)
        wrap_print(out, 4, 6, "by %s", place);
    free(place);
    if (!d)
        return;
    print_device(d, out, exact);
    char *away = o->away > 0 ? xformat(" (%s on the host)", B(o->away)) : xstrdup("");
    fprintf(out, ": %s %sallocated%s of %s reserved from the driver", B(o->framework + o->direct),
            o->unknown_use > 0 ? "known to be " : "", away, B(o->reserved));
    free(away);
    if (o->free != UNKNOWN)
        fprintf(out, ", %s free", B(o->free));
    fputc('\n', out);
}

/* Requests that were refused, after which the program went on. */
static void print_survived(const struct report *r, FILE *out)
{
    const struct trace *t = r->trace;
    if (r->oom.lead && !died(r))
        wrap_print(out, 4, 6,
                   "memory ran out on the way, at %s, and the program went on: vramscope peak --at=oom %s",
                   units_time(r->oom.lead->t).s, shown_word(t->path));
}

/* ---- what else is large ---- */

static void print_residual(const struct device_report *d, FILE *out, bool exact)
{
    const struct residual *x = &d->residual;
    if (x->known && x->fullest.driver_used > 0 && x->fullest.residual > x->fullest.driver_used / PART)
        wrap_print(
            out, 4, 6, "%s more were used beside what was asked of the driver%s", B(x->fullest.residual),
            x->whole_device ? ", other processes included" : ": context, code, and what nobody explains");
}

/* A private pool that held more than the request lacked, where nothing of the pool lives. */
static void print_enough(const struct oom_report *o, FILE *out, bool exact)
{
    int64_t lacked = o->unused.beyond_limit > 0 ? o->unused.beyond_limit : o->need.short_by;
    for (size_t i = 0; lacked > 0 && i < o->unused.count; i++)
        if (o->unused.rows[i].kind == UNUSED_PRIVATE && o->unused.rows[i].whole > lacked) {
            wrap_print(out, 6, 8,
                       "given back before, %s of a private pool would have been more than the %s that the "
                       "request lacked",
                       B(o->unused.rows[i].whole), B(lacked));
            return;
        }
}

static void print_beside(const struct report *r, const struct device_report *d, FILE *out, bool exact)
{
    struct trace *t = r->trace;
    if (died(r)) {
        report_unused_text(t, &r->oom.unused, "then", UNUSED_LARGE, out, exact);
        print_enough(&r->oom, out, exact);
        return;
    }
    int64_t most_reserved = d->reserved ? d->reserved->bytes : UNKNOWN;
    int64_t at_peak = d->reserved_at_peak == UNKNOWN ? 0 : d->reserved_at_peak;
    bool more = d->unused_most.bytes != UNKNOWN && most_reserved - at_peak > most_reserved / PART;
    char *most = xformat("at the most, at %s,", units_time(d->reserved ? d->reserved->t : UNKNOWN).s);
    report_unused_text(t, more ? &d->unused_most : &d->unused, more ? most : "then", UNUSED_LARGE, out,
                       exact);
    free(most);
    print_residual(d, out, exact);
}

static void print_others(const struct report *r, const struct device_report *shown_one, FILE *out, bool exact)
{
    for (size_t i = 0; i < r->device_count; i++) {
        const struct device_report *d = &r->devices[i];
        if (d == shown_one || !d->allocated)
            continue;
        char *words = report_peak_words(r, d, exact);
        fprintf(out, "device %lld: %s at the peak, %s reserved at the most\n", (long long)d->device, words,
                d->reserved ? B(d->reserved->bytes) : "unknown");
        free(words);
    }
}

static void print_held(const struct report *r, const struct device_report *d, FILE *out, bool exact)
{
    const struct oom_report *o = &r->oom;
    bool refused = died(r);
    const struct trace_live *live = refused ? o->live : d->live;
    size_t n = refused ? o->live_count : d->live_count;
    int64_t whole = refused ? o->live_bytes : d->allocated->bytes;
    report_parts_text(live, n, whole, out, exact);
    report_code_text(r->trace, live, n, whole, d->device, refused ? o->lead->seq : UNKNOWN, out, exact);
}

void first_text(const struct report *r, FILE *out, bool exact)
{
    const struct device_report *d = about(r);
    report_losses_text(r, out, false);
    char *mark = trace_mark_line(r->trace);
    if (mark)
        wrap_print(out, 0, 2, "%s", mark);
    if (mark || !report_is_complete(r) || r->trace->loss_count)
        fputc('\n', out);
    free(mark);
    if (died(r)) {
        print_refusal(r, d, out, exact);
    } else if (d && d->allocated) {
        print_peak(r, d, out, exact);
        print_survived(r, out);
    }
    if (d && d->allocated) {
        print_remedies(r, d, out, exact);
        print_park(r, d, out, exact);
        fputc('\n', out);
        print_held(r, d, out, exact);
        print_beside(r, d, out, exact);
        print_others(r, d, out, exact);
    }
    if (!r->device_count)
        fprintf(out, "%s\n", trace_no_device(r->trace));
    fprintf(out, "\n%sall of it: vramscope report --all %s\n",
            report_is_complete(r) ? "the recording is complete; " : "", shown_word(r->trace->path));
}
