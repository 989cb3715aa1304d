/*
 * whatif_refusal.c - `vramscope whatif` of a run that ended in an out-of-memory: what would have let that
 * request pass (edit/refusal.h).
 */
#include <stdlib.h>

#include "analysis/oom.h"
#include "base/units.h"
#include "edit/refusal.h"
#include "read/ooms.h"
#include "read/steps.h"
#include "whatif_edits.h"

static void print_refusal_json(struct json *j, const struct refusal_answer *a, const struct trace_oom_kept *o)
{
    json_begin(j, "refusal", '{');
    json_int(j, "t_ns", o->t);
    json_int(j, "request_bytes", o->requested);
    json_int(j, "capacity_bytes", a->capacity);
    json_text(j, "policy", a->policy < FEED_POLICIES ? feed_policy_names[a->policy] : NULL);
    json_text(j, "why_not", a->why);
    json_begin(j, "changes", '[');
    for (size_t i = 0; i < a->count; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "edit", a->changes[i].name);
        json_text(j, "says", refusal_says(&a->changes[i]));
        json_bool(j, "made", a->changes[i].made);
        json_int(j, "frees_bytes", a->changes[i].frees);
        json_int(j, "room_bytes", a->changes[i].room);
        json_bool(j, "earlier", a->changes[i].earlier);
        json_int(j, "unused_less_bytes", a->changes[i].pieces);
        json_text(j, "assumes", a->changes[i].assumes);
        json_end(j);
    }
    json_end(j);
    json_end(j);
}

static void print_refusal(const struct refusal_answer *a, const struct trace_oom_kept *o, bool under,
                          bool exact)
{
    printf("the request of %s at %s, for which there was no memory", units_bytes(o->requested, exact).s,
           units_time(o->t).s);
    if (under)
        printf(", asked of %s with %s", feed_policy_names[a->policy], units_bytes(a->capacity, exact).s);
    puts("; of what comes after it nothing is said:");
    if (a->why)
        printf("  %s%s\n", a->passes && under ? "" : "not known: ", a->why);
    else if (!a->count)
        puts("  no change that is tried frees anything before it");
    for (size_t i = 0; i < a->count; i++) {
        char *text = refusal_text(a, &a->changes[i], exact);
        printf("  %s\n", text);
        free(text);
    }
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

bool refusal_ended(struct trace *t, int64_t device)
{
    struct trace_oom_kept last;
    return find_last(t, device, &last);
}

/* Of such a run nothing is known of what comes after the request: the changes are asked about it alone. */
int refusal_print(struct trace *t, int64_t device, const struct edits_question *q, struct json *j)
{
    struct refusal_answer a;
    struct trace_oom_kept last, *o = &last;
    if (!find_last(t, device, o))
        return 0;
    size_t n = q->edits->count;
    struct edit *own = xrealloc(NULL, (n + 1) * sizeof *own);
    const struct edit **edits = xrealloc(NULL, (n + 1) * sizeof *edits);
    char *why;
    for (size_t i = 0; i < n; i++) {
        edit_parse(q->edits->values[i], &own[i], &why);
        edits[i] = &own[i];
    }
    int status = 0;
    struct refusal_under under = {q->settings, q->policy}, *other = q->other ? &under : NULL;
    if (q->policy == FEED_POLICIES) {
        a = (struct refusal_answer){.capacity = UNKNOWN,
                                    .policy = FEED_POLICIES,
                                    .why = xstrdup("a run that ended out of memory is asked "
                                                   "about under one allocator: --policy "
                                                   "takes one with --edit")};
        status = j ? 0 : complain("whatif: %s", a.why);
    } else if (refusal_answer(t, o, other, edits, n, &a)) {
        status = complain("whatif: %s", t->why);
    }
    if (!status && !j && a.unmade)
        status = complain("whatif: %s: %s%s", a.unmade, a.nothing ? "nothing to change: " : "", a.why);
    if (status) {
        /* said */
    } else if (j) {
        json_begin(j, "edits", '[');
        json_end(j);
        print_refusal_json(j, &a, o);
    } else {
        print_refusal(&a, o, other != NULL, q->bytes);
    }
    refusal_free(&a);
    free(own);
    free(edits);
    return status;
}
