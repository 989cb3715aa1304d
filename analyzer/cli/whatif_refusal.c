/*
 * whatif_refusal.c - `vramscope whatif` of a run that ended in an out-of-memory: what would have let that
 * request pass (edit/refusal.h).
 */
#include <stdlib.h>

#include "analysis/oom.h"
#include "base/units.h"
#include "base/wrap.h"
#include "edit/refusal.h"
#include "edit/shaken.h"
#include "read/ooms.h"
#include "read/steps.h"
#include "whatif_edits.h"

struct refused {
    struct trace_oom_kept request;
    struct refusal_answer a;
    bool under; /* asked of something else than the run had */
    int status; /* what was complained about */
};

static void print_refusal_json(struct json *j, const struct refusal_answer *a, const struct trace_oom_kept *o)
{
    json_begin(j, "refusal", '{');
    json_int(j, "t_ns", o->t);
    json_int(j, "request_bytes", o->requested);
    json_int(j, "capacity_bytes", a->capacity);
    json_text(j, "policy", a->policy < FEED_POLICIES ? feed_policy_names[a->policy] : NULL);
    json_text(j, "why_not", a->why);
    json_begin(j, "policies", '[');
    for (int i = 0; i < FEED_POLICIES; i++) {
        if (!a->of[i].asked)
            continue;
        json_begin(j, NULL, '{');
        json_text(j, "policy", feed_policy_names[i]);
        json_text(j, "by", refusal_cure((enum feed_policy)i));
        json_bool(j, "passes", a->of[i].verdict == REFUSAL_PASSES);
        json_bool(j, "by_luck", a->of[i].verdict == REFUSAL_LUCKY);
        json_int(j, "room_bytes", a->of[i].room);
        json_end(j);
    }
    json_end(j);
    json_begin(j, "changes", '[');
    for (size_t i = 0; i < a->count; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "edit", a->changes[i].name);
        json_text(j, "says", refusal_says(&a->changes[i]));
        json_bool(j, "made", a->changes[i].made);
        json_int(j, "frees_bytes", a->changes[i].frees);
        json_int(j, "room_bytes", a->changes[i].room);
        json_bool(j, "by_luck", a->changes[i].verdict == REFUSAL_LUCKY);
        json_bool(j, "earlier", a->changes[i].earlier);
        json_int(j, "unused_less_bytes", a->changes[i].pieces);
        json_text(j, "assumes", a->changes[i].assumes);
        json_end(j);
    }
    json_end(j);
    json_end(j);
}

/* The program as it is under what it did not have. */
static void print_policies(const struct refusal_answer *a, bool exact)
{
    for (int i = 0; i < FEED_POLICIES; i++) {
        const char *cure = refusal_cure((enum feed_policy)i);
        if (!a->of[i].asked || !cure || i == (int)a->policy)
            continue;
        char *text = refusal_policy_text(a, (enum feed_policy)i, exact);
        printf("  %s alone: %s\n", cure, text);
        free(text);
    }
}

/* "foreach=no, optimizer=fused", of what passes by luck; NULL: none does; owned. */
static char *lucky_names(const struct refusal_answer *a)
{
    char *names = NULL;
    for (size_t i = 0; i < a->count; i++) {
        if (a->changes[i].verdict != REFUSAL_LUCKY)
            continue;
        char *longer = xformat("%s%s%s", names ? names : "", names ? ", " : "", a->changes[i].name);
        free(names);
        names = longer;
    }
    return names;
}

/* What "would have passed", "left" and "by luck" mean, where they are said. */
static void print_rule(const struct refusal_answer *a)
{
    bool passes = false, luck = false;
    for (size_t i = 0; i < a->count; i++)
        passes = passes || a->changes[i].verdict == REFUSAL_PASSES;
    for (int i = 0; i < FEED_POLICIES; i++) {
        passes = passes || (a->of[i].asked && a->of[i].verdict == REFUSAL_PASSES);
        luck = luck || (a->of[i].asked && a->of[i].verdict == REFUSAL_LUCKY);
    }
    char *lucky = lucky_names(a);
    if (lucky)
        wrap_print(stdout, 2, 4, "%s: this request would have passed by luck", lucky);
    if (passes)
        wrap_print(stdout, 2, 4,
                   "would have passed: also with 1 %% less memory, and with sizes up to 1 %% larger or "
                   "smaller, in each "
                   "of %d draws; left: the largest request that it would get next",
                   SHAKEN_DRAWS);
    if (luck || lucky)
        wrap_print(stdout, 2, 4, "by luck: with sizes or memory as much off it would not in every draw");
    free(lucky);
}

static void print_refusal(const struct refused *r, bool exact)
{
    const struct refusal_answer *a = &r->a;
    printf("the request of %s at %s, for which there was no memory",
           units_bytes(r->request.requested, exact).s, units_time(r->request.t).s);
    if (r->under)
        printf(", asked of %s with %s", feed_policy_names[a->policy], units_bytes(a->capacity, exact).s);
    puts("; of what comes after it nothing is said:");
    print_policies(a, exact);
    if (a->why)
        printf("  %s%s\n", a->passes && r->under ? "" : "not known: ", a->why);
    else if (!a->count)
        puts("  no change that is tried frees anything before it");
    for (size_t i = 0; i < a->count; i++) {
        if (a->changes[i].verdict == REFUSAL_LUCKY)
            continue;
        char *text = refusal_text(a, &a->changes[i], exact);
        printf("  %s\n", text);
        free(text);
    }
    print_rule(a);
}

/* The last request that a framework gave up on, on this device, if no step ended after it. */
static bool find_last(struct trace *t, int64_t device, struct trace_oom_kept *out)
{
    struct trace_oom_kept *kept = NULL;
    size_t n = 0;
    bool any = false;
    if (trace_ooms_kept(t, &kept, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (kept[i].device == device && kept[i].op == OOM_FRAMEWORK && (!any || kept[i].seq > out->seq)) {
            *out = kept[i];
            any = true;
        }
    free(kept);
    return any && trace_steps_after(t, out->t) <= 0;
}

/* Of such a run nothing is known of what comes after the request: the changes are asked about it alone. */
static int ask(struct trace *t, const struct edits_question *q, bool changes, struct refused *r)
{
    size_t n = q->edits->count;
    struct edit *own = xrealloc(NULL, (n + 1) * sizeof *own);
    const struct edit **edits = xrealloc(NULL, (n + 1) * sizeof *edits);
    char *why;
    for (size_t i = 0; i < n; i++) {
        edit_parse(q->edits->values[i], &own[i], &why);
        edits[i] = &own[i];
    }
    int policy = n ? q->policy : -1; /* which the table is to have, and no end of the question */
    struct refusal_under under = {q->settings, policy};
    r->under = policy >= 0 || q->changed;
    int bad =
        refusal_answer(t, &r->request, r->under ? &under : NULL, n || !changes ? edits : NULL, n, &r->a);
    free(own);
    free(edits);
    return bad;
}

struct refused *refusal_ask_about(struct trace *t, int64_t device, const struct edits_question *q,
                                  bool changes)
{
    struct refused *r = xrealloc(NULL, sizeof *r);
    *r = (struct refused){.status = 0};
    if (!find_last(t, device, &r->request)) {
        free(r);
        return NULL;
    }
    if (q->edits->count && q->policy == FEED_POLICIES)
        r->a = (struct refusal_answer){.capacity = UNKNOWN,
                                       .policy = FEED_POLICIES,
                                       .why = xstrdup("a run that ended out of memory is asked "
                                                      "about under one allocator: --policy "
                                                      "takes one with --edit")};
    else if (ask(t, q, changes, r))
        r->status = complain("whatif: %s", t->why);
    return r;
}

int refusal_print(const struct refused *r, const struct edits_question *q, struct json *j)
{
    const struct refusal_answer *a = &r->a;
    if (r->status)
        return r->status;
    if (j) {
        json_begin(j, "edits", '[');
        json_end(j);
        print_refusal_json(j, a, &r->request);
        return 0;
    }
    if (a->policy == FEED_POLICIES)
        return complain("whatif: %s", a->why);
    if (a->unmade)
        return complain("whatif: %s: %s%s", a->unmade, a->nothing ? "nothing to change: " : "", a->why);
    print_refusal(r, q->bytes);
    return 0;
}

char *refusal_of_policy(const struct refused *r, int policy, bool exact)
{
    const struct refusal_policy *p = policy < FEED_POLICIES ? &r->a.of[policy] : NULL;
    if (!p || !p->asked)
        return xstrdup(p ? "unknown" : "-");
    if (p->verdict == REFUSAL_PASSES)
        return xformat("passes, %s left", units_bytes(p->room, exact).s);
    return xstrdup(p->verdict == REFUSAL_LUCKY ? "passes by luck" : "no");
}

void refusal_forget(struct refused *r)
{
    if (r)
        refusal_free(&r->a);
    free(r);
}
