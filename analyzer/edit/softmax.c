/*
 * softmax.c - see softmax.h.
 *
 * Attention that a model writes in Python calls a softmax.  Some models ask it for fp32, as
 * softmax(scores, dtype=torch.float32).to(scores.dtype) does, and some give it queries and keys in fp32.  The
 * others compute it in the type of the scores.  In a program in fp32 all three make the same blocks, so a
 * recording does not say which it is:
 *
 *      low end     the output, the scores and their gradients are in 16 bits
 *      high end    the output is kept in fp32 and again in 16 bits; the layer's other blocks stay in fp32
 *
 * A dropout's output is in 16 bits at both ends: it is as large as the softmax's, and is kept behind it.
 */
#include "softmax.h"

#include <stdlib.h>
#include <string.h>

#include "attention.h"

/* By layer the layer that calls it; most stand for themselves.  "Net.h.0.attn" calls "Net.h.0.attn.softmax",
 * "Net.h.0.attn.(Softmax)", which is a module made for the call, and the dropout of the output. */
static uint16_t *find_homes(const struct edit_facts *f)
{
    uint16_t *home = xrealloc(NULL, (UINT16_MAX + 1) * sizeof *home);
    for (size_t i = 0; i <= UINT16_MAX; i++)
        home[i] = (uint16_t)i;
    for (size_t i = 1; i < f->layer_count && i <= UINT16_MAX; i++) {
        const char *dot = strrchr(f->layer_names[i], '.');
        bool part = dot && (strcasestr(dot, "softmax") || strcasestr(dot, "drop"));
        size_t n = part ? (size_t)(dot - f->layer_names[i]) : 0;
        for (size_t k = 1; n && k < f->layer_count && k <= UINT16_MAX; k++)
            if (!strncmp(f->layer_names[k], f->layer_names[i], n) && !f->layer_names[k][n])
                home[i] = (uint16_t)k;
    }
    return home;
}

static void *zeros(size_t n)
{
    return memset(xrealloc(NULL, n + 1), 0, n + 1);
}

/* BLOCK is made in forward; *OUTPUT is the output that came last, while its layer's call goes on, or
 * BLOCK_NEVER. */
static void see_forward(const struct program *p, const uint16_t *home, struct softmaxes *s, uint32_t block,
                        uint32_t *output)
{
    const struct edit_block *b = &p->blocks[block];
    const struct edit_block *last = *output == BLOCK_NEVER ? NULL : &p->blocks[*output];
    const struct edit_stack *stack = program_stack(p, b);
    bool kept = b->kind == KIND_SAVED && (b->type == ELEMENT_FLOAT32 || b->type == ELEMENT_UNKNOWN);
    if (kept && stack->softmax) {
        s->of[block] = SOFTMAX_OUTPUT;
        s->calls[home[stack->layer]] = s->any = true;
        *output = block;
    } else if (last && home[stack->layer] != home[program_stack(p, last)->layer]) {
        *output = BLOCK_NEVER;
    } else if (last && kept && b->size == last->size) {
        s->of[block] = SOFTMAX_BEHIND;
    }
}

static void find_outputs(const struct program *p, const uint16_t *home, struct softmaxes *s)
{
    uint32_t output = BLOCK_NEVER;
    for (size_t i = 0; i < p->event_count; i++) {
        const struct trace_moment *e = &p->events[i];
        if (e->what == MOMENT_STEP)
            output = BLOCK_NEVER;
        else if (e->what == MOMENT_BORN && program_is_forward(p->facts, e->phase))
            see_forward(p, home, s, e->block, &output);
    }
}

static void unmark_squares(const struct program *p, const uint16_t *home, const struct softmaxes *s,
                           uint8_t *parts)
{
    bool *written = zeros(UINT16_MAX + 1); /* by layer: its softmax makes squares */
    for (size_t i = 0; i < p->block_count; i++) {
        uint16_t layer = home[program_stack(p, &p->blocks[i])->layer];
        written[layer] |= layer && s->of[i] == SOFTMAX_OUTPUT && parts[i] == ATTENTION_SQUARE;
    }
    for (size_t i = 0; i < p->block_count; i++)
        if (written[home[program_stack(p, &p->blocks[i])->layer]] &&
            (parts[i] == ATTENTION_SQUARE || parts[i] == ATTENTION_BESIDE))
            parts[i] = ATTENTION_NONE;
    free(written);
}

struct softmaxes softmaxes_read(const struct program *p, uint8_t *parts)
{
    struct softmaxes s = {.of = zeros(p->block_count), .calls = zeros(UINT16_MAX + 1)};
    uint16_t *home = find_homes(p->facts);
    find_outputs(p, home, &s);
    unmark_squares(p, home, &s, parts);
    for (size_t i = 0; i <= UINT16_MAX; i++)
        s.calls[i] = s.calls[home[i]];
    free(home);
    return s;
}

void softmaxes_free(struct softmaxes *s)
{
    free(s->of);
    free(s->calls);
    *s = (struct softmaxes){0};
}

bool softmax_widens(const struct softmaxes *s, const struct program *p, uint32_t block)
{
    uint16_t layer = program_stack(p, &p->blocks[block])->layer;
    return layer && s->calls[layer] && s->of[block] != SOFTMAX_BEHIND;
}
