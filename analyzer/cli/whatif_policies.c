/*
 * whatif_policies.c - see whatif_policies.h.
 */
#include <stdlib.h>

#include "whatif_policies.h"

struct torch_settings policies_settings(const struct answers *a)
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
    struct torch_settings s = policies_settings(a);
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
    int others = 0;
    a->own = POLICIES;
    for (int i = NATIVE; i < POLICIES; i++)
        others += i != (int)a->run && a->q->wanted[i];
    if (!others || !a->q->wanted[a->run] || !a->of[a->run].compared)
        return;
    replay_as_torch(a, a->run, false, &a->alike);
    a->own = a->alike.reserved != a->of[a->run].reserved ? (int)a->run : POLICIES;
}

bool policies_all_same(const struct replay_result *r)
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
    return policies_all_same(&as_recorded.of[own]);
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

/* What the others' figures are compared with: the recorded allocator and settings, begun like the others. */
static uint64_t base_of(const struct answers *a)
{
    bool changed = a->q->setting_count || a->q->capacity;
    struct question plain = *a->q;
    struct answers as_recorded = *a;
    struct replay_result r;
    if (!changed && a->own != POLICIES)
        return a->alike.reserved;
    if (!changed && a->q->wanted[a->run])
        return a->of[a->run].reserved;
    plain.setting_count = 0;
    plain.capacity = 0;
    as_recorded.q = &plain;
    if (a->run == ARENA)
        replay_arena(&a->tape, 0, &r);
    else
        replay_as_torch(&as_recorded, a->run, false, &r);
    return r.reserved;
}

void policies_begin(struct answers *a)
{
    const struct trace_peak *peak = trace_find_peak(a->t, a->device, "managed_reserved");
    a->recorded = peak && peak->bytes > 0 ? peak->bytes : UNKNOWN;
    a->limit = replay_last_limit(&a->tape, trace_find_device(a->t, a->device));
    a->run = a->tape.arena ? ARENA : a->tape.expandable ? EXPANDABLE : NATIVE;
    struct replay_result live;
    a->own = POLICIES;
    replay_live(&a->tape, 0, &live);
    a->live = live.reserved;
    find_ties(a);
}

void policies_ask(struct answers *a)
{
    for (int i = 0; i < POLICIES; i++)
        if (a->q->wanted[i])
            ask(a, i);
    ask_alike(a);
    a->base = base_of(a);
    /* where the recording is met with them as the common one's, they were */
    a->pools_matter = a->tape.pools_unknown && !is_met(a);
}

void policies_json(const struct answers *a, struct json *j)
{
    json_int(j, "blocks", a->tape.ids);
    json_int(j, "live_bytes", (int64_t)a->live);
    json_int(j, "recorded_reserved_bytes", a->recorded);
    json_text(j, "recorded_policy", whatif_policies[a->run]);
    json_int(j, "compared_with_bytes", (int64_t)a->base);
    json_int(j, "limit_bytes", a->limit);
    json_text(j, "settings_from_environment", a->tape.environment);
    json_begin(j, "policies", '[');
    for (int i = 0; i < POLICIES; i++) {
        const struct replay_result *r = &a->of[i];
        if (!a->q->wanted[i])
            continue;
        char *relies = policies_reliance(a, i, true);
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
        json_bool(j, "exact", r->compared && policies_all_same(r));
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
