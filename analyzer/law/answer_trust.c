/* answer_trust.c - how far an answer about other sizes can be relied on. */
#include "answer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/units.h"
#include "show/report/frames.h"

/* The laws at the recordings' own sizes against what was recorded: the least and the greatest ratio. */
struct fidelity {
    double live[2], reserved[2]; /* NAN: nothing was recorded to compare with */
    enum law_policy policy;
};

static void widen(double *range, uint64_t ours, int64_t recorded)
{
    if (recorded == UNKNOWN || recorded <= 0)
        return;
    double ratio = (double)ours / (double)recorded;
    range[0] = isnan(range[0]) || ratio < range[0] ? ratio : range[0];
    range[1] = isnan(range[1]) || ratio > range[1] ? ratio : range[1];
}

static struct fidelity fidelity(struct answer *a)
{
    struct fidelity f = {{NAN, NAN}, {NAN, NAN}, LAW_NATIVE};
    if (a->model.base->tape.expandable)
        f.policy = LAW_EXPANDABLE;
    for (size_t i = 0; i < a->runs.n; i++) {
        const struct law_run *run = &a->runs.at[i];
        struct law_point at = {run->batch, run->seq};
        struct law_answer one = law_play(&a->model, at, f.policy, 0);
        if (run->tape.expandable != a->model.base->tape.expandable)
            continue;
        widen(f.live, one.allocated, run->peak);
        widen(f.reserved, one.bytes, run->reserved);
    }
    return f;
}

static void print_range(const char *what, const double *range)
{
    if (isnan(range[0]))
        return;
    double low = 100 * (range[0] - 1), high = 100 * (range[1] - 1);
    if (high - low < 0.005)
        printf("%s %+.2f %%", what, low + 0.0);
    else
        printf("%s %+.2f to %+.2f %%", what, low + 0.0, high + 0.0);
}

#define LAWLESS_SHOWN 3

/* Rows without a law, the one that takes most first. */
static size_t lawless(const struct law_model *m, uint32_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < m->law_count; i++) {
        uint64_t size = m->rows[i].sizes[m->runs->largest];
        size_t at = n;
        if (m->laws[i].trust != LAW_NONE)
            continue;
        while (at > 0 && m->rows[out[at - 1]].sizes[m->runs->largest] < size)
            at--;
        if (at == LAWLESS_SHOWN)
            continue;
        n += n < LAWLESS_SHOWN;
        memmove(out + at + 1, out + at, (n - at - 1) * sizeof *out);
        out[at] = (uint32_t)i;
    }
    return n;
}

/* The caller frees it. */
static char *line_of(const struct law_model *m, uint32_t block)
{
    uint32_t stack = m->base->blocks[block].stack;
    const struct trace_stack_row *row = stack ? trace_find_stack(&m->base->stacks, stack) : NULL;
    return row && row->line ? line_text(row->line) : xstrdup("no line known");
}

/* The blocks that do not fit, by what they took in each run: workspaces and other ways through the code. */
static void print_lawless(const struct answer *a)
{
    const struct law_model *m = &a->model;
    uint32_t rows[LAWLESS_SHOWN];
    size_t n = lawless(m, rows);
    for (size_t i = 0; i < n; i++) {
        const struct law_row *row = &m->rows[rows[i]];
        char *line = line_of(m, row->block);
        printf("  no law: %s:", line);
        free(line);
        for (size_t r = 0; r < a->runs.n; r++)
            printf("%s %s at %" PRId64 " x %" PRId64, r ? "," : "",
                   row->sizes[r] ? units_bytes((int64_t)row->sizes[r], a->q->bytes).s : "not there",
                   a->runs.at[r].batch, a->runs.at[r].seq);
        puts("");
    }
    struct law_list lengths;
    law_own_list(&a->runs, false, &lengths);
    if (n && lengths.n == 2)
        puts("  a recording at a third length tells growth with length from growth with its square");
    if (n)
        puts("  (taken as the nearest line through these, by tokens or by batch x length^2)");
}

/* Where code switches, the row that takes most first: the two sizes between which that was are known. */
static void print_switches(const struct answer *a)
{
    const struct law_model *m = &a->model;
    const struct law *of = NULL;
    uint32_t block = 0;
    uint64_t most = 0;
    for (size_t i = 0; i < m->law_count; i++)
        for (size_t r = 0; m->laws[i].from && r < a->runs.n; r++)
            if (m->rows[i].sizes[r] > most) {
                most = m->rows[i].sizes[r];
                of = &m->laws[i];
                block = m->rows[i].block;
            }
    if (!of)
        return;
    char *line = line_of(m, block);
    printf("  %s %s one law at small sizes and another at large ones, %sfrom between %" PRId64 " and %" PRId64
           " tokens on: %s\n",
           units_count((int64_t)m->switching, "block").s, m->switching == 1 ? "has" : "have",
           m->switching == 1 ? "" : "the largest ", of->upto, of->from, line);
    free(line);
}

void answer_print_trust(struct answer *a)
{
    const struct law_model *m = &a->model;
    struct fidelity f = fidelity(a);
    printf("%zu recordings, %zu steps of each; ", a->runs.n, m->base->steps);
    printf("%s of a run: %zu follow a law exactly, %zu within rounding, %zu follow none\n",
           units_count(m->base->tape.ids, "block").s, m->by_trust[LAW_EXACT], m->by_trust[LAW_NEAR],
           m->by_trust[LAW_NONE]);
    if (m->some || m->missing)
        printf(
            "  the runs disagree: %s of the largest run not in all others, up to %zu (%s) of others not in "
            "it\n",
            units_count((int64_t)m->some, "block").s, m->missing,
            units_bytes((int64_t)m->missing_bytes, a->q->bytes).s);
    print_range("  the recordings themselves by these laws: allocated", f.live);
    char *reserved = xformat("; %s reserved", law_policy_names[f.policy]);
    print_range(reserved, f.reserved);
    free(reserved);
    puts(" of what was recorded");
    print_switches(a);
    print_lawless(a);
}
