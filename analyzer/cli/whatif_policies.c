/*
 * whatif_policies.c - a device's recorded blocks under each policy that is asked about, as text or JSON, and
 * then the changes of the program (whatif_edits.h).
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/oom.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/wrap.h"
#include "replay/feed.h"
#include "replay/replay.h"
#include "read/ooms.h"
#include "read/steps.h"
#include "read/tape.h"
#include "whatif_edits.h"
#include "whatif_question.h"

#define LARGE (4 << 20) /* bytes of an array that goes back to the system when it is freed */

struct answers {
    struct trace *t;
    const struct question *q;
    int64_t device;
    struct trace_tape tape;
    struct replay_result of[POLICIES];
    struct replay_result alike; /* the recorded policy, begun and ended like the others */
    int own;                    /* that, where alike holds something else; else POLICIES */
    uint64_t live;              /* the most that was alive */
    int64_t recorded;           /* the most that the framework held as recorded; UNKNOWN */
    int64_t limit;              /* that the program set last for PyTorch's allocator; UNKNOWN: none */
    enum torch_ties ties;
    struct refused *refused; /* the request that ended the run; NULL */
    bool late;
    bool
        pools_matter; /* requests of unknown pools may not have been of the common one, as which they count */
};

/* The recorded ones where they are known, and over them what was asked for. */
static struct torch_settings settings_of(const struct answers *a)
{
    struct torch_settings s;
    const struct trace_tape *tape = &a->tape;
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
static bool recorded_under(const struct answers *a, enum policy policy)
{
    if (a->q->setting_count || a->q->capacity || a->tape.arena || a->late || a->tape.roundup < 0)
        return false;
    return policy == (a->tape.expandable ? EXPANDABLE : NATIVE);
}

static void replay_as_torch(const struct answers *a, enum policy policy, bool compare,
                            struct replay_result *r)
{
    struct torch_settings s = settings_of(a);
    const struct trace_device *device = trace_find_device(a->t, a->device);
    s.expandable = policy == EXPANDABLE;
    if (compare && device && device->total_bytes > 0)
        s.memory = (uint64_t)device->total_bytes;
    s.follow_limits = compare || !a->q->capacity; /* --capacity asks about another end */
    if (s.follow_limits)
        s.limit = replay_first_limit(&a->tape, device ? device->total_bytes : UNKNOWN);
    replay_torch(&a->tape, &s, compare, r);
}

static void ask_torch(struct answers *a, enum policy policy)
{
    replay_as_torch(a, policy, recorded_under(a, policy), &a->of[policy]);
}

/* As recorded an allocator may have begun with a cache, and the driver refused it memory; the others begin
 * with none and are refused nothing.  What is beside them is to be begun and ended like them. */
static void ask_alike(struct answers *a)
{
    int own = a->tape.expandable ? EXPANDABLE : NATIVE, others = 0;
    a->own = POLICIES;
    for (int i = NATIVE; i < POLICIES; i++)
        others += i != own && a->q->wanted[i];
    if (!others || !a->q->wanted[own] || !a->of[own].compared)
        return;
    replay_as_torch(a, (enum policy)own, false, &a->alike);
    a->own = a->alike.reserved != a->of[own].reserved ? own : POLICIES;
}

static bool all_same(const struct replay_result *r)
{
    return r->blocks_same == r->blocks && r->segments_same == r->segments && !r->segments_more;
}

/* Whether the recording's own policy and settings meet it in everything. */
static bool is_met(const struct answers *a)
{
    enum policy own = a->tape.expandable ? EXPANDABLE : NATIVE;
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
    torch_simulates(a->tape.version, &a->ties);
    if (a->tape.version || is_met(a))
        return;
    for (a->ties = TORCH_BY_SEGMENT; a->ties && !is_met(a); a->ties--)
        ;
}

static void ask(struct answers *a, enum policy policy)
{
    struct replay_result *r = &a->of[policy];
    switch (policy) {
    case LIVE:
        replay_live(&a->tape, a->q->capacity, r);
        break;
    case NATIVE:
    case EXPANDABLE:
        ask_torch(a, policy);
        break;
    case ARENA:
        replay_arena(&a->tape, a->q->capacity, r);
        break;
    case ASYNC:
        replay_async(&a->tape, a->q->capacity, r);
        break;
    default:
        replay_packed(&a->tape, a->q->capacity, r);
    }
}

/* How far the figure can be relied on, as a sentence that the caller frees. */
static char *reliance(const struct answers *a, enum policy policy)
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
        char *why = all_same(r) ? xstrdup("") : replay_why_not(&a->tape, policy == EXPANDABLE);
        char *alike =
            policy == (enum policy)a->own
                ? xformat("; the others begin with an empty cache, and no driver refuses them memory: "
                          "begun and ended so it holds %s%s",
                          units_bytes((int64_t)a->alike.reserved, a->q->o->bytes).s,
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

static void print_table(const struct answers *a)
{
    static const char fits[] = "FITS", refused[] = "REFUSED REQUEST";
    bool limited = a->q->capacity != 0, exact = a->q->o->bytes;
    const char *header[] = {"POLICY", "PEAK RESERVED", "OVER LIVE", limited ? fits : refused, refused};
    struct table table;
    table_init(&table, limited && a->refused ? "<>><<" : limited || a->refused ? "<>><" : "<>>", header);
    for (int i = 0; i < POLICIES; i++) {
        const struct replay_result *r = &a->of[i];
        bool cut = r->ran_out && r->out_t != UNKNOWN; /* it would have been more */
        if (!a->q->wanted[i])
            continue;
        table_cell(&table, "%s%s", whatif_policies[i], i == ASYNC ? " (approximation)" : "");
        table_cell(&table, "%s%s", cut ? "> " : "", units_bytes((int64_t)r->reserved, exact).s);
        table_cell(&table, "%s",
                   i == LIVE || cut ? "-" : units_change((int64_t)a->live, (int64_t)r->reserved).s);
        if (limited)
            table_cell(&table, "%s", r->ran_out ? "no" : "yes");
        if (a->refused) {
            char *cell = refusal_of_policy(a->refused, i, exact);
            table_cell(&table, "%s", cell);
            free(cell);
        }
        if (i == a->own) {
            table_cell(&table, "  like the others");
            table_cell(&table, "%s", units_bytes((int64_t)a->alike.reserved, exact).s);
            table_cell(&table, "%s", units_change((int64_t)a->live, (int64_t)a->alike.reserved).s);
            if (a->refused)
                table_cell(&table, "%s", "");
        }
    }
    table_print(&table, stdout, 2);
    table_free(&table);
}

/* What fits without a request that was refused says nothing of the run with it. */
static void print_refused(const struct answers *a)
{
    struct trace_oom_kept *kept = NULL;
    size_t n = 0;
    bool read = trace_ooms_kept(a->t, &kept, &n) == 0;
    for (size_t i = 0; read && i < n; i++)
        if (kept[i].role & OOM_LAST && kept[i].device == a->device && kept[i].requested > 0)
            printf(
                "  NOTE: %s were refused at %s: no block is of that request, and what is reserved is without "
                "it\n",
                units_bytes(kept[i].requested, a->q->o->bytes).s, units_time(kept[i].t).s);
    free(kept);
}

static void print_text(const struct answers *a)
{
    bool exact = a->q->o->bytes, ended = a->refused;
    printf("device %" PRId64 ": %s, at most %s alive at once", a->device,
           units_count((int64_t)a->tape.ids, "block").s, units_bytes((int64_t)a->live, exact).s);
    if (a->recorded != UNKNOWN)
        printf("; %s reserved as recorded", units_bytes(a->recorded, exact).s);
    if (a->limit != UNKNOWN)
        printf("; PyTorch limited to %s%s", units_bytes(a->limit, exact).s,
               a->q->capacity ? ", which --capacity stands for" : "");
    puts("");
    if (a->tape.environment)
        printf("  PyTorch's settings from the environment: %s%s\n",
               *a->tape.environment ? "PYTORCH_CUDA_ALLOC_CONF=" : "none, so the default ones",
               shown(a->tape.environment));
    if (a->tape.not_imitated)
        printf("  PyTorch's settings that a replay does not imitate: %s\n", shown(a->tape.not_imitated));
    print_table(a);
    for (int i = 0; i < POLICIES; i++) {
        if (!a->q->wanted[i])
            continue;
        char *relies = reliance(a, i), *out = a->of[i].ran_out ? where_out(a, &a->of[i]) : NULL;
        printf("  %s: %s%s", whatif_policies[i], out ? out : "", out ? "; " : "");
        if (!out && a->of[i].retries)
            printf("%sfits after %s; ", ended ? "up to the refused request " : "",
                   units_count((int64_t)a->of[i].retries, "emptied cache").s);
        puts(relies);
        free(relies);
        free(out);
    }
    print_refused(a);
}

static void print_json(const struct answers *a, struct json *j)
{
    json_int(j, "blocks", a->tape.ids);
    json_int(j, "live_bytes", (int64_t)a->live);
    json_int(j, "recorded_reserved_bytes", a->recorded);
    json_int(j, "limit_bytes", a->limit);
    json_text(j, "settings_from_environment", a->tape.environment);
    json_begin(j, "policies", '[');
    for (int i = 0; i < POLICIES; i++) {
        const struct replay_result *r = &a->of[i];
        if (!a->q->wanted[i])
            continue;
        char *relies = reliance(a, i);
        bool at = r->ran_out && r->out_t != UNKNOWN;
        json_begin(j, NULL, '{');
        json_text(j, "policy", whatif_policies[i]);
        json_bool(j, "approximation", i == ASYNC);
        json_int(j, "reserved_bytes", (int64_t)r->reserved);
        json_bool(j, "fits", !r->ran_out);
        json_int(j, "like_others_bytes", (int64_t)(i == a->own ? a->alike.reserved : r->reserved));
        json_int(j, "ran_out_ns", at ? r->out_t : UNKNOWN);
        json_int(j, "ran_out_request_bytes", at ? (int64_t)r->out_size : UNKNOWN);
        json_int(j, "ran_out_reserved_bytes", at ? (int64_t)r->out_reserved : UNKNOWN);
        json_int(j, "ran_out_live_bytes", at ? (int64_t)r->out_live : UNKNOWN);
        json_int(j, "retries", (int64_t)r->retries);
        json_bool(j, "compared", r->compared);
        json_bool(j, "exact", r->compared && all_same(r));
        json_int(j, "addresses", r->compared ? (int64_t)r->blocks : UNKNOWN);
        json_int(j, "addresses_same", r->compared ? (int64_t)r->blocks_same : UNKNOWN);
        json_int(j, "segment_events", r->compared ? (int64_t)r->segments : UNKNOWN);
        json_int(j, "segment_events_same", r->compared ? (int64_t)r->segments_same : UNKNOWN);
        json_int(j, "bound_bytes", r->bound ? (int64_t)r->bound : UNKNOWN);
        json_int(j, "replay_ns", r->ns);
        json_int(j, "replay_events", (int64_t)r->events);
        json_text(j, "reliance", relies);
        json_end(j);
        free(relies);
    }
    json_end(j);
}

static bool is_late(const struct trace *t, int64_t device)
{
    for (size_t i = 0; i < t->mismatch_count; i++)
        if (t->mismatches[i].device == device && trace_mismatch_is_late(&t->mismatches[i]))
            return true;
    return false;
}

static void ask_policies(struct answers *a, struct json *j)
{
    const struct trace_peak *peak = trace_find_peak(a->t, a->device, "managed_reserved");
    a->recorded = peak && peak->bytes > 0 ? peak->bytes : UNKNOWN;
    struct replay_result live;
    replay_live(&a->tape, 0, &live);
    a->live = live.reserved;
    for (int i = 0; i < POLICIES; i++)
        if (a->q->wanted[i])
            ask(a, i);
    ask_alike(a);
    /* where the recording is met with them as the common one's, they were */
    a->pools_matter = a->tape.pools_unknown && !is_met(a);
    if (j)
        print_json(a, j);
    else
        print_text(a);
}

static void no_edits(struct json *j)
{
    json_begin(j, "edits", '[');
    json_end(j);
    json_text(j, "refusal", NULL);
}

/* Edits are asked for, or nothing special is. */
static bool wants_edits(const struct question *q)
{
    return q->o->edits.count || (!q->o->policy && !q->capacity && !q->setting_count);
}

/* Blocks that the framework had when the recording began are in no event. */
static bool lacks_blocks(const struct trace *t, int64_t device)
{
    for (size_t i = 0; i < t->mismatch_count; i++)
        if (t->mismatches[i].device == device && !strcmp(t->mismatches[i].what, "late_allocated"))
            return true;
    return false;
}

/* As struct edits_question has it. */
static int one_policy(const struct question *q)
{
    int policy = -1;
    for (int i = 0; i < POLICIES && q->o->policy; i++)
        if (q->wanted[i])
            policy = policy >= 0 ? FEED_POLICIES : i;
    return policy;
}

/* WANTED: by enum feed_policy; with SETTINGS it lives as long as the question. */
static struct edits_question question_of(const struct answers *a, struct torch_settings *settings,
                                         bool *wanted)
{
    const struct trace_tape *tape = &a->tape;
    int policy = one_policy(a->q);
    bool changed = a->q->capacity || a->q->setting_count;
    for (int i = 0; i < FEED_POLICIES; i++)
        wanted[i] = a->q->wanted[i];
    wanted[FEED_LIVE] = true; /* what the others are compared by */
    *settings = settings_of(a);
    return (struct edits_question){&a->q->o->edits,
                                   settings,
                                   wanted,
                                   policy,
                                   policy >= 0 || changed,
                                   changed,
                                   !tape->imported && !tape->arena && !tape->expandable,
                                   lacks_blocks(a->t, a->device),
                                   a->q->o->bytes};
}

static int ask_edits(struct answers *a, const struct edits_question *q, struct json *j)
{
    if (a->refused)
        return refusal_print(a->refused, q, j);
    trace_free_tape(&a->tape); /* as large as the program that is read now */
    malloc_trim(0);            /* a packing leaves many small pieces, which would stay in the process */
    mallopt(M_MMAP_THRESHOLD, LARGE); /* nor do programs leave holes as large as they were */
    return edits_answer(a->t, a->device, q, j);
}

/* The request that ended the run comes first.  A tape is as large as the program that is read for it, so
 * there is one at a time. */
static int ask_refused(struct answers *a, const struct edits_question *q)
{
    if (q->late)
        return 0;
    trace_free_tape(&a->tape);
    a->refused = refusal_ask_about(a->t, a->device, q, wants_edits(a->q));
    return trace_tape(a->t, a->device, &a->tape);
}

/* The least that was alive at any moment from the end of the first step to the end of the last step but one;
 * the last may end with the program.  With a capacity below it no allocator lets a step be made. */
static uint64_t least_alive(const struct answers *a)
{
    struct trace_step_end *ends = NULL;
    size_t n = 0;
    uint64_t live = 0, least = UINT64_MAX;
    if (trace_step_ends(a->t, &ends, &n) || n < 3)
        n = 0;
    for (size_t i = 0; i < a->tape.n && n; i++) {
        const struct tape_event *e = &a->tape.at[i];
        if (e->t > ends[n - 2].t)
            break;
        least = e->t > ends[0].t && live < least ? live : least;
        live += e->what == TAPE_ALLOC ? e->size : e->what == TAPE_FREE ? -e->size : 0;
    }
    free(ends);
    return least == UINT64_MAX ? 0 : least;
}

/* 0, or 2, said. */
static int check_capacity(const struct answers *a)
{
    uint64_t least = a->q->capacity && !a->q->o->edits.count ? least_alive(a) : 0;
    if (least <= a->q->capacity)
        return 0;
    return complain("whatif: --capacity=%s is less than the %s that device %" PRId64
                    " held at every moment from the end of one step to that of another, parameters and what "
                    "else stays: no allocator makes room for a step; --edit with --capacity says what a "
                    "changed program needs",
                    shown(a->q->o->capacity), units_bytes((int64_t)least, a->q->o->bytes).s, a->device);
}

static int answer_device(struct answers *a, struct json *j)
{
    struct torch_settings settings;
    bool wanted[FEED_POLICIES];
    int status = j ? 0 : check_capacity(a);
    struct edits_question q = question_of(a, &settings, wanted);
    if (!status && ask_refused(a, &q))
        status = complain("whatif: %s", a->t->why);
    if (j) {
        json_begin(j, NULL, '{');
        json_int(j, "device", a->device);
    }
    if (!status && (j || !a->q->o->edits.count))
        ask_policies(a, j);
    if (!status && wants_edits(a->q))
        status = ask_edits(a, &q, j);
    else if (j)
        no_edits(j);
    if (j)
        json_end(j);
    refusal_forget(a->refused);
    return status;
}

int whatif_device(struct trace *t, const struct question *q, int64_t device, struct json *j)
{
    struct answers *a = xrealloc(NULL, sizeof *a);
    *a = (struct answers){.t = t, .q = q, .device = device, .late = is_late(t, device)};
    if (trace_tape(t, device, &a->tape)) {
        complain("whatif: %s", t->why);
        free(a);
        return -1;
    }
    a->limit = replay_last_limit(&a->tape, trace_find_device(t, device));
    find_ties(a);
    bool any = a->tape.ids > 0;
    int status = any ? answer_device(a, j) : 0;
    trace_free_tape(&a->tape);
    free(a);
    return status ? -1 : any;
}
