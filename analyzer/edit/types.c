/*
 * types.c - the program in bf16: parameters, gradients, states and activations that are wider.
 *
 * A block of a wider type has as many elements of 2 bytes; whole numbers stay as they are.  In 16 bits
 * attention goes by another kernel, and norms, softmaxes and losses may copy to fp32. No recording in fp32
 * says so, hence of such blocks there is an interval, by where they are made:
 *
 *      parameters, gradients, states            half                  attention, fused       1/3 to 3/4
 *      data in a repeated layer                 half                  attention, in parts    1/4 to 5/4
 *      data outside of them, as a loss's        half to all           its squares            none to 3/2
 *      output layer's logits                    half to 3/2           norm in Python         half to 5/4
 *      the loss's, if said to be in fp32        all                   ... said to be in bf16 half
 *      a library's bytes                        half to twice         inputs                 half to all
 *
 * Fused attention copies its output, or does not, in fp32 and in 16 bits each: of three blocks one may go
 * (half of 2/3), or beside two one more may come (half of 3/2).  In parts it keeps
 * copies of queries, keys and values, and the softmax its output in fp32 and again in 16 bits.  A norm keeps
 * a copy in fp32 and the product in 16 bits.  Copies that autocast makes of weights go; those of data go, or
 * what they were made of stays in their place.
 */
#include <stdlib.h>
#include <string.h>

#include "apply.h"

#define SLACK 100 /* of what is saved one in so many is what other kernels may need beside it */

struct halving {
    struct scale_outputs outputs;
    bool *by_hand;   /* by layer: a norm that is written in Python */
    bool *in_parts;  /* by unit: its attention is not fused */
    bool *softmax;   /* by layer: it calls one */
    uint8_t *casts;  /* by block, an enum cast */
    bool cast;       /* it runs under autocast */
    uint16_t head;   /* the output layer; 0: none */
    uint64_t logits; /* how many there are; 0: not known */
    int64_t loss;    /* enum edit_loss */
};

struct ends {
    double low, high; /* of a block's bytes */
};

static bool *falses(size_t n)
{
    return memset(xrealloc(NULL, n + 1), 0, n + 1);
}

/* 0: of no known type. */
static uint64_t elements_of(const struct edit_block *b)
{
    uint64_t bytes = element_bytes(b->type);
    return bytes ? b->size / bytes : 0;
}

static struct halving read(const struct program *p, int64_t loss)
{
    struct halving h = {.loss = loss,
                        .outputs = scale_unit_outputs(p),
                        .by_hand = falses(UINT16_MAX),
                        .in_parts = falses(UINT16_MAX),
                        .softmax = falses(UINT16_MAX),
                        .casts = element_casts(p)};
    h.cast = memchr(h.casts, CAST_WEIGHT, p->block_count);
    for (size_t i = 0; i < p->block_count; i++) {
        const struct edit_block *b = &p->blocks[i];
        const struct edit_stack *s = program_stack(p, b);
        if (s->norm && s->squares)
            h.by_hand[s->layer] = true;
        h.softmax[s->layer] = h.softmax[s->layer] || (s->softmax && s->layer);
        if (s->softmax || scale_may_be_square(p, b, &h.outputs))
            h.in_parts[s->unit] = true;
        if (b->kind == KIND_LOGITS && b->size > SCALE_SURE && !h.head)
            h.head = s->layer;
        if (b->kind == KIND_LOGITS && elements_of(b) > h.logits)
            h.logits = elements_of(b);
    }
    return h;
}

static void forget(struct halving *h)
{
    scale_free_outputs(&h->outputs);
    free(h->by_hand);
    free(h->in_parts);
    free(h->softmax);
    free(h->casts);
}

/* Of bytes that stay when elements of TYPE become bf16. */
static double share(const struct edit_block *b)
{
    uint64_t bytes = element_bytes(b->type);
    if (!element_is_float(b->type))
        return 1;
    return bytes ? 2.0 / (double)bytes : 0.5; /* unknown: taken for fp32 */
}

/* What a step makes and frees. */
static bool is_data(const struct edit_block *b)
{
    return b->kind == KIND_LOGITS || b->kind == KIND_SAVED || b->kind == KIND_FORWARD ||
           b->kind == KIND_BACKWARD;
}

/* What the loss makes of the logits: in the phase of these but not in their layer, or their number in
 * backward. */
static bool is_loss(const struct edit_block *b, const struct edit_stack *s, const struct halving *h)
{
    return b->kind == KIND_LOGITS || (s->unit == EDIT_NO_UNIT && h->logits && elements_of(b) == h->logits);
}

static struct ends of_data(const struct program *p, const struct edit_block *b, const struct halving *h)
{
    const struct edit_stack *s = program_stack(p, b);
    double half = share(b);
    bool wide = half < 1;
    if (scale_may_be_square(p, b, &h->outputs))
        return (struct ends){0, wide ? 1.5 : 1};
    if (!wide) /* a mask of squares, which goes with them */
        return (struct ends){b->type != ELEMENT_BOOL || !s->attends || !h->in_parts[s->unit], 1};
    if (b->kind == KIND_LOGITS && h->head && s->layer == h->head)
        return (struct ends){half, 1.5};
    if (h->loss == LOSS_FP32 && is_loss(b, s, h))
        return (struct ends){1, 1};
    if (h->loss == LOSS_BF16 && is_loss(b, s, h))
        return (struct ends){b->kind == KIND_LOGITS && h->cast ? 0 : half, half};
    if (b->kind == KIND_LOGITS) /* autocast may have made it */
        return (struct ends){h->cast ? 0 : half, 1};
    if (s->softmax)
        return (struct ends){half, 1.5};
    if ((s->attends && h->in_parts[s->unit]) || h->softmax[s->layer])
        return (struct ends){half / 2, 1.25};
    if (s->unit == EDIT_NO_UNIT)
        return (struct ends){half, 1};
    if (s->attends)
        return (struct ends){half * 2 / 3, half * 3 / 2};
    if (s->norm && h->by_hand[s->layer])
        return (struct ends){half, b->kind == KIND_SAVED ? 1.25 : 1};
    return (struct ends){half, half};
}

static struct ends ends_of(const struct program *p, const struct edit_block *b, const struct halving *h)
{
    if (h->casts[b - p->blocks] != CAST_NONE)
        return (struct ends){0, h->casts[b - p->blocks] == CAST_DATA};
    if (program_asked(p, b)->raw)
        return is_data(b) && !program_is_workspace(b->size) ? (struct ends){0.5, 2} : (struct ends){1, 1};
    if (is_data(b))
        return of_data(p, b, h);
    double half = share(b);
    bool kept = b->kind == KIND_OTHER || b->kind == KIND_BUFFER || b->kind == KIND_REQUEST;
    if (!kept)
        return (struct ends){half, half};
    /* inputs and what is kept may go on being wide, or be no numbers at all */
    return (struct ends){b->type != ELEMENT_UNKNOWN || scale_is_kept(p, b) ? half : 1, 1};
}

/* False with R->why. */
static bool can_tell(const struct program *p, struct edit_result *r)
{
    bool wide = false, recurrent = false;
    for (size_t i = 0; i < p->block_count; i++) {
        wide = wide || (p->blocks[i].kind == KIND_PARAMETER && share(&p->blocks[i]) < 1);
        recurrent = recurrent || program_stack(p, &p->blocks[i])->recurrent;
    }
    if (!p->facts->types)
        refuse(r, "element types are not known: %s",
               p->facts->imported ? "a snapshot does not say them, vramscope run does"
                                  : "record the program again with vramscope run");
    else if (!wide)
        refuse_nothing(r, "no parameter is float32 or float64");
    else if (recurrent)
        refuse(r, "what cuDNN's recurrent layers take in bf16 is not known: vramscope fit runs the program "
                  "without a GPU");
    return !r->why;
}

struct program apply_types(const struct program *from, const struct edit *e, struct edit_result *r, bool high)
{
    if (!needs_steps(from, r) || !needs_roles(from, r) || !can_tell(from, r))
        return (struct program){0};
    struct halving h = read(from, e->n);
    struct build b;
    build_begin(&b, from);
    if (high && from->event_count)
        build_born(&b, &(struct edit_block){.stream = 0}, program_most(from, KIND_SAVED) / SLACK, 0,
                   KIND_OTHER);
    for (size_t i = 0; i < from->event_count; i++) {
        const struct trace_moment *at = &from->events[i];
        const struct edit_block *was = at->what == MOMENT_BORN ? &from->blocks[at->block] : NULL;
        if (!was) {
            build_copy(&b, i);
            continue;
        }
        struct ends ends = ends_of(from, was, &h);
        double size = (double)was->size * (high ? ends.high : ends.low);
        uint32_t now = build_born(&b, was, (uint64_t)(size + 0.5), at->phase, was->kind);
        b.now[at->block] = now;
        if (now != BLOCK_NEVER && share(was) < 1 && size < (double)was->size)
            b.to.blocks[now].type = ELEMENT_BFLOAT16;
    }
    forget(&h);
    r->assumes = xstrdup("attention, norms and losses in PyTorch's usual ways, in 16 bits or with copies in "
                         "fp32; exactly: vramscope fit");
    return build_end(&b);
}
