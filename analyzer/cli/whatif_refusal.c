/*
 * whatif_refusal.c - `vramscope whatif` of a run that ended in an out-of-memory: what would have let that
 * request pass (edit/refusal.h).
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/oom.h"
#include "base/units.h"
#include "edit/refusal.h"
#include "read/ooms.h"
#include "read/steps.h"
#include "whatif/remedies.h"
#include "whatif.h"

struct refused {
    struct trace_oom_kept request;
    struct refusal_answer a;
    bool under;   /* asked of something else than the run had */
    bool changed; /* of other memory or settings */
    int status;   /* what was complained about */
};

int refusal_json(const struct refused *r, struct json *j)
{
    const struct refusal_answer *a = &r->a;
    const struct trace_oom_kept *o = &r->request;
    if (r->status)
        return r->status;
    json_begin(j, "edits", '[');
    json_end(j);
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
    return 0;
}

/* ---- the page ---- */

enum rank { AT_NO_COST, NOT_MADE, PASSES, MAY_PASS, BY_LUCK, NOT_ENOUGH, BOUNDS };

/* An allocator is a change of nothing.  Of the run it is recorded what was missing. */
static struct refusal_change as_change(const struct refused *r, int policy)
{
    const struct refusal_policy *p = &r->a.of[policy];
    return (struct refusal_change){.verdict = p->verdict,
                                   .made = true,
                                   .frees = UNKNOWN,
                                   .room = r->changed || policy != (int)r->a.policy ? p->room : UNKNOWN};
}

void refusal_order(const struct refused *r, int policy, int64_t *rank, int64_t *bytes)
{
    *rank = BOUNDS;
    *bytes = 0;
    if (!r->a.of[policy].asked || !refusal_cure((enum feed_policy)policy))
        return;
    const struct refusal_policy *p = &r->a.of[policy];
    *rank = p->verdict == REFUSAL_PASSES ? AT_NO_COST : PASSES + (int)p->verdict;
    *bytes = *rank == AT_NO_COST ? policy : p->room != UNKNOWN ? -p->room : 0;
}

/* What is left, or freed; with a sign what is missing. */
static char *text_of(int64_t bytes, bool exact)
{
    return bytes == UNKNOWN
               ? NULL
               : xstrdup(bytes < 0 ? units_bytes_change(bytes, exact).s : units_bytes(bytes, exact).s);
}

static bool is_gone(const struct refusal_change *c)
{
    return c->verdict == REFUSAL_PASSES && !c->made;
}

static void fill(const struct refusal_change *c, bool exact, struct whatif_row *row)
{
    static const char *const verdicts[] = {"passes", "may pass", "by luck", "no"};
    bool earlier = c->verdict == REFUSAL_SHORT && c->earlier;
    row->cells[COLUMN_REQUEST] = xstrdup(is_gone(c) ? "not made"
                                         : earlier  ? "not reached"
                                                    : verdicts[c->verdict]);
    if (!is_gone(c) && !earlier && c->verdict != REFUSAL_LUCKY)
        row->cells[COLUMN_LEFT] = text_of(c->room, exact);
    row->cells[COLUMN_FREES] = text_of(c->frees, exact);
}

void refusal_cells(const struct refused *r, int policy, bool exact, struct whatif_row *row)
{
    struct refusal_change c = as_change(r, policy);
    if (r->a.of[policy].asked)
        fill(&c, exact, row);
    else
        row->cells[COLUMN_REQUEST] = xstrdup("unknown");
}

static void add_change(const struct refusal_change *c, bool exact, struct whatif_page *page)
{
    struct whatif_row *row = whatif_row(page, is_gone(c) ? (int)NOT_MADE : (int)PASSES + (int)c->verdict,
                                        c->room == UNKNOWN ? 0 : -c->room);
    row->cells[COLUMN_WHAT] = xstrdup(c->name);
    row->cells[COLUMN_COSTS] = remedy_costs(c->name);
    fill(c, exact, row);
}

/* The program as it is under what it did not have. */
static void add_cures(const struct refusal_answer *a, bool exact, struct whatif_page *page)
{
    for (int i = 0; i < FEED_POLICIES; i++) {
        const char *cure = refusal_cure((enum feed_policy)i);
        if (!a->of[i].asked || !cure || i == (int)a->policy)
            continue;
        char *text = refusal_policy_text(a, (enum feed_policy)i, exact);
        whatif_say(page, "  %s alone: %s", cure, text);
        free(text);
    }
}

/* "torch-expandable, checkpoint=1", that leave at least BYTES; "": none does; owned. */
static char *names_leaving(const struct refusal_answer *a, int64_t bytes)
{
    char *names = xstrdup("");
    for (int i = 0; i < FEED_POLICIES; i++)
        if (a->of[i].asked && refusal_cure((enum feed_policy)i) && a->of[i].verdict == REFUSAL_PASSES &&
            a->of[i].room >= bytes)
            xappend(&names, "%s%s", *names ? ", " : "", feed_policy_names[i]);
    for (size_t i = 0; i < a->count; i++)
        if (a->changes[i].verdict == REFUSAL_PASSES && a->changes[i].made && a->changes[i].room >= bytes)
            xappend(&names, "%s%s", *names ? ", " : "", a->changes[i].name);
    return names;
}

/* What came after the same line's request in a step that ended: who has less left dies there. */
static void add_before(const struct refused *r, struct trace *t, bool exact, struct whatif_page *page)
{
    struct trace_before before;
    if (trace_line_before(t, &r->request, &before) || before.more == UNKNOWN || before.more <= 0)
        return;
    char *names = names_leaving(&r->a, before.more);
    whatif_say(page,
               "  in step %lld the same line got %s, and up to %s more were allocated after it: as much is "
               "left with %s; with less the next request may be refused",
               (long long)before.step, units_bytes(before.size, exact).s, units_bytes(before.more, exact).s,
               *names ? names : "nothing that is tried alone");
    free(names);
}

void refusal_head(const struct refused *r, struct trace *t, bool exact, struct whatif_page *page)
{
    const struct refusal_answer *a = &r->a;
    char *under = r->under ? xformat(", asked of %s with %s", feed_policy_names[a->policy],
                                     units_bytes(a->capacity, exact).s)
                           : xstrdup("");
    whatif_say(page,
               "the request of %s on device %lld at %s, for which there was no memory%s; of what comes "
               "after it nothing is "
               "said:",
               units_bytes(r->request.requested, exact).s, (long long)r->request.device,
               units_time(r->request.t).s, under);
    free(under);
    add_cures(a, exact, page);
    if (!a->why)
        add_before(r, t, exact, page);
}

/* What the table's words mean, those of them that stand in it. */
static void add_rule(struct whatif_page *page)
{
    static const char *const words[][2] = {
        {"passes",
         "also with 1 % less memory, and with sizes up to 1 % larger or smaller, in each of 8 draws"},
        {"by luck", "with sizes or memory as much off not in every draw"},
        {"may pass", "at one end of what the change can mean"},
        {"not made", "the changed program does not ask for it"},
        {"not reached", "another request before it has no room"}};
    _Static_assert(SHAKEN_DRAWS == 8, "as it is said");
    bool left = false;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        for (size_t i = 0; i < page->count; i++)
            if (!strcmp(page->rows[i].cells[COLUMN_REQUEST], words[w][0])) {
                whatif_say(page, "  %s: %s", words[w][0], words[w][1]);
                break;
            }
    for (size_t i = 0; i < page->count; i++)
        left = left || page->rows[i].cells[COLUMN_LEFT];
    if (left)
        whatif_say(page,
                   "  left: the largest request that would pass next; below 0 this one is short by as much");
}

void refusal_page(const struct refused *r, const struct edits_question *q, bool changes, bool why,
                  struct whatif_page *page)
{
    const struct refusal_answer *a = &r->a;
    for (size_t i = 0; i < a->count; i++) {
        char *text = refusal_text(a, &a->changes[i], q->bytes);
        add_change(&a->changes[i], q->bytes, page);
        if (why)
            whatif_say(page, "  %s", text);
        free(text);
    }
    if (changes && a->why)
        whatif_say(page, "  %s%s", a->passes && r->under ? "" : "not known: ", a->why);
    else if (changes && !a->count)
        whatif_say(page, "  no change that is tried frees anything before it");
    add_rule(page);
}

/* ---- asking ---- */

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
    r->changed = q->changed;
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

int refusal_complain(const struct refused *r)
{
    const struct refusal_answer *a = &r->a;
    if (r->status)
        return r->status;
    if (a->policy == FEED_POLICIES)
        return complain("whatif: %s", a->why);
    if (a->unmade)
        return complain("whatif: %s: %s%s", a->unmade, a->nothing ? "nothing to change: " : "", a->why);
    return 0;
}

void refusal_forget(struct refused *r)
{
    if (r)
        refusal_free(&r->a);
    free(r);
}
