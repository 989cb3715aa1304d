/* causes.c - see savings.h. */
#include "savings.h"

#include <stdlib.h>
#include <string.h>

#include "holders.h"
#include "trace/journal/journal.h"

#define LEAST_SHARE 20 /* bytes below 1 / LEAST_SHARE of the peak are no cause */

static bool is(const char *a, const char *b)
{
    return a && strcmp(a, b) == 0;
}

/* Saturates, because a damaged file may contain any sizes. */
static int64_t add(int64_t a, int64_t b)
{
    int64_t sum;
    return a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) ? 0 : sum;
}

static int64_t if_large(int64_t bytes, int64_t peak)
{
    return bytes > 0 && bytes <= peak && bytes >= peak / LEAST_SHARE ? bytes : 0;
}

/* ---- logits ---- */

/* The line of the program that made most of the bytes born in PHASE. */
static const char *greatest_line(const struct peak_facts *p, const char *phase)
{
    struct trace_live *born = NULL;
    size_t n = 0, groups = 0;
    const char *line = NULL;
    for (size_t i = 0; i < p->live_count; i++)
        if (p->live[i].line && is(p->live[i].phase, phase))
            *PUSH(born, n) = p->live[i];
    struct holder *by_line = n ? holders_group(born, n, BY_LINE, &groups) : NULL;
    if (groups)
        line = by_line[0].line;
    free(by_line);
    free(born);
    return line;
}

static void find_logits(struct causes *c, const struct peak_facts *p, const struct savings *s)
{
    int64_t bytes = 0;
    if (!s->known || s->floor == UNKNOWN || s->floor >= s->peak || !is(s->phases[0], "logits"))
        return;
    for (size_t i = 0; i < p->live_count; i++)
        if (is(p->live[i].phase, "logits"))
            bytes = add(bytes, p->live[i].size);
    c->logits = if_large(bytes, p->bytes);
    c->logits_line = c->logits ? greatest_line(p, "logits") : NULL;
}

/* ---- temporaries of the optimizer ---- */

static int by_stack(const void *a, const void *b)
{
    const struct cause_stack *x = a, *y = b;
    return (x->stack > y->stack) - (x->stack < y->stack);
}

static int by_bytes(const void *a, const void *b)
{
    const struct cause_stack *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : by_stack(a, b);
}

static void melt(struct causes *c)
{
    size_t kept = 0;
    if (!c->stack_count)
        return;
    qsort(c->stacks, c->stack_count, sizeof *c->stacks, by_stack);
    for (size_t i = 1; i < c->stack_count; i++) {
        if (c->stacks[kept].stack == c->stacks[i].stack)
            c->stacks[kept].bytes = add(c->stacks[kept].bytes, c->stacks[i].bytes);
        else
            c->stacks[++kept] = c->stacks[i];
    }
    c->stack_count = kept + 1;
    qsort(c->stacks, c->stack_count, sizeof *c->stacks, by_bytes);
}

static int phase_id(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (is(names[i], name))
            return (int)i;
    return -1;
}

static void find_temporaries(struct causes *c, const struct peak_facts *p, const struct trace_step_memory *m,
                             int optimizer)
{
    int64_t bytes = 0;
    if (m->step == UNKNOWN || optimizer < 0 || !is(p->phase, "optimizer"))
        return;
    for (size_t i = 0; i < m->lifetime_count; i++) {
        const struct trace_lifetime *l = &m->lifetimes[i];
        if (l->made_in != optimizer || l->freed_in != optimizer || l->made_seq < m->first_seq ||
            l->made_seq > p->seq || l->freed_seq <= p->seq || l->freed_seq > m->last_seq)
            continue;
        bytes = add(bytes, l->bytes);
        *PUSH(c->stacks, c->stack_count) = (struct cause_stack){l->stack > 0 ? l->stack : 0, l->bytes};
    }
    melt(c);
    c->temporaries = if_large(bytes, p->bytes);
}

/* ---- memory left by backward ---- */

/* Excludes memory that grows with each backward, which counts as a leak. */
static void find_left(struct causes *c, const struct peak_facts *p, const struct trace_step_memory *m,
                      const struct growth *g, int backward)
{
    int64_t left = p->left;
    if (m->step == UNKNOWN || left == UNKNOWN || is(p->phase, "optimizer"))
        return;
    for (size_t i = 0; i < g->count; i++)
        if (g->groups[i].phase == backward && g->groups[i].before > 0)
            left = g->groups[i].before < left ? left - g->groups[i].before : 0;
    c->left = if_large(left, p->bytes);
}

struct causes causes_of(const struct peak_facts *peak, const struct trace_step_memory *m,
                        const struct savings *s, const struct growth *g, const char *const *names, size_t n)
{
    struct causes c = {0};
    find_logits(&c, peak, s);
    find_temporaries(&c, peak, m, phase_id(names, n, "optimizer"));
    find_left(&c, peak, m, g, phase_id(names, n, "backward"));
    return c;
}

/* These functions have had the same names in all versions of PyTorch: _multi_tensor_adam,
 * _multi_tensor_sgd. */
int causes_foreach(const struct trace_frame *frames, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (frames[i].kind == VS_FRAME_PYTHON && frames[i].file && frames[i].function &&
            strstr(frames[i].file, "/torch/optim/") && strncmp(frames[i].function, "_multi_tensor_", 14) == 0)
            return (int)i;
    return -1;
}

void causes_free(struct causes *c)
{
    free(c->stacks);
    free(c->foreach_frame);
    *c = (struct causes){0};
}
