/*
 * whatif.c - `vramscope whatif`: the recorded blocks under other allocators, and where each would run out.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/oom.h"
#include "analysis/relabel.h"
#include "base/args.h"
#include "base/commands.h"
#include "base/json.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/wrap.h"
#include "law/law.h"
#include "read/trace.h"
#include "replay/feed.h"
#include "replay/replay.h"
#include "whatif_edits.h"

#define SIZE_MOST (INT64_C(1) << 50)

enum policy { LIVE, NATIVE, EXPANDABLE, ARENA, PACKED, ASYNC, POLICIES };
static const char *const policy_names[] = {
    "live", "torch-native", "torch-expandable", "arena", "packed", "cudaMallocAsync", NULL};

struct options {
    const char *policy, *capacity;
    struct law_request sizes; /* --batch and --seq: of several recordings */
    int64_t device, process;
    struct arg_list edits;
    bool json, bytes;
};

static const struct option_row rows[] = {
    {"edit", 'e', "NAME=VALUE", ARG_LIST, offsetof(struct options, edits),
     "the program changed so; several are made one after the other"},
    {"policy", 'p', "LIST", ARG_TEXT, offsetof(struct options, policy),
     "live,torch-native,torch-expandable,arena,packed: these alone; also cudaMallocAsync, an approximation"},
    {"capacity", 'c', "SIZE", ARG_TEXT, offsetof(struct options, capacity),
     "what the allocator can have, such as 80GiB"},
    {"batch", 0, "LIST", ARG_TEXT, offsetof(struct options, sizes.batch),
     "from several recordings: at these batches, 1..64 (doubled), 1,2,3 or 4"},
    {"seq", 0, "LIST", ARG_TEXT, offsetof(struct options, sizes.seq),
     "from several recordings: at these lengths (of images: sides)"},
    {"plot", 0, "FILE", ARG_TEXT, offsetof(struct options, sizes.plot),
     "with --batch or --seq: a picture of it, .png, .svg, .pdf or .gp"},
    {"device", 'd', "N", ARG_COUNT, offsetof(struct options, device), "this device alone"},
    {"process", 0, "N", ARG_COUNT, offsetof(struct options, process),
     "of a file with several processes this one"},
    {"json", 0, NULL, ARG_FLAG, offsetof(struct options, json), "for programs: see vramscope-whatif(1)"},
    {"bytes", 'b', NULL, ARG_FLAG, offsetof(struct options, bytes), "exact bytes instead of rounded GiB"},
    {0}};

static const struct command_help help = {
    "whatif", "[options] FILE [SETTING=VALUE...]",
    "Replays the recorded blocks of PyTorch's allocator under others, and tells what each would have held of "
    "the\n"
    "driver: what was alive (of the recorded sizes no allocator needs less), PyTorch's own, native and with\n"
    "expandable segments, vramscope's arena, and a packing that knows the run beforehand.  Where the "
    "recording\n"
    "was made under one of them, the replay is held against it, address by address.  With --capacity: where "
    "each\n"
    "would have run out.\n"
    "And the program changed: alone, with no option, each of a list of changes is tried; --edit takes\n"
    "loss=fused foreach=no optimizer=fused states=bf16|8bit|host gradients=in-backward set_to_none=yes|no\n"
    "accumulate=N checkpoint=K batch=X sequence=X types=bf16 zero=STAGE:RANKS.\n"
    "Settings of PyTorch's: max_split_size=SIZE large_segment_size=SIZE roundup_power2_divisions=N\n"
    "garbage_collection_threshold=0.8 (needs --capacity).\n"
    "With --batch or --seq, several short recordings, each with its size as run.db:batch=2,seq=512: what "
    "the\n"
    "program would hold at other sizes, and the longest that fits.",
    rows, false};

struct question {
    const struct options *o;
    bool wanted[POLICIES];
    uint64_t capacity; /* 0: no end */
    char **settings;   /* words */
    int setting_count;
};

/* ---- what is asked ---- */

/* "80GiB", "512M", "1e9"; false where it is none, or more than any memory. */
static bool read_size(const char *text, uint64_t *bytes)
{
    int64_t n;
    if (!units_read_bytes(text, &n) || n < 1 || n >= SIZE_MOST)
        return false;
    *bytes = (uint64_t)n;
    return true;
}

static int read_policies(struct question *q)
{
    if (!q->o->policy) {
        memset(q->wanted, true, sizeof q->wanted);
        q->wanted[ASYNC] =
            false; /* an approximation stands beside no exact figure that was not asked for it */
        return 0;
    }
    char *list = xstrdup(q->o->policy), *rest = list, *word;
    int bad = 0;
    while (!bad && (word = strsep(&rest, ","))) {
        int i = 0;
        while (i < POLICIES && strcmp(word, policy_names[i]))
            i++;
        if (i < POLICIES) {
            q->wanted[i] = true;
            continue;
        }
        const char *near = args_nearest(word, policy_names);
        bad =
            near
                ? complain("whatif: no policy '%s': did you mean '%s'?", shown(word), near)
                : complain(
                      "whatif: no policy '%s': there are live, torch-native, torch-expandable, arena, packed "
                      "and cudaMallocAsync",
                      shown(word));
    }
    free(list);
    return bad;
}

/* Sizes named _mb are in MiB, as PyTorch has them. */
static bool read_mb(const char *value, uint64_t *bytes)
{
    char *text = xformat("%sMiB", value);
    bool good = read_size(text, bytes);
    free(text);
    return good;
}

static bool read_fraction(const char *value, double *out)
{
    char *end;
    *out = strtod(value, &end);
    return end != value && !*end && *out > 0 && *out < 1;
}

static bool read_divisions(const char *value, uint32_t *out)
{
    char *end;
    unsigned long n = strtoul(value, &end, 10);
    *out = (uint32_t)n;
    return end != value && !*end && n >= 1 && n <= 64 && (n & (n - 1)) == 0;
}

static bool at_least(bool read, uint64_t bytes, uint64_t least)
{
    return read && bytes >= least;
}

static int read_setting(struct torch_settings *s, const char *word)
{
    const char *value = strchr(word, '=');
    size_t n = value ? (size_t)(value - word) : strlen(word);
    bool good = false, known = true;
#define IS(name) (value && n == strlen(name) && !strncmp(word, name, n))
    if (IS("max_split_size"))
        good = at_least(read_size(value + 1, &s->max_split), s->max_split, UINT64_C(20) << 20);
    else if (IS("max_split_size_mb"))
        good = at_least(read_mb(value + 1, &s->max_split), s->max_split, UINT64_C(20) << 20);
    else if (IS("large_segment_size"))
        good = at_least(read_size(value + 1, &s->large_segment), s->large_segment, UINT64_C(2) << 20);
    else if (IS("large_segment_size_mb"))
        good = at_least(read_mb(value + 1, &s->large_segment), s->large_segment, UINT64_C(2) << 20);
    else if (IS("roundup_power2_divisions"))
        good = read_divisions(value + 1, &s->roundup);
    else if (IS("garbage_collection_threshold"))
        good = read_fraction(value + 1, &s->gc_threshold);
    else
        known = false;
#undef IS
    if (!known)
        return complain(
            "whatif: '%s' is neither a setting nor the one file: vramscope whatif --help lists both",
            shown(word));
    if (!good)
        return complain("whatif: %.*s cannot be '%s': PyTorch takes sizes from 20 MiB (a segment: 2 MiB) on, "
                        "powers of two to 64, and fractions between 0 and 1",
                        (int)n, word, shown(value + 1));
    if (s->large_segment % (UINT64_C(2) << 20))
        return complain("whatif: large_segment_size is a multiple of 2 MiB");
    return 0;
}

static int read_question(struct question *q, char **words, int n)
{
    struct torch_settings settings = torch_defaults();
    q->settings = words;
    q->setting_count = n;
    if (q->o->capacity && !read_size(q->o->capacity, &q->capacity))
        return complain("whatif: --capacity takes a size such as 80GiB, not '%s'", shown(q->o->capacity));
    int bad = edits_check(&q->o->edits);
    if (!bad)
        bad = read_policies(q);
    for (int i = 0; i < n && !bad; i++)
        bad = read_setting(&settings, words[i]);
    if (!bad && settings.gc_threshold > 0 && !q->capacity)
        bad = complain("whatif: garbage_collection_threshold is a share of the memory: give --capacity too");
    return bad;
}

/* ---- answers ---- */

struct answers {
    struct trace *t;
    const struct question *q;
    int64_t device;
    struct trace_tape tape;
    struct replay_result of[POLICIES];
    uint64_t live;    /* the most that was alive */
    int64_t recorded; /* the most that the framework held as recorded; UNKNOWN */
    int64_t limit;    /* that the program set last for PyTorch's allocator; UNKNOWN: none */
    bool late;
};

/* The recorded ones where they are known, and over them what was asked for. */
static struct torch_settings settings_of(const struct answers *a)
{
    struct torch_settings s = torch_defaults();
    const struct trace_tape *tape = &a->tape;
    if (tape->max_split > 0)
        s.max_split = (uint64_t)tape->max_split;
    if (tape->roundup > 0 && !tape->unasked) /* else sizes are blocks', which are rounded already */
        s.roundup = (uint32_t)tape->roundup;
    if (tape->large_segment >= INT64_C(2) << 20)
        s.large_segment = (uint64_t)tape->large_segment;
    if (tape->gc_threshold > 0 && tape->gc_threshold < 1) /* of the capacity: nothing without one */
        s.gc_threshold = tape->gc_threshold;
    for (int i = 0; i < a->q->setting_count; i++)
        read_setting(&s, a->q->settings[i]);
    s.capacity = a->q->capacity ? a->q->capacity : UINT64_MAX;
    return s;
}

/* Whether the recording was made under POLICY as it is asked about, so that both can be compared. */
static bool recorded_under(const struct answers *a, enum policy policy)
{
    if (a->q->setting_count || a->q->capacity || a->tape.arena || a->late || a->tape.roundup < 0)
        return false;
    return policy == (a->tape.expandable ? EXPANDABLE : NATIVE);
}

static void ask_torch(struct answers *a, enum policy policy)
{
    struct torch_settings s = settings_of(a);
    const struct trace_device *device = trace_find_device(a->t, a->device);
    bool compare = recorded_under(a, policy);
    s.expandable = policy == EXPANDABLE;
    if (compare && device && device->total_bytes > 0)
        s.memory = (uint64_t)device->total_bytes;
    s.follow_limits = compare || !a->q->capacity; /* --capacity asks about another end */
    if (s.follow_limits)
        s.limit = replay_first_limit(&a->tape, device ? device->total_bytes : UNKNOWN);
    replay_torch(&a->tape, &s, compare, &a->of[policy]);
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

static bool all_same(const struct replay_result *r)
{
    return r->blocks_same == r->blocks && r->segments_same == r->segments && !r->segments_more;
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
        char *text = xformat("%s: %" PRIu64 " of %" PRIu64 " addresses and %" PRIu64 " of %" PRIu64
                             " segment events as recorded%s%s%s",
                             all_same(r) ? "exact" : "not exact", r->blocks_same, r->blocks, r->segments_same,
                             r->segments, *why ? " (" : "", why, *why ? ")" : "");
        free(why);
        return text;
    }
    if (a->late)
        return xstrdup("not exact: the framework held memory before the recording began");
    if (tape->start)
        return xstrdup("not exact: begins with an empty cache, the recording did not");
    if (!tape->streams_known && policy != ARENA)
        return xformat("not exact: the stream of some blocks is not known, taken as the default one%s",
                       tape->unasked ? "; sizes are blocks', not requests" : "");
    if (tape->pools_unknown && policy != ARENA)
        return xformat("not exact: which pool %s were of is not known, taken as the common one",
                       units_count(tape->pools_unknown, "request").s);
    if (!tape->unasked)
        return xstrdup("requests as recorded");
    if ((tape->expandable || !tape->unasked_large) && tape->settings_known && tape->roundup <= 1 &&
        !tape->changed)
        return xstrdup(
            "requests as recorded, each in multiples of 512 B"); /* which blocks are cut to there */
    if (!tape->asked || !tape->unasked_large)
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
    static const char *const header[] = {"POLICY", "PEAK RESERVED", "OVER LIVE"}, *const with_fit[] = {
                                                                                      "POLICY",
                                                                                      "PEAK RESERVED",
                                                                                      "OVER LIVE", "FITS"};
    bool limited = a->q->capacity != 0;
    struct table table;
    table_init(&table, limited ? "<>><" : "<>>", limited ? with_fit : header);
    for (int i = 0; i < POLICIES; i++) {
        const struct replay_result *r = &a->of[i];
        bool cut = r->ran_out && r->out_t != UNKNOWN; /* it would have been more */
        if (!a->q->wanted[i])
            continue;
        table_cell(&table, "%s%s", policy_names[i], i == ASYNC ? " (approximation)" : "");
        table_cell(&table, "%s%s", cut ? "> " : "", units_bytes((int64_t)r->reserved, a->q->o->bytes).s);
        table_cell(&table, "%s",
                   i == LIVE || cut ? "-" : units_change((int64_t)a->live, (int64_t)r->reserved).s);
        if (limited)
            table_cell(&table, "%s", r->ran_out ? "no" : "yes");
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
                "  NOTE: %s were refused at %s: no block is of that request, and all of the above is without "
                "it\n",
                units_bytes(kept[i].requested, a->q->o->bytes).s, units_time(kept[i].t).s);
    free(kept);
}

static void print_text(const struct answers *a)
{
    bool exact = a->q->o->bytes, ended = refusal_ended(a->t, a->device);
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
    print_table(a);
    for (int i = 0; i < POLICIES; i++) {
        if (!a->q->wanted[i])
            continue;
        char *relies = reliance(a, i), *out = a->of[i].ran_out ? where_out(a, &a->of[i]) : NULL;
        printf("  %s: %s%s", policy_names[i], out ? out : "", out ? "; " : "");
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
        json_text(j, "policy", policy_names[i]);
        json_bool(j, "approximation", i == ASYNC);
        json_int(j, "reserved_bytes", (int64_t)r->reserved);
        json_bool(j, "fits", !r->ran_out);
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
    a->limit = replay_last_limit(&a->tape, trace_find_device(a->t, a->device));
    struct replay_result live;
    replay_live(&a->tape, 0, &live);
    a->live = live.reserved;
    for (int i = 0; i < POLICIES; i++)
        if (a->q->wanted[i])
            ask(a, i);
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
            policy = policy >= 0 || i >= PACKED ? FEED_POLICIES : i;
    return policy;
}

static int ask_edits(struct answers *a, struct json *j)
{
    bool wanted[FEED_POLICIES] = {a->q->wanted[LIVE], a->q->wanted[NATIVE], a->q->wanted[EXPANDABLE],
                                  a->q->wanted[ARENA]};
    int policy = one_policy(a->q);
    wanted[FEED_LIVE] = true; /* what the others are compared by */
    struct torch_settings settings = settings_of(a);
    const struct trace_tape *tape = &a->tape;
    bool other = policy >= 0 || a->q->capacity || a->q->setting_count;
    bool native = !tape->imported && !tape->arena && !tape->expandable;
    struct edits_question q = {
        &a->q->o->edits, &settings, wanted, policy, other, native, lacks_blocks(a->t, a->device),
        a->q->o->bytes};
    trace_free_tape(&a->tape); /* as large as the program that is read now */
    return edits_answer(a->t, a->device, &q, j);
}

/* 1: answered, 0: the device had no blocks, -1: said why not. */
static int answer_device(struct trace *t, const struct question *q, int64_t device, struct json *j)
{
    struct answers *a = xrealloc(NULL, sizeof *a);
    *a = (struct answers){.t = t, .q = q, .device = device, .late = is_late(t, device)};
    if (trace_tape(t, device, &a->tape)) {
        complain("whatif: %s", t->why);
        free(a);
        return -1;
    }
    bool any = a->tape.ids > 0;
    int status = 0;
    if (any && j) {
        json_begin(j, NULL, '{');
        json_int(j, "device", device);
    }
    if (any && (j || !q->o->edits.count))
        ask_policies(a, j);
    if (any && wants_edits(q))
        status = ask_edits(a, j);
    else if (any && j)
        no_edits(j);
    if (any && j)
        json_end(j);
    trace_free_tape(&a->tape);
    free(a);
    return status ? -1 : any;
}

/* A replay of some of the events would be one of another run. */
static int check_whole(const struct trace *t)
{
    if (t->thinned)
        return complain("whatif: %s has not every event any more: record with VRAMSCOPE_MAX_BYTES=0",
                        t->path);
    if (trace_has_loss(t, LOSS_EVENTS))
        return complain("whatif: %s lacks events that were lost: a replay would be one of another run "
                        "(VRAMSCOPE_RING_EVENTS)",
                        t->path);
    return 0;
}

static int answer(struct trace *t, const struct question *q)
{
    struct json json, *j = q->o->json ? &json : NULL;
    int64_t first = q->o->device == UNKNOWN ? 0 : q->o->device,
            last = q->o->device == UNKNOWN ? 63 : q->o->device;
    int answered = 0, one = 0;
    int bad = check_whole(t);
    if (bad)
        return bad;
    json_open(&json, stdout);
    if (j) {
        json_document(j);
        json_text(j, "file", t->path);
        json_begin(j, "devices", '[');
    }
    for (int64_t d = first; d <= last && one >= 0; d++)
        if (trace_find_peak(t, d, "framework") && (one = answer_device(t, q, d, j)) > 0)
            answered++;
    if (j) {
        json_end(j);
        json_end(j);
        json_close(j);
    }
    if (one < 0)
        return EXIT_USAGE;
    if (!answered)
        return complain("whatif: %s has no blocks of a framework's allocator%s: there is nothing to replay",
                        t->path, q->o->device == UNKNOWN ? "" : " on that device");
    return EXIT_GOOD;
}

/* Laws of several recordings: whatif --batch=1..64 a.db:batch=1,seq=512 b.db:batch=2,seq=512 ... */
static int answer_sizes(const struct options *o, char **files, int n)
{
    struct law_request request = o->sizes;
    request.device = o->device;
    request.json = o->json;
    request.bytes = o->bytes;
    if (o->policy)
        return complain("whatif: --policy does not go with --batch and --seq, which answer for all");
    if (o->edits.count)
        return complain("whatif: --edit does not go with --batch and --seq: ask it of one recording");
    if (o->capacity && !read_size(o->capacity, &request.capacity))
        return complain("whatif: --capacity takes a size such as 80GiB, not '%s'", shown(o->capacity));
    return law_whatif(&request, files, (size_t)n);
}

static int answer_file(struct options *o, char **operands, int n)
{
    struct question q = {.o = o};
    struct trace t;
    int status = read_question(&q, operands + 1, n - 1);
    if (status)
        return status;
    if (relabel_open(&t, operands[0], &(struct relabel){.process = o->process}))
        return complain("%s", t.why);
    if (!o->json)
        wrap_page_begin(false);
    status = answer(&t, &q);
    wrap_page_end();
    trace_close(&t);
    return status;
}

int cmd_whatif(int argc, char **argv)
{
    struct options o = {.device = UNKNOWN};
    char **operands;
    int n = args_parse(&help, argc, argv, &o, &operands), status;
    if (n < 0)
        status = n == -1 ? EXIT_GOOD : EXIT_USAGE;
    else if (n == 0)
        status = complain("whatif: name a recording: vramscope whatif run.db");
    else if (o.sizes.batch || o.sizes.seq)
        status = answer_sizes(&o, operands, n);
    else if (o.sizes.plot)
        status = complain("whatif: --plot goes with --batch or --seq; vramscope plot draws a recording");
    else
        status = answer_file(&o, operands, n);
    free(o.edits.values);
    return status;
}
