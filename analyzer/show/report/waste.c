/*
 * waste.c - see waste.h.  The column "peak at least" is the peak of the replay with sure uses, "at most
 * lower" what that saves; "as seen" is what all uses that were seen save, which is no more than that.  Where
 * events are missing there is no replay, and where no use is recorded as sure what was seen stands alone.  Of
 * each block only the longest idle time is recorded: the bound is one of what is counted.
 */
#include "waste.h"

#include <stdlib.h>
#include <string.h>

#include "base/page.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "read/curve.h"
#include "trace/roles.h"
#include "stack.h"
#include "parts.h"

#define B(n) units_bytes(n, exact).s

static const char *const names[WASTE_KINDS] = {[WASTE_NEVER] = "never used",
                                               [WASTE_EARLY] = "allocated early",
                                               [WASTE_LATE] = "freed late",
                                               [WASTE_IDLE] = "idle"};
static const char *const codes[WASTE_KINDS] = {
    [WASTE_NEVER] = "never used", [WASTE_EARLY] = "early", [WASTE_LATE] = "late free", [WASTE_IDLE] = "idle"};

/* ---- loading ---- */

static const char *why_unknown(const struct report *r, const struct device_report *d,
                               const struct waste_page *p)
{
    if (!d->allocated || d->allocated->bytes <= 0)
        return "nothing was allocated";
    if (p->followed.followed == 0)
        return trace_is_imported(r->trace)
                   ? "a snapshot has no uses of memory"
                   : "no use of memory was followed: record it with `vramscope run --access`";
    if (r->lost_events > 0)
        return "events were lost";
    if (r->trace->thinned)
        return "some events are not in the file one by one (VRAMSCOPE_MAX_BYTES)";
    if (d->allocated->at_least)
        return "a library's pool does not report what it uses";
    return NULL;
}

int waste_page_load(struct waste_page *p, const struct report *r, const struct device_report *d)
{
    struct trace_total *totals = NULL;
    size_t n = 0, count = 0, most = 0;
    *p = (struct waste_page){.device = d};
    if (trace_followed(r->trace, d->device, &p->followed))
        return -1;
    p->why = why_unknown(r, d, p);
    if (p->why)
        return 0;
    int result = trace_waste(r->trace, d->device, false, &p->rows, &count) ||
                 trace_waste(r->trace, d->device, true, &p->most_rows, &most) ||
                 trace_totals(r->trace, d->device, &totals, &n);
    p->known = !result && n > 0;
    p->sure = p->known && trace_knows_sure(r->trace);
    if (p->known) {
        p->report = waste_of(totals, n, p->rows, count);
        p->most = waste_of(totals, n, p->most_rows, most);
        if (p->sure)
            waste_join(&p->report, &p->most);
    } else
        p->why = "it has no events";
    free(totals);
    return result ? -1 : 0;
}

void waste_page_free(struct waste_page *p)
{
    waste_free(&p->report);
    waste_free(&p->most);
    free(p->rows);
    free(p->most_rows);
    *p = (struct waste_page){.device = NULL};
}

/* What the peak is at the least without what B counts, whose sure uses alone give MOST (NULL: no row);
 * UNKNOWN: it is not recorded which these are. */
static int64_t least(const struct waste_page *p, const struct waste_bound *b, const struct waste_bound *most)
{
    if (!p->sure)
        return UNKNOWN;
    return most && most->mended < b->mended ? most->mended : b->mended;
}

static const struct waste_bound *most_of(const struct waste_page *p, const struct waste_group *g)
{
    const struct waste_group *like = waste_group_like(&p->most, g);
    return like ? &like->bound : NULL;
}

/* ---- text ---- */

static void bound_cells(struct table *t, const struct waste_page *p, const struct waste_bound *b,
                        const struct waste_bound *most, bool exact)
{
    int64_t peak = p->report.peak, mended = least(p, b, most);
    table_cell(t, "%lld", (long long)b->count);
    table_cell(t, "%s", B(b->at_peak));
    if (mended != UNKNOWN) {
        table_cell(t, "%s", B(mended));
        table_cell(t, "%s", B(peak - mended));
    }
    table_cell(t, "%s", B(peak - b->mended));
}

static void print_kinds(const struct waste_page *p, FILE *out, bool exact)
{
    static const char *const header[] = {"unused",        "times",         "at the peak",
                                         "peak at least", "at most lower", "as seen"};
    static const char *const seen_alone[] = {"unused", "times", "at the peak", "lower as seen"};
    const struct waste_report *w = &p->report;
    struct table t;
    table_init(&t, p->sure ? "<>>>>>" : "<>>>", p->sure ? header : seen_alone);
    for (int kind = 0; kind < WASTE_KINDS; kind++) {
        table_cell(&t, "%s", names[kind]);
        bound_cells(&t, p, &w->kind[kind], &p->most.kind[kind], exact);
    }
    table_rule(&t);
    table_cell(&t, "all together");
    bound_cells(&t, p, &w->all, &p->most.all, exact);
    fputc('\n', out);
    table_print(&t, out, 2);
    table_free(&t);
}

/* "train.py:41 main" */
static char *line_of(const struct waste_group *g)
{
    return g->line ? line_text(g->line) : xstrdup("no Python line");
}

/* "in Llama.layers.*, activation"; "": neither is known */
static char *layer_of(const struct waste_group *g)
{
    const char *role = vs_role_named(g->role) != VS_ROLE_UNTOLD ? g->role : "";
    if (!g->layer)
        return xstrdup(role);
    return xformat("in %s%s%s", shown(g->layer), *role ? ", " : "", role);
}

static void group_row(struct table *t, const struct waste_page *p, const struct waste_group *g, bool exact,
                      bool apart)
{
    int64_t peak = p->report.peak;
    char *line = line_of(g), *layer = layer_of(g);
    if (p->sure)
        table_cell(t, "%s", B(peak - least(p, &g->bound, most_of(p, g))));
    table_cell(t, "%s", B(peak - g->bound.mended));
    table_cell(t, "%s", names[g->kind]);
    table_cell(t, "%s%s%s", line, !apart && *layer ? ", " : "", apart ? "" : layer);
    for (int i = p->sure ? 0 : 1; apart && *layer && i < 3; i++)
        table_cell(t, "%s", "");
    if (apart && *layer)
        table_cell(t, "  %s", layer);
    free(line);
    free(layer);
}

/* APART: the layer and the role of each group are in a line below its own. */
static struct table groups_table(const struct waste_page *p, size_t rows, bool exact, bool apart)
{
    static const char *const header[] = {"at most lower", "as seen", "", "asked for by"};
    static const char *const seen_alone[] = {"lower as seen", "", "asked for by"};
    struct table t;
    table_init(&t, p->sure ? ">><<" : "><<", p->sure ? header : seen_alone);
    for (size_t i = 0; i < rows; i++)
        group_row(&t, p, &p->report.groups[i], exact, apart);
    return t;
}

/* What the groups from FIRST on lower the peak by at most, each alone. */
static int64_t most_lower(const struct waste_report *w, size_t first)
{
    int64_t least = w->peak;
    for (size_t i = first; i < w->count; i++)
        least = w->groups[i].least < least ? w->groups[i].least : least;
    return w->peak - least;
}

static void print_groups(const struct waste_page *p, FILE *out, int64_t top, bool exact, bool full)
{
    const struct waste_report *w = &p->report;
    size_t rows = top && (size_t)top < w->count ? (size_t)top : w->count;
    struct table t = groups_table(p, rows, exact, false);
    if (!full && table_needs(&t) + 2 > page_room()) {
        table_free(&t);
        t = groups_table(p, rows, exact, true);
    }
    t.sentences = full; /* else a place has what room the page leaves */
    fprintf(out, "\n  each line and layer alone%s\n", p->sure ? ", what was seen to lower most first" : "");
    table_print(&t, out, 2);
    table_free(&t);
    if (rows < w->count && p->sure)
        fprintf(out, "  and %zu more, each at most %s lower\n", w->count - rows, B(most_lower(w, rows)));
    else if (rows < w->count)
        fprintf(out, "  and %zu more\n", w->count - rows);
}

static void print_legend(const struct waste_page *p, FILE *out, bool exact)
{
    const struct trace_followed *f = &p->followed;
    fputc('\n', out);
    wrap_print(out, 2, 4,
               "allocated early: from the allocation to the first use; freed late: from the last use to the "
               "free; idle: the "
               "longest time between two uses; each of a millisecond or more, as the uses were enqueued");
    if (p->sure)
        wrap_print(
            out, 2, 4,
            "as seen: where each address was used that a kernel was given; at most: where those inside of "
            "structures were not, as an earlier call may have left them there, and blocks freed late or "
            "never "
            "used "
            "for less than a millisecond count, too. Mending what is counted here cannot lower the peak by "
            "more, "
            "and "
            "may cost memory or time elsewhere; shorter times before the first use, and other times between "
            "two "
            "uses than the longest that was seen, are not counted, and may lie over the peak, too");
    else
        wrap_print(
            out, 2, 4,
            "as seen: where each address was used that a kernel was given; what an earlier call left in "
            "a structure counts as a use, so the peak may fall by more; and mending may cost memory or "
            "time elsewhere");
    if (f->unseen > 0)
        wrap_print(out, 2, 4, "%s of the peak may have been used unseen, and counts as used", B(f->unseen));
    if (f->all > f->followed)
        wrap_print(out, 2, 4, "%s of the peak was not followed, and counts as used", B(f->all - f->followed));
}

static void print_headline(const struct waste_page *p, FILE *out, bool exact)
{
    const struct waste_report *w = &p->report;
    int64_t mended = least(p, &w->all, &p->most.all), seen = w->peak - w->all.mended;
    if (!p->sure)
        wrap_print(
            out, 2, 4,
            "peak: %s allocated; without what is counted here it would have been %s (%s) lower as uses "
            "were seen; at most is unknown, as which uses are sure is not in this recording",
            B(w->peak), B(seen), units_share(seen, w->peak).s);
    else if (mended < w->peak)
        wrap_print(
            out, 2, 4,
            "peak: %s allocated; without what is counted here it would have been %s (%s) lower as uses "
            "were seen, and at most %s (%s) lower: at least %s",
            B(w->peak), B(seen), units_share(seen, w->peak).s, B(w->peak - mended),
            units_share(w->peak - mended, w->peak).s, B(mended));
    else
        wrap_print(out, 2, 4, "peak: %s allocated; nothing that is counted here made it higher", B(w->peak));
}

void waste_page_text(const struct waste_page *p, FILE *out, int64_t top, bool exact, bool full)
{
    const struct device_report *d = p->device;
    fprintf(out, "device %lld: %s\n", (long long)d->device, d->name ? shown(d->name) : "unknown name");
    if (!p->known) {
        wrap_print(out, 2, 4, "what lay unused is unknown: %s", p->why);
        return;
    }
    print_headline(p, out, exact);
    print_kinds(p, out, exact);
    if (p->report.count)
        print_groups(p, out, top, exact, full);
    print_legend(p, out, exact);
}

/* ---- JSON ---- */

static void bound_json(const struct waste_page *p, const struct waste_bound *b,
                       const struct waste_bound *most, struct json *j)
{
    int64_t peak = p->report.peak, mended = least(p, b, most);
    json_int(j, "times", b->count);
    json_int(j, "at_peak_bytes", b->at_peak);
    json_int(j, "most_bytes", b->most);
    json_int(j, "longest_ns", b->longest);
    json_int(j, "peak_at_least_bytes", mended);
    json_int(j, "at_most_lower_bytes", mended == UNKNOWN ? UNKNOWN : peak - mended);
    json_int(j, "seen_lower_bytes", peak - b->mended);
}

void waste_page_json(const struct waste_page *p, int64_t top, struct json *j)
{
    const struct waste_report *w = &p->report;
    json_begin(j, NULL, '{');
    json_int(j, "device", p->device->device);
    json_text(j, "unknown_because", p->known ? NULL : p->why);
    json_int(j, "peak_bytes", p->known ? w->peak : UNKNOWN);
    json_int(j, "followed_bytes", p->followed.followed);
    json_int(j, "not_followed_bytes", p->followed.all - p->followed.followed);
    json_int(j, "maybe_used_unseen_bytes", p->followed.unseen);
    json_begin(j, "together", '{');
    if (p->known)
        bound_json(p, &w->all, &p->most.all, j);
    json_end(j);
    json_begin(j, "kinds", '[');
    for (int kind = 0; p->known && kind < WASTE_KINDS; kind++) {
        json_begin(j, NULL, '{');
        json_text(j, "kind", codes[kind]);
        bound_json(p, &w->kind[kind], &p->most.kind[kind], j);
        json_end(j);
    }
    json_end(j);
    json_begin(j, "waste", '[');
    for (size_t i = 0; i < w->count && (!top || i < (size_t)top); i++) {
        json_begin(j, NULL, '{');
        json_text(j, "kind", codes[w->groups[i].kind]);
        json_text(j, "line", w->groups[i].line);
        json_text(j, "layer", w->groups[i].layer);
        role_json(w->groups[i].role, j);
        bound_json(p, &w->groups[i].bound, most_of(p, &w->groups[i]), j);
        json_end(j);
    }
    json_end(j);
    json_end(j);
}
