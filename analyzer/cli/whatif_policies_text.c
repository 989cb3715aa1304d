/*
 * whatif_policies_text.c - rows of the recorded blocks under each allocator (whatif_page.h), and how far each
 * figure can be relied on.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analysis/oom.h"
#include "base/shown.h"
#include "base/units.h"
#include "edit/refusal.h"
#include "read/ooms.h"
#include "read/steps.h"
#include "whatif_policies.h"

char *policies_reliance(const struct answers *a, enum policy policy, bool whole)
{
    const struct replay_result *r = &a->of[policy];
    const struct trace_tape *tape = &a->tape;
    if (policy == LIVE)
        return xstrdup(tape->unasked ? "no allocator needs less of these block sizes"
                                     : "no allocator needs less");
    if (policy == PACKED)
        return xformat("%s; no packing needs less than %s", r->method,
                       units_bytes((int64_t)r->bound, a->q->o->bytes).s);
    if (policy == ASYNC)
        return xstrdup(
            "approximation: where the driver's pool puts a block is not documented, and no address of it was "
            "compared");
    if (r->compared) {
        char *why = policies_all_same(r) ? xstrdup("") : replay_why_not(&a->tape, policy == EXPANDABLE);
        char *alike =
            whole && policy == (enum policy)a->own
                ? xformat("; the others begin with an empty cache, and no driver refuses them memory: "
                          "begun and ended so it holds %s%s",
                          units_bytes((int64_t)a->alike.reserved, a->q->o->bytes).s,
                          r->retries ? ", and --capacity=SIZE gives all the same end" : "")
                : xstrdup("");
        char *text = xformat("%s: %" PRIu64 " of %" PRIu64 " addresses and %" PRIu64 " of %" PRIu64
                             " segment events as recorded%s%s%s%s",
                             policies_all_same(r) ? "exact" : "not exact", r->blocks_same, r->blocks,
                             r->segments_same, r->segments, *why ? " (" : "", why, *why ? ")" : "", alike);
        free(alike);
        free(why);
        return text;
    }
    if (a->late)
        return xstrdup("not exact: the framework held memory before the recording began");
    if (tape->start)
        return xstrdup("not exact: begins with an empty cache, the recording did not");
    if (!tape->streams_known && policy != ARENA)
        return xformat("not exact: the stream of some blocks is not known, taken as the default one%s",
                       tape->imported || tape->asked ? "" : "; sizes are blocks', not requests");
    if (a->pools_matter && policy != ARENA)
        return xformat("not exact: which pool %s %s of is not known, taken as the common one",
                       units_count(tape->pools_unknown, "request").s,
                       tape->pools_unknown == 1 ? "was" : "were");
    if (!tape->unasked || (tape->asked && !tape->unasked_large)) /* smaller sizes differ by less than 512 B */
        return xstrdup("requests as recorded");
    if ((tape->expandable || !tape->unasked_large) && tape->settings_known && tape->roundup <= 1 &&
        !tape->changed)
        return xstrdup(
            "requests as recorded, each in multiples of 512 B"); /* which blocks are cut to there */
    if (!tape->asked)
        return xstrdup("not exact: sizes are blocks', not requests");
    return xformat("not exact: of %s the size is known, not the request",
                   units_count(tape->unasked_large, "large block").s);
}

static char *where_out(const struct answers *a, const struct replay_result *r)
{
    bool exact = a->q->o->bytes;
    if (r->out_t == UNKNOWN)
        return xstrdup("does not fit");
    if (r->out_at_start)
        return xstrdup("has no room for what was alive when the trace began");
    int64_t step = trace_step_at(a->t, r->out_t);
    char *in = step == UNKNOWN ? xstrdup("") : xformat(" (step %" PRId64 ")", step);
    char *retried =
        r->retries ? xformat(", after %s", units_count((int64_t)r->retries, "emptied cache").s) : xstrdup("");
    char *text =
        xformat("runs out at %s%s: asks for %s with %s held and %s alive%s", units_time(r->out_t).s, in,
                units_bytes((int64_t)r->out_size, exact).s, units_bytes((int64_t)r->out_reserved, exact).s,
                units_bytes((int64_t)r->out_live, exact).s, retried);
    free(in);
    free(retried);
    return text;
}

/* What a row is called where it stands beside others. */
static char *name_of(const struct answers *a, int policy)
{
    bool changed = a->q->setting_count || a->q->capacity;
    static const char *const notes[POLICIES] = {
        [LIVE] = " (lower bound)", [PACKED] = " (in hindsight)", [ASYNC] = " (approximation)"};
    const char *note = notes[policy] ? notes[policy] : policy == (int)a->run && !changed ? " (the run)" : "";
    return xformat("%s%s", whatif_policies[policy], note);
}

static char *fits(const struct answers *a, const struct replay_result *r)
{
    if (!r->ran_out)
        return r->retries ? xformat("yes, after %s", units_count((int64_t)r->retries, "emptied cache").s)
                          : xstrdup("yes");
    int64_t step = r->out_t == UNKNOWN ? UNKNOWN : trace_step_at(a->t, r->out_t);
    if (step != UNKNOWN)
        return xformat("no, in step %" PRId64, step);
    return r->out_t == UNKNOWN ? xstrdup("no") : xformat("no, at %s", units_time(r->out_t).s);
}

static void add_bytes(const struct answers *a, int policy, struct whatif_row *row)
{
    const struct replay_result *r = policy == a->own ? &a->alike : &a->of[policy];
    bool cut = r->ran_out && r->out_t != UNKNOWN, exact = a->q->o->bytes; /* it would have been more */
    int64_t more = (int64_t)r->reserved - (int64_t)a->base;
    whatif_cell(row, COLUMN_RESERVED,
                xformat("%s%s", cut ? "> " : "", units_bytes((int64_t)r->reserved, exact).s));
    whatif_cell(row, COLUMN_DIFFERENCE,
                xstrdup(cut || (policy == (int)a->run && !more) ? "-" : units_bytes_change(more, exact).s));
    if (a->q->capacity)
        whatif_cell(row, COLUMN_FITS, fits(a, r));
}

static void add_row(const struct answers *a, int policy, struct whatif_page *page)
{
    bool replayed = !a->q->o->edits.count, exact = a->q->o->bytes;
    int64_t rank = 0, bytes = (int64_t)(policy == a->own ? a->alike.reserved : a->of[policy].reserved);
    if (a->refused)
        refusal_order(a->refused, policy, &rank, &bytes);
    if (policy == (int)a->run)
        page->run = page->count;
    struct whatif_row *row = whatif_row(page, rank, bytes);
    whatif_cell(row, COLUMN_WHAT, name_of(a, policy));
    if (a->refused)
        refusal_cells(a->refused, policy, exact, row);
    if (policy < FEED_POLICIES && refusal_cure((enum feed_policy)policy) && policy != (int)a->run &&
        !a->q->capacity)
        whatif_cell(row, COLUMN_COSTS, xstrdup("no code change"));
    if (replayed)
        add_bytes(a, policy, row);
}

static void add_why(const struct answers *a, int policy, struct whatif_page *page)
{
    const struct replay_result *r = &a->of[policy];
    char *relies = policies_reliance(a, policy, a->q->o->why), *out = r->ran_out ? where_out(a, r) : NULL;
    char *fit = !out && r->retries
                    ? xformat("%sfits after %s; ", a->refused ? "up to the refused request " : "",
                              units_count((int64_t)r->retries, "emptied cache").s)
                    : xstrdup("");
    whatif_why(page, "  %s: %s%s%s%s", whatif_policies[policy], out ? out : "", out ? "; " : "", fit, relies);
    free(relies);
    free(out);
    free(fit);
}

/* What fits without a request that was refused says nothing of the run with it. */
void policies_refused(const struct answers *a, struct whatif_page *page)
{
    struct trace_oom_kept *kept = NULL;
    size_t n = 0;
    bool read = trace_ooms_kept(a->t, &kept, &n) == 0;
    for (size_t i = 0; read && i < n; i++)
        if (kept[i].role & OOM_LAST && kept[i].device == a->device && kept[i].requested > 0)
            whatif_why(
                page,
                "  NOTE: %s were refused at %s: no block is of that request, and what is reserved is without "
                "it",
                units_bytes(kept[i].requested, a->q->o->bytes).s, units_time(kept[i].t).s);
    free(kept);
}

static void add_head(const struct answers *a, struct whatif_page *page)
{
    bool exact = a->q->o->bytes;
    char *recorded = a->recorded == UNKNOWN
                         ? xstrdup("")
                         : xformat("; %s reserved as recorded", units_bytes(a->recorded, exact).s);
    char *alike = a->own == POLICIES ? xstrdup("")
                                     : xformat(", %s replayed as the other rows are",
                                               units_bytes((int64_t)a->alike.reserved, exact).s);
    char *limit = a->limit == UNKNOWN ? xstrdup("")
                                      : xformat("; PyTorch limited to %s%s", units_bytes(a->limit, exact).s,
                                                a->q->capacity ? ", which --capacity stands for" : "");
    whatif_head(page, "device %" PRId64 ": %s, at most %s alive at once%s%s%s", a->device,
                units_count((int64_t)a->tape.ids, "block").s, units_bytes((int64_t)a->live, exact).s,
                recorded, alike, limit);
    free(recorded);
    free(alike);
    free(limit);
    if (a->tape.environment)
        whatif_head(page, "  PyTorch's settings from the environment: %s%s",
                    *a->tape.environment ? "PYTORCH_CUDA_ALLOC_CONF=" : "none, so the default ones",
                    shown(a->tape.environment));
    if (a->tape.not_imitated)
        whatif_head(page, "  PyTorch's settings that a replay does not imitate: %s",
                    shown(a->tape.not_imitated));
}

void policies_page(const struct answers *a, struct whatif_page *page)
{
    bool replayed = !a->q->o->edits.count;
    int wanted = 0;
    page->run = SIZE_MAX;
    add_head(a, page);
    for (int i = 0; i < POLICIES; i++)
        wanted += a->q->wanted[i];
    for (int i = 0; i < POLICIES; i++)
        if (a->q->wanted[i] && (replayed || (a->refused && i < FEED_POLICIES)))
            add_row(a, i, page);
    for (int i = 0; i < POLICIES && replayed; i++)
        if (a->q->wanted[i] && (a->q->o->why || i == (int)a->run || wanted == 1))
            add_why(a, i, page);
}
