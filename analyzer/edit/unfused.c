/*
 * unfused.c - see unfused.h.
 *
 * Where no fused kernel takes a call of scaled_dot_product_attention(), PyTorch makes it of products and a
 * softmax.  One call, of one stack, in fp32:
 *
 *      queries scaled, keys scaled, [copies of both in another order]
 *      scores S, weights S, bool of S, bool of rows, a number    products, softmax, rows that are all masked
 *      [dropout's bool of S, weights S], [values in another order], output
 *
 * In 16 bits it first takes copies of queries, keys and values in fp32, since PyTorch 2.5, which brought this
 * softmax too: all of the above is as large as before.  The weights and the output are made narrow at the
 * end. Values that were used as they were are kept as the copy in fp32.
 *
 * Whether a kernel in 16 bits would take the call: the fused kernel for fp32 takes what those for 16 bits do
 * but for heads of a size that is no multiple of 4 and for grouped heads.  So a call with other heads, which
 * it did not take (for the order of its elements, a mask that has a gradient, or as the program said so),
 * stays.
 */
#include "unfused.h"

#include <stdlib.h>
#include <string.h>

#include "elements.h"
#include "scale.h"

#define RUN_MOST 64 /* blocks of one stack behind each other that are looked at */

struct seeing {
    const struct program *p;
    struct unfused *u;
    uint32_t run[RUN_MOST];
    size_t n, behind;      /* behind: where what follows the softmax begins; 0: there was none */
    size_t from;           /* the run's call begins there */
    size_t scores, places; /* places: layers that make such calls */
    uint32_t stack;
};

static const struct edit_block *at(const struct seeing *s, size_t i)
{
    return &s->p->blocks[s->run[i]];
}

static bool is_wide(const struct seeing *s, size_t i)
{
    return at(s, i)->type == ELEMENT_FLOAT32 && at(s, i)->size > SCALE_SURE;
}

static bool is_softmax(const struct seeing *s)
{
    if (s->n < s->from + 4)
        return false;
    const struct edit_block *scores = at(s, s->n - 4), *weights = at(s, s->n - 3), *masked = at(s, s->n - 2),
                            *rows = at(s, s->n - 1);
    return is_wide(s, s->n - 4) && is_wide(s, s->n - 3) && scores->size == weights->size &&
           masked->type == ELEMENT_BOOL && masked->size == weights->size / 4 && rows->type == ELEMENT_BOOL &&
           rows->size && rows->size < masked->size && masked->size % rows->size == 0;
}

/* The output is gone within forward, where the caller takes it in another order; else it is the last. */
static size_t find_out(const struct seeing *s, uint64_t square)
{
    size_t last = 0;
    for (size_t i = s->behind; i < s->n; i++) {
        if (!is_wide(s, i) || at(s, i)->size == square)
            continue;
        last = i;
        if (at(s, i)->kind == KIND_FORWARD)
            break;
    }
    return last;
}

static bool may_be_fused(const struct seeing *s, size_t out)
{
    uint64_t heads = out ? program_asked(s->p, at(s, out))->inner[0] : 0;
    bool grouped = false;
    for (size_t i = s->from; i < s->scores; i++)
        grouped = grouped || program_asked(s->p, at(s, i))->rank >= 5;
    return grouped || !heads || heads % 4;
}

/* The call whose softmax was seen is whole. */
static void end_call(struct seeing *s)
{
    if (!s->behind)
        return;
    const struct edit_stack *stack = program_stack(s->p, at(s, s->scores));
    struct unfused_call c = {.first = BLOCK_NEVER,
                             .weights = s->run[s->scores + 1],
                             .out = BLOCK_NEVER,
                             .kept = BLOCK_NEVER,
                             .square = at(s, s->scores)->size,
                             .line = stack->line,
                             .layer = stack->layer};
    size_t out = find_out(s, c.square), first = s->scores;
    for (size_t i = s->scores; i-- > s->from;)
        if (is_wide(s, i)) {
            c.key = c.query ? c.query : at(s, i)->size;
            c.query = at(s, i)->size;
            c.first = s->run[first = i];
        }
    c.stays = out && c.first != BLOCK_NEVER && !may_be_fused(s, out);
    if (out)
        c.out = s->run[out];
    for (size_t i = s->behind; i < out; i++)
        c.values = c.values || (is_wide(s, i) && at(s, i)->size != c.square);
    for (size_t i = s->from; i < s->n; i++)
        c.narrow = c.narrow || element_is_half(at(s, i)->type);
    *PUSH(s->u->calls, s->u->n) = c;
    for (size_t i = first; i < s->n && i <= (out ? out : s->n); i++)
        s->u->of[s->run[i]] = (uint32_t)s->u->n;
    s->behind = 0;
}

static void see_forward(struct seeing *s, uint32_t block)
{
    uint32_t stack = s->p->blocks[block].stack;
    if (stack != s->stack || s->n == RUN_MOST) {
        end_call(s);
        s->n = s->from = 0;
        s->stack = stack;
    }
    s->run[s->n++] = block;
    if (!is_softmax(s))
        return;
    size_t scores = s->n - 4;
    size_t after = s->n;
    s->n = scores; /* a call that was made before it by the same line ends there */
    bool second = s->behind != 0;
    size_t out = second ? find_out(s, at(s, s->scores)->size) : 0;
    end_call(s);
    s->from = out ? out + 1 : s->from;
    s->n = after;
    s->scores = scores;
    s->behind = after;
}

/* In backward: what the same line of the same layer makes is of its call, or of one like it. */
static void see_backward(struct seeing *s, uint32_t block)
{
    const struct edit_stack *stack = program_stack(s->p, &s->p->blocks[block]);
    for (size_t back = 1; back <= s->u->n && back <= s->places * 2 + 1; back++) {
        const struct unfused_call *c = &s->u->calls[s->u->n - back];
        if (c->layer == stack->layer && c->line == stack->line) {
            s->u->of[block] = (uint32_t)(s->u->n - back) + 1;
            return;
        }
    }
}

struct unfused unfused_read(const struct program *p)
{
    struct unfused u = {0};
    struct seeing s = {.p = p, .u = &u, .stack = BLOCK_NEVER};
    bool *seen = xrealloc(NULL, UINT16_MAX + 1);
    memset(seen, 0, UINT16_MAX + 1);
    u.of = xrealloc(NULL, (p->block_count + 1) * sizeof *u.of);
    memset(u.of, 0, (p->block_count + 1) * sizeof *u.of);
    for (size_t i = 0; i < p->event_count; i++) {
        const struct trace_moment *e = &p->events[i];
        size_t before = u.n;
        if (e->what != MOMENT_BORN)
            continue;
        if (program_is_forward(p->facts, e->phase)) {
            see_forward(&s, e->block);
        } else {
            end_call(&s);
            s.n = s.from = 0;
            s.stack = BLOCK_NEVER;
            if (p->blocks[e->block].kind == KIND_BACKWARD)
                see_backward(&s, e->block);
        }
        for (; before < u.n; before++)
            s.places += !seen[u.calls[before].layer], seen[u.calls[before].layer] = true;
    }
    end_call(&s);
    free(seen);
    return u;
}

void unfused_free(struct unfused *u)
{
    free(u->calls);
    free(u->of);
    *u = (struct unfused){0};
}

bool unfused_is_square(const struct unfused *u, const struct program *p, uint32_t block)
{
    const struct unfused_call *c = unfused_call_of(u, block);
    const struct edit_block *b = &p->blocks[block];
    return c && (b->size == c->square || (b->type == ELEMENT_BOOL && b->size == c->square / 4));
}

/* ---- in 16 bits ---- */

static uint32_t wide(struct build *b, const struct edit_block *like, uint64_t size, uint16_t phase)
{
    uint32_t block = build_born(b, like, size, phase, KIND_FORWARD);
    if (block != BLOCK_NEVER)
        b->to.blocks[block].asked = 0;
    return block;
}

static void narrow(struct build *b, uint32_t block)
{
    if (block != BLOCK_NEVER)
        b->to.blocks[block].type = ELEMENT_BFLOAT16;
}

/* Copies of queries, keys and values. */
static void begin_call(struct unfused *u, const struct unfused_call *c, struct build *b, uint16_t phase)
{
    const struct edit_block *like = &b->from->blocks[c->first];
    u->wides[0] = wide(b, like, c->query, phase);
    u->wides[1] = wide(b, like, c->key, phase);
    u->wides[2] = wide(b, like, c->key, phase);
}

/* The weights in 16 bits, which nobody takes, and the output, wide and narrow. */
static uint32_t give_out(struct unfused *u, struct unfused_call *c, struct build *b, uint16_t phase)
{
    const struct edit_block *was = &b->from->blocks[c->out];
    uint32_t weights = wide(b, was, c->square / 2, phase), out = wide(b, was, was->size, phase);
    uint32_t now = build_born(b, was, was->size / 2, phase, was->kind);
    narrow(b, weights);
    narrow(b, now);
    build_died(b, out, phase);
    if (c->values) {
        build_died(b, u->wides[2], phase);
    } else {
        c->kept = u->wides[2];
        if (c->kept != BLOCK_NEVER)
            b->to.blocks[c->kept].kind = KIND_SAVED;
    }
    build_died(b, u->wides[1], phase);
    build_died(b, u->wides[0], phase);
    build_died(b, weights, phase);
    return now;
}

void unfused_bear(struct unfused *u, struct build *b, size_t i)
{
    const struct trace_moment *e = &b->from->events[i];
    const struct edit_block *was = &b->from->blocks[e->block];
    struct unfused_call *c = &u->calls[u->of[e->block] - 1];
    bool forward = program_is_forward(b->from->facts, e->phase);
    if (c->narrow) {
        build_copy(b, i);
        return;
    }
    if (forward && e->block == c->first)
        begin_call(u, c, b, e->phase);
    if (forward && e->block == c->out) {
        b->now[e->block] = give_out(u, c, b, e->phase);
        return;
    }
    uint32_t gradient = BLOCK_NEVER;
    if (!forward && was->size == c->square && !c->went_back) { /* the output's, made wide */
        gradient = wide(b, was, c->query, e->phase);
        c->went_back = true;
    }
    b->now[e->block] = build_born(b, was, was->size, e->phase, was->kind);
    build_died(b, gradient, e->phase);
}

void unfused_end(struct unfused *u, struct build *b, size_t i)
{
    const struct trace_moment *e = &b->from->events[i];
    struct unfused_call *c = u->of[e->block] ? &u->calls[u->of[e->block] - 1] : NULL;
    if (c && e->block == c->weights)
        build_died(b, c->kept, e->phase);
}
