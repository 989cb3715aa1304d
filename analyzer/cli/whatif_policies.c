/* whatif_policies.c - the recorded blocks under each allocator, as rows of the page. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/oom.h"
#include "base/shown.h"
#include "base/units.h"
#include "edit/refusal.h"
#include "read/ooms.h"
#include "read/steps.h"
#include "whatif.h"

struct torch_settings policies_settings(const struct answers *a)
{
    struct torch_settings s;
    const struct trace_tape *tape = a->tape;
    replay_settings(tape, &s);
    s.ties = a->ties;
    for (int i = 0; i < a->q->setting_count; i++)
        question_setting(&s, a->q->settings[i]);
    s.capacity = a->q->capacity ? a->q->capacity : UINT64_MAX;
    /* what --capacity stands for was a limit: the device is the recorded one still */
    const struct trace_device *device = trace_find_device(a->t, a->device);
    if (a->limit != UNKNOWN && device && device->total_bytes > 0)
        s.memory = (uint64_t)device->total_bytes;
    if (a->limit != UNKNOWN && a->q->capacity)
        s.limit = a->q->capacity;
    s.reserve = (uint64_t)tape->reserve_bytes;
    if (tape->reserve_share > 0 && device && device->total_bytes > 0)
        s.reserve = (uint64_t)(tape->reserve_share * (double)device->total_bytes);
    return s;
}

/* Whether the recording was made under POLICY as it is asked about, so that both can be compared. */
static bool recorded_under(const struct answers *a, enum feed_policy policy)
{
    if (a->q->setting_count || a->q->capacity || a->tape->arena || a->late || a->tape->roundup < 0)
        return false;
    return policy == (a->tape->expandable ? FEED_EXPANDABLE : FEED_NATIVE);
}

static void replay_as_torch(const struct answers *a, enum feed_policy policy, bool compare,
                            struct replay_result *r)
{
    struct torch_settings s = policies_settings(a);
    const struct trace_device *device = trace_find_device(a->t, a->device);
    s.expandable = policy == FEED_EXPANDABLE;
    if (compare && device && device->total_bytes > 0)
        s.memory = (uint64_t)device->total_bytes;
    s.follow_limits = compare || !a->q->capacity; /* --capacity asks about another end */
    if (s.follow_limits)
        s.limit = replay_first_limit(a->tape, device ? device->total_bytes : UNKNOWN);
    replay_torch(a->tape, &s, compare, r);
}

static void ask_torch(struct answers *a, enum feed_policy policy)
{
    replay_as_torch(a, policy, recorded_under(a, policy), &a->of[policy]);
}

static bool all_same(const struct replay_result *r)
{
    return r->blocks_same == r->blocks && r->segments_same == r->segments && !r->segments_more;
}

/* Whether the recording's own policy and settings meet it in everything. */
static bool is_met(const struct answers *a)
{
    enum feed_policy own = a->tape->expandable ? FEED_EXPANDABLE : FEED_NATIVE;
    struct question plain = *a->q;
    struct answers as_recorded = *a;
    plain.setting_count = 0;
    plain.capacity = 0;
    as_recorded.q = &plain;
    if (!recorded_under(&as_recorded, own))
        return false;
    ask_torch(&as_recorded, own);
    return all_same(&as_recorded.of[own]);
}

/* A snapshot does not say which version it is of: one whose order meets it in everything, or else the first.
 */
static void find_ties(struct answers *a)
{
    torch_simulates(a->tape->version, &a->ties);
    if (a->tape->version || is_met(a))
        return;
    for (a->ties = TORCH_BY_SEGMENT; a->ties && !is_met(a); a->ties--)
        ;
}

static void ask(struct answers *a, enum feed_policy policy)
{
    struct replay_result *r = &a->of[policy];
    switch (policy) {
    case FEED_LIVE:
        replay_live(a->tape, a->q->capacity, r);
        break;
    case FEED_NATIVE:
    case FEED_EXPANDABLE:
        ask_torch(a, policy);
        break;
    case FEED_ARENA:
        replay_arena(a->tape, a->q->capacity, r);
        break;
    default:
        break;
    }
}

/* As recorded an allocator may have begun with a cache, and the driver refused it memory; the others begin
 * with none and are refused nothing.  What they are compared with is begun and ended like them. */
static void ask_base(struct answers *a)
{
    struct question plain = *a->q;
    struct answers as_recorded = *a;
    struct replay_result r;
    bool others = false;
    plain.setting_count = 0;
    plain.capacity = 0;
    as_recorded.q = &plain;
    if (a->run == FEED_ARENA)
        replay_arena(a->tape, 0, &r);
    else
        replay_as_torch(&as_recorded, a->run, false, &r);
    a->base = r.reserved;
    for (int i = FEED_NATIVE; i < FEED_POLICIES; i++)
        others = others || (i != (int)a->run && a->q->wanted[i]);
    a->alike = others && a->of[a->run].compared && a->of[a->run].reserved != a->base;
}

/* What the table has of POLICY. */
static uint64_t reserved(const struct answers *a, int policy)
{
    return a->alike && policy == (int)a->run ? a->base : a->of[policy].reserved;
}

void policies_begin(struct answers *a)
{
    const struct trace_peak *peak = trace_find_peak(a->t, a->device, "managed_reserved");
    a->recorded = peak && peak->bytes > 0 ? peak->bytes : UNKNOWN;
    a->limit = replay_last_limit(a->tape, trace_find_device(a->t, a->device));
    a->run = a->tape->arena ? FEED_ARENA : a->tape->expandable ? FEED_EXPANDABLE : FEED_NATIVE;
    struct replay_result live;
    replay_live(a->tape, 0, &live);
    a->live = live.reserved;
    find_ties(a);
}

void policies_ask(struct answers *a)
{
    for (int i = 0; i < FEED_POLICIES; i++)
        if (a->q->wanted[i])
            ask(a, i);
    ask_base(a);
    /* where the recording is met with them as the common one's, they were */
    a->pools_matter = a->tape->pools_unknown && !is_met(a);
}

/* How far the figure can be relied on, as a sentence that the caller frees; WHOLE: and why it is compared
 * with another. */
static char *reliance(const struct answers *a, enum feed_policy policy, bool whole)
{
    const struct replay_result *r = &a->of[policy];
    const struct trace_tape *tape = a->tape;
    if (policy == FEED_LIVE)
        return xstrdup(tape->unasked ? "no allocator needs less of these block sizes"
                                     : "no allocator needs less");
    if (r->compared) {
        char *why = all_same(r) ? xstrdup("") : replay_why_not(a->tape, policy == FEED_EXPANDABLE);
        char *alike =
            whole && a->alike && policy == a->run
                ? xformat("; the others begin with an empty cache, and no driver refuses them memory: "
                          "begun and ended so it holds %s%s",
                          units_bytes((int64_t)a->base, a->q->o->bytes).s,
                          r->retries ? ", and --capacity=SIZE gives all the same end" : "")
                : xstrdup("");
        char *text = xformat("%s: %" PRIu64 " of %" PRIu64 " addresses and %" PRIu64 " of %" PRIu64
                             " segment events as recorded%s%s%s%s",
                             all_same(r) ? "exact" : "not exact", r->blocks_same, r->blocks, r->segments_same,
                             r->segments, *why ? " (" : "", why, *why ? ")" : "", alike);
        free(alike);
        free(why);
        return text;
    }
    if (a->late)
        return xstrdup("not exact: the framework held memory before the recording began");
    if (tape->start)
        return xstrdup("not exact: begins with an empty cache, the recording did not");
    if (!tape->streams_known && policy != FEED_ARENA)
        return xformat("not exact: the stream of some blocks is not known, taken as the default one%s",
                       tape->imported || tape->asked ? "" : "; sizes are blocks', not requests");
    if (a->pools_matter && policy != FEED_ARENA)
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

void policies_json(const struct answers *a, struct json *j)
{
    json_int(j, "blocks", a->tape->ids);
    json_int(j, "live_bytes", (int64_t)a->live);
    json_int(j, "recorded_reserved_bytes", a->recorded);
    json_text(j, "recorded_policy", feed_policy_names[a->run]);
    json_int(j, "compared_with_bytes", (int64_t)a->base);
    json_int(j, "limit_bytes", a->limit);
    json_text(j, "settings_from_environment", a->tape->environment);
    json_begin(j, "policies", '[');
    for (int i = 0; i < FEED_POLICIES; i++) {
        const struct replay_result *r = &a->of[i];
        if (!a->q->wanted[i])
            continue;
        char *relies = reliance(a, i, true);
        json_begin(j, NULL, '{');
        json_text(j, "policy", feed_policy_names[i]);
        json_int(j, "reserved_bytes", (int64_t)r->reserved);
        json_bool(j, "fits", !r->ran_out);
        json_int(j, "like_others_bytes", (int64_t)reserved(a, i));
        json_int(j, "ran_out_ns", r->ran_out ? r->out_t : UNKNOWN);
        json_int(j, "ran_out_request_bytes", r->ran_out ? (int64_t)r->out_size : UNKNOWN);
        json_int(j, "ran_out_reserved_bytes", r->ran_out ? (int64_t)r->out_reserved : UNKNOWN);
        json_int(j, "ran_out_live_bytes", r->ran_out ? (int64_t)r->out_live : UNKNOWN);
        json_int(j, "retries", (int64_t)r->retries);
        json_bool(j, "compared", r->compared);
        json_bool(j, "exact", r->compared && all_same(r));
        json_int(j, "addresses", r->compared ? (int64_t)r->blocks : UNKNOWN);
        json_int(j, "addresses_same", r->compared ? (int64_t)r->blocks_same : UNKNOWN);
        json_int(j, "segment_events", r->compared ? (int64_t)r->segments : UNKNOWN);
        json_int(j, "segment_events_same", r->compared ? (int64_t)r->segments_same : UNKNOWN);
        json_int(j, "replay_ns", r->ns);
        json_int(j, "replay_events", (int64_t)r->events);
        json_text(j, "reliance", relies);
        json_end(j);
        free(relies);
    }
    json_end(j);
}

/* ---- the page ---- */

static char *where_out(const struct answers *a, const struct replay_result *r)
{
    bool exact = a->q->o->bytes;
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

static bool is_changed(const struct answers *a)
{
    return a->q->setting_count || a->q->capacity;
}

/* What a row is called where it stands beside others. */
static char *name_of(const struct answers *a, int policy)
{
    const char *note = policy == FEED_LIVE                       ? " (lower bound)"
                       : policy == (int)a->run && !is_changed(a) ? " (the run)"
                                                                 : "";
    return xformat("%s%s", feed_policy_names[policy], note);
}

static char *fits(const struct answers *a, const struct replay_result *r)
{
    if (!r->ran_out)
        return r->retries ? xformat("yes, %s", units_count((int64_t)r->retries, "emptied cache").s)
                          : xstrdup("yes");
    int64_t step = trace_step_at(a->t, r->out_t);
    return step == UNKNOWN ? xformat("no, at %s", units_time(r->out_t).s)
                           : xformat("no, in step %" PRId64, step);
}

/* Of a limit, too, that the program had set. */
static bool is_limited(const struct answers *a)
{
    bool limited = a->q->capacity;
    for (int i = 0; i < FEED_POLICIES; i++)
        limited = limited || (a->q->wanted[i] && a->of[i].ran_out);
    return limited;
}

static void add_bytes(const struct answers *a, int policy, struct whatif_row *row)
{
    const struct replay_result *r = &a->of[policy];
    bool cut = r->ran_out, exact = a->q->o->bytes; /* it would have been more */
    int64_t bytes = (int64_t)reserved(a, policy), more = bytes - (int64_t)a->base;
    row->cells[COLUMN_RESERVED] = xformat("%s%s", cut ? "> " : "", units_bytes(bytes, exact).s);
    row->cells[COLUMN_DIFFERENCE] =
        xstrdup(cut || (policy == (int)a->run && !is_changed(a)) ? "-" : units_bytes_change(more, exact).s);
    if (is_limited(a))
        row->cells[COLUMN_FITS] = fits(a, r);
}

static void add_row(const struct answers *a, int policy, struct whatif_page *page)
{
    bool replayed = !a->q->o->edits.count, exact = a->q->o->bytes;
    int64_t rank = a->of[policy].ran_out, bytes = (int64_t)reserved(a, policy); /* it would be more */
    if (a->refused)
        refusal_order(a->refused, policy, &rank, &bytes);
    if (policy == (int)a->run)
        page->run = page->count;
    struct whatif_row *row = whatif_row(page, rank, bytes);
    row->cells[COLUMN_WHAT] = name_of(a, policy);
    if (a->refused)
        refusal_cells(a->refused, policy, exact, row);
    if (refusal_cure((enum feed_policy)policy) && policy != (int)a->run && !is_limited(a))
        row->cells[COLUMN_COSTS] = xstrdup("no code change");
    if (replayed)
        add_bytes(a, policy, row);
}

static void add_why(const struct answers *a, int policy, struct whatif_page *page)
{
    const struct replay_result *r = &a->of[policy];
    char *relies = reliance(a, policy, a->q->o->why), *out = r->ran_out ? where_out(a, r) : NULL;
    char *fit = !out && r->retries
                    ? xformat("%sfits after %s; ", a->refused ? "up to the refused request " : "",
                              units_count((int64_t)r->retries, "emptied cache").s)
                    : xstrdup("");
    whatif_say(page, "  %s: %s%s%s%s", feed_policy_names[policy], out ? out : "", out ? "; " : "", fit,
               relies);
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
            whatif_say(
                page,
                "  NOTE: %s were refused at %s: no block is of that request, and what is reserved is without "
                "it",
                units_bytes(kept[i].requested, a->q->o->bytes).s, units_time(kept[i].t).s);
    free(kept);
}

static void add_head(const struct answers *a, struct whatif_page *page)
{
    bool exact = a->q->o->bytes;
    struct text was = units_bytes(a->recorded, exact), like = units_bytes((int64_t)a->base, exact);
    char *recorded = a->recorded == UNKNOWN ? xstrdup("") : xformat("; %s reserved as recorded", was.s);
    char *alike = a->alike && strcmp(was.s, like.s) != 0
                      ? xformat(", %s replayed as the other rows are", like.s)
                      : xstrdup("");
    char *limit = a->limit == UNKNOWN ? xstrdup("")
                                      : xformat("; PyTorch limited to %s%s", units_bytes(a->limit, exact).s,
                                                a->q->capacity ? ", which --capacity stands for" : "");
    whatif_say(page, "device %" PRId64 ": %s, at most %s alive at once%s%s%s", a->device,
               units_count((int64_t)a->tape->ids, "block").s, units_bytes((int64_t)a->live, exact).s,
               recorded, alike, limit);
    free(recorded);
    free(alike);
    free(limit);
    if (a->tape->environment)
        whatif_say(page, "  PyTorch's settings from the environment: %s%s",
                   *a->tape->environment ? "PYTORCH_CUDA_ALLOC_CONF=" : "none, so the default ones",
                   shown(a->tape->environment));
    if (a->tape->not_imitated)
        whatif_say(page, "  PyTorch's settings that a replay does not imitate: %s",
                   shown(a->tape->not_imitated));
}

void policies_page(const struct answers *a, struct whatif_page *page)
{
    bool replayed = !a->q->o->edits.count;
    int wanted = 0;
    page->run = SIZE_MAX;
    add_head(a, page);
    page->above = page->line_count;
    for (int i = 0; i < FEED_POLICIES; i++)
        wanted += a->q->wanted[i];
    for (int i = 0; i < FEED_POLICIES; i++)
        if (a->q->wanted[i] && (replayed || a->refused))
            add_row(a, i, page);
    for (int i = 0; i < FEED_POLICIES && replayed; i++)
        if (a->q->wanted[i] && (a->q->o->why || i == (int)a->run || wanted == 1))
            add_why(a, i, page);
}
