/* code.c - see code.h.  A row without a line of Python is shown by its call stack. */
#include "code.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/holders.h"
#include "base/page.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "read/stacks.h"
#include "trace/roles.h"
#include "report.h"
#include "stack.h"

#define B(n) units_bytes(n, exact).s
#define CODE 3 /* places in code that are shown at most, */
#define ROWS 4 /* and rows in all, with those without a place that are larger */

struct place {
    char *text;
    int64_t bytes;
    bool code; /* the place in code is known, not only the phase */
};

struct places {
    struct place *at;
    size_t n;
};

static void add_place(struct places *p, char *text, bool code, int64_t bytes)
{
    for (size_t i = 0; i < p->n; i++)
        if (!strcmp(text, p->at[i].text)) {
            p->at[i].bytes += bytes;
            free(text);
            return;
        }
    *PUSH(p->at, p->n) = (struct place){text, bytes, code};
}

/* The innermost informative function of a call stack. */
static char *function_of(struct trace *t, int64_t stack)
{
    struct trace_frame *frames;
    size_t n;
    if (stack <= 0 || trace_stack(t, stack, &frames, &n))
        return NULL;
    char *text = stack_place(frames, n);
    free(frames);
    return text;
}

static char *phase_text(const struct trace_live *l)
{
    if (!l->phase || !strcmp(l->phase, "none"))
        return xstrdup("(no Python line; made outside any phase)");
    return xformat("(no Python line; made in %s)", shown(l->phase));
}

static int by_bytes(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : strcmp(x->text, y->text);
}

/* What a library keeps for itself is none of the line at which it first asked. */
char *report_line_text(const char *line, const char *role)
{
    char *text = line_text(line);
    if (vs_role_named(role) != VS_ROLE_WORKSPACE)
        return text;
    char *named = xformat("workspace: %s", text);
    free(text);
    return named;
}

char *report_code_place(struct trace *t, const struct trace_live *l, size_t *looked_up, bool *code)
{
    bool look = !l->line && l->stack > 0 && (*looked_up)++ < CODE_STACKS;
    char *place = l->line ? report_line_text(l->line, l->role) : look ? function_of(t, l->stack) : NULL;
    *code = place != NULL;
    return place ? place : phase_text(l);
}

/* The rows of live are sorted, the greatest first. */
static struct places places_of(struct trace *t, const struct trace_live *live, size_t n)
{
    struct places p = {0};
    size_t looked_up = 0;
    for (size_t i = 0; i < n; i++) {
        bool code;
        char *text = report_code_place(t, &live[i], &looked_up, &code);
        add_place(&p, text, code, live[i].size);
    }
    if (p.n)
        qsort(p.at, p.n, sizeof *p.at, by_bytes);
    return p;
}

/* ---- what it was asked for as ---- */

struct asked_as {
    char *words;
    int64_t bytes, count;
};

struct asked {
    struct trace_tensor *tensors; /* of all places */
    size_t n;
};

static int by_words(const void *a, const void *b)
{
    return strcmp(((const struct asked_as *)a)->words, ((const struct asked_as *)b)->words);
}

/* The tensors of the place, those of equal words together; the caller frees them and their words. */
static struct asked_as *asked_of(const struct asked *asked, const char *place, size_t *count)
{
    struct asked_as *all = NULL;
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < asked->n; i++) {
        const struct trace_tensor *x = &asked->tensors[i];
        char *line = x->line && x->made_for ? line_text(x->line) : NULL;
        if (line && !strcmp(line, place))
            *PUSH(all, n) = (struct asked_as){trace_tensor_words(x->made_for, x->element_type, x->shape),
                                              x->size, x->count};
        free(line);
    }
    if (n)
        qsort(all, n, sizeof *all, by_words);
    for (size_t i = 0; i < n; i++)
        if (kept && !strcmp(all[kept - 1].words, all[i].words)) {
            all[kept - 1].bytes += all[i].bytes;
            all[kept - 1].count += all[i].count;
            free(all[i].words);
        } else {
            all[kept++] = all[i];
        }
    *count = kept;
    return all;
}

/* ", bfloat16 [4, 2048, 8192] x4", ", mostly raw bytes", or "" where no tensor has half of the place's bytes;
 * the caller frees it. */
static char *asked_text(const struct asked *asked, const struct place *p)
{
    size_t n;
    struct asked_as *all = asked_of(asked, p->text, &n);
    char *text = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!text && all[i].bytes >= p->bytes - all[i].bytes) {
            char *times = all[i].count > 1 ? xformat(" x%lld", (long long)all[i].count) : xstrdup("");
            text = xformat(", %s%s%s", all[i].bytes < p->bytes ? "mostly " : "", shown(all[i].words), times);
            free(times);
        }
        free(all[i].words);
    }
    free(all);
    return text ? text : xstrdup("");
}

/* ---- the table ---- */

enum { INDENT = 6, FIGURES = 21 }; /* columns before and of the figures: "1023.9 MiB  100.0 %  " */

static void place_row(struct table *table, const struct place *p, int64_t whole, const struct asked *asked,
                      bool exact)
{
    char *tensor = p->code ? asked_text(asked, p) : xstrdup("");
    bool fits = INDENT + FIGURES + text_width(p->text) + text_width(tensor) <= page_room();
    table_cell(table, "%s", B(p->bytes));
    table_cell(table, "%s", units_share(p->bytes, whole).s);
    table_cell(table, "%s%s", p->text, fits ? tensor : "");
    free(tensor);
}

void report_code_text(struct trace *t, const struct trace_live *live, size_t n, int64_t whole, int64_t device,
                      int64_t oom, FILE *out, bool exact)
{
    struct table table;
    struct places p = places_of(t, live, n);
    struct asked asked = {0};
    size_t named = 0;
    int64_t shown_bytes = 0;
    if (p.n && trace_knows_tensors(t) && trace_tensors(t, device, oom, &asked.tensors, &asked.n))
        asked.n = 0;
    table_init(&table, ">><", NULL);
    for (size_t i = 0; i < p.n && i < ROWS && named < CODE; i++) {
        named += p.at[i].code;
        shown_bytes += p.at[i].bytes;
        place_row(&table, &p.at[i], whole, &asked, exact);
    }
    if (shown_bytes < whole) {
        table_cell(&table, "%s", B(whole - shown_bytes));
        table_cell(&table, "%s", units_share(whole - shown_bytes, whole).s);
        table_cell(&table, "others");
    }
    free(asked.tensors);
    if (named) {
        fputs("    held by line\n", out);
        table_print(&table, out, INDENT);
        report_unproven(t, "lines", INDENT, out);
    }
    table_free(&table);
    for (size_t i = 0; i < p.n; i++)
        free(p.at[i].text);
    free(p.at);
}
