/* growth.c - memory that grows from step to step, as text and JSON. */
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "stack.h"
#include "base/shown.h"
#include "base/table.h"
#include "trace/event.h"
#include "base/units.h"
#include "base/page.h"
#include "read/stacks.h"

#define B(n)   units_bytes(n, exact).s
#define SHOWN  8
#define STACKS 2
#define FRAMES 6

/* The categories of the view live_at_peak. */
static const char *category_of(const struct growth_group *g)
{
    if (g->op == VS_OP_BLOCK_ALLOC)
        return "framework block";
    switch (g->space) {
    case VS_SPACE_POOL:
        return "direct pool";
    case VS_SPACE_ARRAY:
        return "direct array";
    case VS_SPACE_GRAPH:
        return "direct graph";
    }
    return g->op == VS_OP_PHYS_CREATE ? "direct physical" : "direct";
}

static const char *phase_of(const struct trace *t, const struct growth_group *g)
{
    return g->phase >= 0 && (size_t)g->phase < t->phase_name_count ? t->phase_names[g->phase] : NULL;
}

static char *name_of(struct trace *t, const struct growth_group *g)
{
    const char *owner = g->stack > 0 ? trace_owner(t, g->stack) : NULL;
    struct holder h = {
        .category = category_of(g), .phase = phase_of(t, g), .owner = owner, .no_stack = g->stack <= 0};
    char *who = report_holder_name(&h);
    bool framework = g->op == VS_OP_BLOCK_ALLOC;
    char *name = framework && owner ? xformat("%s, %s", who, owner) : xstrdup(who);
    free(who);
    return name;
}

static char *sizes_of(const struct growth_group *g, bool exact)
{
    if (g->least_size == g->greatest_size)
        return xstrdup(B(g->least_size));
    char *least = xstrdup(B(g->least_size)), *sizes = xformat("%s to %s", least, B(g->greatest_size));
    free(least);
    return sizes;
}

/* The program's line of a group; without one, what else is known of it. */
static char *place_of(struct trace *t, const struct growth_group *g)
{
    const char *line = g->stack > 0 ? trace_line(t, g->stack) : NULL;
    return line ? line_text(line) : name_of(t, g);
}

static int by_bytes(const void *a, const void *b)
{
    const struct report_leak *x = a, *y = b;
    return x->all.bytes != y->all.bytes ? (x->all.bytes < y->all.bytes) - (x->all.bytes > y->all.bytes)
                                        : strcmp(x->place, y->place);
}

static void add_group(struct growth_group *all, const struct growth_group *g)
{
    all->bytes += g->bytes;
    all->count += g->count;
    all->least_size = g->least_size < all->least_size ? g->least_size : all->least_size;
    all->greatest_size = g->greatest_size > all->greatest_size ? g->greatest_size : all->greatest_size;
    all->since = g->since > all->since ? g->since : all->since;
}

/* A line that many layers go through has a kind for each of them, and none of these need be the largest. */
struct report_leak *report_leaks(struct trace *t, const struct growth *g, size_t *n)
{
    struct report_leak *leaks = NULL;
    *n = 0;
    for (size_t i = 0; i < g->count; i++) {
        char *place = place_of(t, &g->groups[i]);
        size_t at = 0;
        while (at < *n && strcmp(leaks[at].place, place))
            at++;
        if (at == *n) {
            *PUSH(leaks, *n) = (struct report_leak){place, g->groups[i], g->groups[i].bytes};
            continue;
        }
        add_group(&leaks[at].all, &g->groups[i]);
        free(place);
    }
    if (*n)
        qsort(leaks, *n, sizeof *leaks, by_bytes);
    return leaks;
}

void report_leaks_free(struct report_leak *leaks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(leaks[i].place);
    free(leaks);
}

static void print_groups(struct trace *t, const struct growth *g, FILE *out, bool exact)
{
    static const char *const header[] = {"a step", "times", "of", "made"};
    struct table table;
    size_t n;
    struct report_leak *leaks = report_leaks(t, g, &n);
    table_init(&table, ">>><", header);
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        const struct growth_group *p = &leaks[i].all;
        char *sizes = sizes_of(p, exact);
        table_cell(&table, "%s", B(p->bytes / g->steps));
        table_cell(&table, "%.3g", (double)p->count / (double)g->steps);
        table_cell(&table, "%s", sizes);
        table_cell(&table, "%s", leaks[i].place);
        free(sizes);
    }
    table_print(&table, out, 4);
    table_free(&table);
    if (n > SHOWN)
        fprintf(out, "    and %s more\n", units_count((int64_t)(n - SHOWN), "line").s);
    report_leaks_free(leaks, n);
}

static void print_stacks(struct trace *t, const struct growth *g, FILE *out, bool exact, bool full)
{
    size_t printed = 0, hidden = 0, n;
    struct report_leak *leaks = report_leaks(t, g, &n);
    for (size_t i = 0; i < n && printed < STACKS; i++) {
        const struct growth_group *p = &leaks[i].all;
        if (p->stack <= 0)
            continue;
        char *line = stack_line_text(t, p->stack);
        bool part = leaks[i].most < p->bytes;
        fprintf(out, "    the %s%s a step%s came from%s\n", part ? "largest part of it, " : "",
                B(leaks[i].most / g->steps), part ? "," : "", line);
        free(line);
        hidden += stack_print(t, p->stack, full ? 0 : FRAMES, full, 8, out);
        printed++;
    }
    report_leaks_free(leaks, n);
    if (!printed)
        fprintf(out, "    no call stack was taken of it: %s takes native ones of the framework's too\n",
                trace_is_imported(t) ? "a snapshot with stacks=\"all\"" : "VRAMSCOPE_STACKS=all");
    stack_print_hidden(hidden, out);
}

char *report_leak_words(struct trace *t, const struct growth *g, bool exact)
{
    size_t n;
    struct report_leak *leaks = report_leaks(t, g, &n);
    const struct growth_group *top = &leaks[0].all;
    char *all = n == 1 ? xstrdup("") : xformat("; +%s a step in all", B(g->bytes / g->steps));
    char *words = xformat("+%s a step since step %lld, %s (or a cache that is not full yet)%s",
                          B(top->bytes / g->steps), (long long)top->since, leaks[0].place, all);
    free(all);
    report_leaks_free(leaks, n);
    return words;
}

/* That no leak is named does not mean that there is none. */
void report_growth_unknown_text(const struct growth *g, FILE *out)
{
    if (g->known)
        return;
    if (g->why)
        wrap_print(out, 4, 6, "growth: unknown, %s", g->why);
    else if (g->seen > 0)
        wrap_print(out, 4, 6, "growth: unknown, %s in full in the file, %d needed",
                   units_count(g->seen, "step").s, GROWTH_STEPS);
}

void report_leak_text(struct trace *t, const struct growth *g, FILE *out, bool exact)
{
    if (!g->known || !g->count)
        return;
    char *words = report_leak_words(t, g, exact);
    wrap_print(out, 4, 6, "leak: %s", words);
    free(words);
}

void report_growth_text(struct trace *t, const struct growth *g, FILE *out, bool exact, bool full)
{
    if (!g->known || !g->count)
        return;
    fprintf(out,
            "\n  growth: %s of what steps %lld to %lld made was still there when step %lld %s: %s a step\n",
            B(g->bytes), (long long)g->first_step, (long long)g->last_step, (long long)g->last_step,
            g->freed_in_last ? "last allocated (it was freed before the step's end)" : "ended",
            B(g->bytes / g->steps));
    print_groups(t, g, out, exact);
    print_stacks(t, g, out, exact, full);
    fprintf(out, "    a leak, or what fills up or is cleared only later: the recording cannot tell which\n");
}

/* ---- JSON ---- */

static void group_json(struct trace *t, const struct growth *g, const struct growth_group *p, struct json *j)
{
    json_begin(j, NULL, '{');
    json_text(j, "category", category_of(p));
    json_text(j, "phase", phase_of(t, p));
    json_text(j, "library", p->stack > 0 ? trace_owner(t, p->stack) : NULL);
    json_text(j, "line", p->stack > 0 ? trace_line(t, p->stack) : NULL);
    json_int(j, "stack", p->stack > 0 ? p->stack : UNKNOWN);
    json_int(j, "size_bytes", p->bytes);
    json_int(j, "allocations", p->count);
    json_int(j, "per_step_bytes", p->bytes / g->steps);
    json_int(j, "since_step", p->since);
    json_int(j, "least_allocation_bytes", p->least_size);
    json_int(j, "greatest_allocation_bytes", p->greatest_size);
    json_end(j);
}

void report_growth_json(struct trace *t, const struct growth *g, struct json *j)
{
    json_begin(j, "growth", '{');
    json_int(j, "first_step", g->known ? g->first_step : UNKNOWN);
    json_int(j, "last_step", g->known ? g->last_step : UNKNOWN);
    json_int(j, "size_bytes", g->known ? g->bytes : UNKNOWN);
    json_int(j, "per_step_bytes", g->known ? g->bytes / g->steps : UNKNOWN);
    json_begin(j, "grows", '[');
    for (size_t i = 0; i < g->count; i++)
        group_json(t, g, &g->groups[i], j);
    json_end(j);
    json_end(j);
}
