/*
 * softmax.c - see softmax.h.
 *
 * Hugging Face's models, and others, write attention out in Python where no fused kernel does what they need.
 * Half of them ask for fp32: softmax(scores, dtype=torch.float32).to(scores.dtype).  In fp32 that is one
 * block; in 16 bits
 *
 *      forward     scores in fp32, a temporary (bfloat16 is converted, not read by the kernel)
 *                  S, the weights in fp32, saved | P, a copy in 16 bits, saved unless dropout follows
 *      backward    gradient of P, narrow, copied to fp32 | G, that of the scores in fp32 | copied to 16 bits
 *
 * Others make queries and keys fp32, and the scores of these: then those copies are saved, in fp32, and what
 * backward makes up to the queries is in fp32, which the high end has.
 *
 * Which of these a line does, its file says (source.h); where that is not at hand it is open.  A call that
 * is written so is no fused kernel's in 16 bits, so all that is made for its squares stays.
 */
#include "softmax.h"

#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "elements.h"
#include "scale.h"

static enum softmax_type type_of(const struct program *p, const struct edit_block *b)
{
    const struct edit_stack *s = program_stack(p, b);
    bool known = s->softmax_fp32 || s->softmax_half;
    if (!s->softmax || b->kind != KIND_SAVED || b->type != ELEMENT_FLOAT32 || !(s->library || known))
        return SOFTMAX_NONE;
    return s->softmax_fp32 ? SOFTMAX_FP32 : s->softmax_half ? SOFTMAX_HALF : SOFTMAX_OPEN;
}

struct seeing {
    const struct program *p;
    struct softmaxes *s;
    uint16_t
        *home;     /* by layer: itself, or of a module that is a softmax or a dropout the one that calls it */
    uint32_t last; /* the output that came last, while its layer's forward goes on; BLOCK_NEVER */
    uint32_t *alive; /* outputs in fp32 whose gradient did not come yet */
    size_t n;
    uint32_t gradient; /* that backward made last, but for small blocks */
};

/* "Net.h.0.attn.(Softmax)", of a module that is made for the call, "Net.h.0.attn.softmax" and the dropout of
 * what it gives are called in "Net.h.0.attn". */
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

static uint16_t home_of(const struct seeing *s, uint32_t block)
{
    return s->home[program_stack(s->p, &s->p->blocks[block])->layer];
}

static bool same_layer(const struct seeing *s, uint32_t a, uint32_t b)
{
    return home_of(s, a) == home_of(s, b);
}

static void see_forward(struct seeing *s, uint32_t block)
{
    const struct edit_block *b = &s->p->blocks[block];
    enum softmax_type type = type_of(s->p, b);
    s->s->of[block] = (uint8_t)type;
    s->s->any[type] = true;
    if (type != SOFTMAX_NONE) {
        s->last = block;
        s->s->wide[home_of(s, block)] |= program_stack(s->p, b)->softmax_scores || type == SOFTMAX_OPEN;
        s->s->open[home_of(s, block)] = type == SOFTMAX_OPEN ? b->size : 0;
        if (type == SOFTMAX_FP32)
            *PUSH(s->alive, s->n) = block;
        return;
    }
    if (s->last == BLOCK_NEVER)
        return;
    if (!same_layer(s, s->last, block))
        s->last = BLOCK_NEVER;
    else if (b->kind == KIND_SAVED && b->type == ELEMENT_FLOAT32 && b->size == s->p->blocks[s->last].size)
        s->s->dropped[s->last] = true;
}

/* The last output of the line, of which none came behind this one in backward. */
static void see_backward(struct seeing *s, uint32_t block)
{
    const struct edit_block *b = &s->p->blocks[block];
    size_t i = s->n;
    while (i > 0 && program_stack(s->p, &s->p->blocks[s->alive[i - 1]])->line != program_stack(s->p, b)->line)
        i--;
    uint32_t saved = i ? s->alive[i - 1] : BLOCK_NEVER;
    bool gives = saved != BLOCK_NEVER && same_layer(s, saved, block) && b->size == s->p->blocks[saved].size &&
                 b->type == ELEMENT_FLOAT32;
    if (gives) {
        uint32_t g = s->gradient;
        bool given = g != BLOCK_NEVER && same_layer(s, g, block) && s->p->blocks[g].size == b->size &&
                     s->p->blocks[g].died > b->born;
        s->s->saved[block] = saved;
        s->s->given[block] = given ? g : BLOCK_NEVER;
        memmove(&s->alive[i - 1], &s->alive[i], (s->n - i) * sizeof *s->alive);
        s->n--;
    }
    if (b->type == ELEMENT_FLOAT32 && b->size > SCALE_SURE)
        s->gradient = block;
}

static uint32_t *nevers(size_t n)
{
    uint32_t *all = xrealloc(NULL, (n + 1) * sizeof *all);
    memset(all, 0xff, (n + 1) * sizeof *all);
    return all;
}

static void *zeros(size_t n)
{
    return memset(xrealloc(NULL, n + 1), 0, n + 1);
}

/* Of a layer whose softmax makes squares. */
static void see_written(const struct seeing *seeing, uint8_t *parts)
{
    const struct program *p = seeing->p;
    struct softmaxes *s = seeing->s;
    for (size_t i = 0; i < p->block_count; i++) {
        uint16_t layer = home_of(seeing, (uint32_t)i);
        if (layer && s->of[i] != SOFTMAX_NONE && parts[i] == ATTENTION_SQUARE)
            s->written[layer] = true;
    }
    for (size_t i = 0; i < p->block_count; i++)
        if (s->written[home_of(seeing, (uint32_t)i)] &&
            (parts[i] == ATTENTION_SQUARE || parts[i] == ATTENTION_BESIDE))
            parts[i] = ATTENTION_NONE;
}

struct softmaxes softmaxes_read(const struct program *p, uint8_t *parts)
{
    struct softmaxes s = {.of = zeros(p->block_count),
                          .dropped = zeros(p->block_count),
                          .saved = nevers(p->block_count),
                          .given = nevers(p->block_count),
                          .copies = nevers(p->block_count),
                          .written = zeros(UINT16_MAX + 1),
                          .wide = zeros(UINT16_MAX + 1),
                          .open = zeros((UINT16_MAX + 1) * sizeof *s.open),
                          .narrows = BLOCK_NEVER,
                          .narrow_of = BLOCK_NEVER};
    struct seeing seeing = {
        .p = p, .s = &s, .home = find_homes(p->facts), .last = BLOCK_NEVER, .gradient = BLOCK_NEVER};
    for (size_t i = 0; i < p->event_count; i++) {
        const struct trace_moment *e = &p->events[i];
        if (e->what == MOMENT_STEP) {
            seeing.n = 0;
            seeing.last = seeing.gradient = BLOCK_NEVER;
        } else if (e->what == MOMENT_BORN && program_is_forward(p->facts, e->phase)) {
            see_forward(&seeing, e->block);
        } else if (e->what == MOMENT_BORN && p->blocks[e->block].kind == KIND_BACKWARD) {
            see_backward(&seeing, e->block);
        }
    }
    see_written(&seeing, parts);
    for (size_t i = 0; i <= UINT16_MAX; i++) /* a module that is called there is as it is */
        s.wide[i] = s.wide[seeing.home[i]], s.open[i] = s.open[seeing.home[i]];
    free(seeing.alive);
    free(seeing.home);
    return s;
}

void softmaxes_free(struct softmaxes *s)
{
    free(s->of);
    free(s->dropped);
    free(s->saved);
    free(s->given);
    free(s->copies);
    free(s->written);
    free(s->wide);
    free(s->open);
    *s = (struct softmaxes){0};
}

/* ---- in 16 bits ---- */

static uint32_t narrow(struct build *b, const struct edit_block *was, uint16_t phase, enum edit_kind kind)
{
    uint32_t block = build_born(b, was, was->size / 2, phase, kind);
    if (block != BLOCK_NEVER)
        b->to.blocks[block].type = ELEMENT_BFLOAT16;
    return block;
}

/* At the low end the kernel reads 16 bits, which it does of float16. */
static void bear_output(struct softmaxes *s, struct build *b, const struct trace_moment *e, bool high)
{
    const struct edit_block *was = &b->from->blocks[e->block];
    uint32_t scores = high ? build_born(b, was, was->size, e->phase, KIND_FORWARD) : BLOCK_NEVER;
    b->now[e->block] = build_born(b, was, was->size, e->phase, was->kind);
    build_died(b, scores, e->phase);
    if (!s->dropped[e->block])
        s->copies[e->block] = narrow(b, was, e->phase, was->kind);
    else if (high)
        build_died(b, narrow(b, was, e->phase, KIND_FORWARD), e->phase);
}

static void bear_gradient(struct softmaxes *s, struct build *b, const struct trace_moment *e)
{
    const struct edit_block *was = &b->from->blocks[e->block];
    uint32_t given = s->given[e->block];
    build_died(b, s->copies[s->saved[e->block]], e->phase); /* the product's backward is over */
    if (given != BLOCK_NEVER) {
        uint32_t wide = build_born(b, &b->from->blocks[given], was->size, e->phase, KIND_BACKWARD);
        build_died(b, b->now[given], e->phase);
        b->now[given] = wide;
        bool scores = s->wide[program_stack(b->from, was)->layer]; /* no copy of them is made */
        s->narrows = scores ? BLOCK_NEVER : given;
        s->narrow_of = scores ? BLOCK_NEVER : e->block;
    }
    b->now[e->block] = build_born(b, was, was->size, e->phase, was->kind);
}

bool softmax_bear(struct softmaxes *s, struct build *b, size_t i, bool high)
{
    const struct trace_moment *e = &b->from->events[i];
    if (s->of[e->block] == SOFTMAX_FP32)
        bear_output(s, b, e, high);
    else if (s->saved[e->block] != BLOCK_NEVER)
        bear_gradient(s, b, e);
    else
        return false;
    return true;
}

void softmax_end(struct softmaxes *s, struct build *b, size_t i)
{
    const struct trace_moment *e = &b->from->events[i];
    build_died(b, s->copies[e->block], e->phase);
}

void softmax_ended(struct softmaxes *s, struct build *b, size_t i)
{
    const struct trace_moment *e = &b->from->events[i];
    if (e->block != s->narrows)
        return;
    const struct edit_block *was = &b->from->blocks[s->narrow_of];
    uint32_t wide = b->now[s->narrow_of];
    if (wide != BLOCK_NEVER && b->to.blocks[wide].died == BLOCK_NEVER) {
        b->now[s->narrow_of] = narrow(b, was, e->phase, was->kind);
        build_died(b, wide, e->phase);
    }
    s->narrows = s->narrow_of = BLOCK_NEVER;
}
