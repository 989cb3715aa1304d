/*
 * types.c - the program in bf16: parameters, gradients, states and activations that are wider.
 *
 * A block of a wider type has as many elements of 2 bytes, whole numbers and raw bytes stay as they are. What
 * code is known to compute in fp32 (losses, some norms) stays in fp32.  Under autocast a program computes in
 * 16 bits already, out of parameters in fp32; in bf16 it is without the copies (elements.h).
 *
 * Where types are not recorded everything is taken for fp32, unless sizes speak against it (widths.h).
 */
#include <stdlib.h>
#include <string.h>

#include "apply.h"
#include "attention.h"
#include "elements.h"
#include "losses.h"
#include "norms.h"
#include "scale.h"
#include "softmax.h"
#include "unfused.h"
#include "widths.h"
#include "workspaces.h"

/* Of what is saved for backward, one in so many that the other type's kernels may need beside it: where types
 * are known what they need is known better. */
#define SLACK_TYPED   100
#define SLACK_UNKNOWN 25

struct halving {
    bool high;
    uint8_t *parts; /* of blocks, enum attention_part */
    struct casts casts;
    struct source {      /* by block, of what copies are made */
        uint32_t copies; /* that live */
        bool died;       /* as recorded: it lives as long as they do */
    } * sources;
    struct unfused unfused;
    struct softmaxes softmaxes;
    struct workspaces workspaces;
    uint32_t *weights; /* of blocks: what goes with one: a recurrent layer's weights in one piece with its
                          reserve, a copy of attention's output with that */
    uint32_t piece;    /* that of the call that is under way */
    struct norms norms;
    struct losses losses;
    uint32_t
        logits; /* what the output layer made last, and a copy in fp32 of that: blocks of the new program */
    uint32_t copy;
    uint32_t wide;     /* the gradient of that copy: a block of the new program, */
    uint32_t wide_was; /* and of the recorded one */
};

/* Of bytes that stay when elements of TYPE become bf16. */
static double share(const struct program *p, const struct edit_block *b)
{
    uint64_t bytes = element_bytes(b->type);
    if (program_asked(p, b)->raw || !element_is_float(b->type))
        return 1;
    return bytes ? 2.0 / (double)bytes : 0.5; /* unknown: taken for fp32 */
}

static double of_loss(const struct program *p, uint32_t block, const struct halving *h)
{
    double half = share(p, &p->blocks[block]);
    bool fp32 = h->losses.type == LOSS_FP32, open = h->losses.type == LOSS_UNKNOWN && h->high;
    switch ((enum loss_part)h->losses.of[block]) {
    case LOSS_COPY:
        return fp32 || open ? 1 : 0;
    case LOSS_OWN:
        return fp32 || open ? 1 : half;
    case LOSS_NEAR: /* before a copy, or behind it: where the code is known it is before */
        return open || (fp32 && h->losses.copied) || (fp32 && h->losses.said && h->high) ? 1 : half;
    case LOSS_NONE:
        break;
    }
    return half;
}

static double of_data(const struct program *p, uint32_t block, const struct halving *h)
{
    const struct edit_block *b = &p->blocks[block];
    const struct edit_stack *s = program_stack(p, b);
    bool saved = b->kind == KIND_SAVED;
    double half = share(p, b);
    if (h->high && softmax_widens(&h->softmaxes, p, block))
        return 1;
    if (s->norm && h->norms.by_hand[s->layer])
        return h->high && saved ? (s->library && !s->wide_norm ? 1 : 1.25)
               : h->high || (s->library && b->kind != KIND_BACKWARD) ? 1
                                                                     : half;
    if (s->upcast && (h->high || s->unit == EDIT_NO_UNIT))
        return 1; /* a norm keeps more or less of it */
    return half;
}

/* Whether the block is of a call of attention that is in parts in 16 bits, too. */
static bool is_in_parts(const struct halving *h, uint32_t block)
{
    const struct unfused_call *c = unfused_call_of(&h->unfused, block);
    return c && (c->stays || (h->high && h->parts[c->weights] != ATTENTION_FUSED));
}

static bool is_fused(const struct program *p, uint32_t block, const struct halving *h)
{
    const struct unfused_call *c = unfused_call_of(&h->unfused, block);
    return c && !is_in_parts(h, block) && unfused_is_square(&h->unfused, p, block);
}

/* What is known to be computed in fp32 stays as large.  Of what is in no unit of the model it is not known.
 */
static double factor(const struct program *p, uint32_t block, const struct halving *h)
{
    const struct edit_block *b = &p->blocks[block];
    enum cast cast = h->casts.of[block];
    if (cast != CAST_NONE)
        return cast != CAST_WEIGHT && cast != CAST_INPUT && h->high ? 1 : 0;
    if (h->softmaxes.of[block] == SOFTMAX_OUTPUT)
        return h->high ? 1 : share(p, b);
    bool stays = h->parts[block] == ATTENTION_NONE || h->parts[block] == ATTENTION_TURNED;
    if (h->parts[block] == ATTENTION_FUSED || (!h->high && !stays))
        return 0; /* in 16 bits attention may be fused, or by another kernel */
    if (is_fused(p, block, h) || h->norms.given[block])
        return 0;
    double half = share(p, b);
    if (half >= 1)
        return 1;
    if (h->losses.of[block] != LOSS_NONE)
        return of_loss(p, block, h);
    switch (b->kind) {
    case KIND_PARAMETER:
    case KIND_GRADIENT:
    case KIND_STATE:
    case KIND_UPDATE:
    case KIND_LOGITS:
        return half;
    case KIND_SAVED:
    case KIND_FORWARD:
    case KIND_BACKWARD:
        return of_data(p, block, h);
    default: /* of inputs and of what is kept: it may go on being wide, or be no numbers at all */
        return !h->high && (b->type != ELEMENT_UNKNOWN || scale_is_kept(p, b)) ? half : 1;
    }
}

static void mark_half(struct build *b, uint32_t block)
{
    if (block != BLOCK_NEVER)
        b->to.blocks[block].type = ELEMENT_BFLOAT16;
}

static bool is_wide(enum loss_type type, bool high)
{
    return type == LOSS_FP32 || (type == LOSS_UNKNOWN && high);
}

/* The copy of the logits that a loss in fp32 takes.  A function of a library holds the copy up to its end.
 * Other code holds it as long as the logits, at the high end; at the low end the logits go as soon as the
 * copy is there. */
static void follow_copy(struct build *b, size_t i, struct halving *h)
{
    const struct trace_moment *e = &b->from->events[i];
    const struct edit_block *was = &b->from->blocks[e->block];
    bool code = h->losses.type == LOSS_FP32 && !h->losses.said;
    if ((e->what == MOMENT_DIED && b->now[e->block] == h->logits && h->logits != BLOCK_NEVER) ||
        (code && e->what == MOMENT_BORN && e->phase != b->from->facts->logits)) {
        build_died(b, h->copy, e->phase);
        h->logits = h->copy = BLOCK_NEVER;
    }
    bool heads = was->kind == KIND_LOGITS && program_stack(b->from, was)->layer == h->losses.head;
    double half = share(b->from, was);
    if (e->what != MOMENT_BORN || !heads || was->size < SCALE_SURE || half >= 1)
        return;
    uint32_t logits = build_born(b, was, (uint64_t)((double)was->size * half), e->phase, was->kind);
    mark_half(b, logits);
    b->now[e->block] = logits;
    if (!is_wide(h->losses.type, h->high) || h->copy != BLOCK_NEVER)
        return;
    h->logits = logits;
    h->copy = build_born(b, was, was->size, e->phase, was->kind);
    if (!code && !h->high) {
        build_died(b, logits, e->phase);
        b->now[e->block] = h->logits = h->copy;
        h->copy = BLOCK_NEVER;
    }
}

/* Before the output layer's gradients are made, that of the copy is copied back to 16 bits. */
static void follow_gradient(struct build *b, size_t i, struct halving *h)
{
    const struct trace_moment *e = &b->from->events[i];
    const struct edit_block *was = &b->from->blocks[e->block];
    if (e->what != MOMENT_BORN || e->phase != b->from->facts->backward || h->wide == BLOCK_NEVER ||
        program_stack(b->from, was)->layer != h->losses.head)
        return;
    const struct edit_block *wide = &b->from->blocks[h->wide_was];
    uint32_t now = build_born(b, wide, wide->size / 2, e->phase, KIND_BACKWARD);
    mark_half(b, now);
    build_died(b, h->wide, e->phase);
    b->now[h->wide_was] = now;
    h->wide = BLOCK_NEVER;
}

/* After event I, a birth. */
static void see_gradient(const struct build *b, size_t i, struct halving *h)
{
    const struct trace_moment *e = &b->from->events[i];
    const struct edit_block *was = &b->from->blocks[e->block];
    bool own = h->losses.of[e->block] == LOSS_OWN && was->kind == KIND_BACKWARD;
    if (!own || !h->losses.head_wide || was->type != ELEMENT_FLOAT32 ||
        was->size / 4 < h->losses.elements / 8 * 7 || !is_wide(h->losses.type, h->high))
        return;
    h->wide = b->now[e->block];
    h->wide_was = e->block;
}

/* A recurrent layer's call has its workspace before its reserve. */
static void bear_workspace(struct build *b, size_t i, struct halving *h, enum workspace work)
{
    const struct trace_moment *at = &b->from->events[i];
    const struct edit_block *was = &b->from->blocks[at->block];
    uint64_t weights = h->workspaces.layers[program_stack(b->from, was)->layer].weights;
    if (work == WORKSPACE_RECURRENT && was->kind == KIND_FORWARD && h->piece == BLOCK_NEVER) {
        h->piece = build_born(b, was, weights / 2, at->phase, KIND_SAVED);
        mark_half(b, h->piece);
    }
    b->now[at->block] = build_born(b, was, workspaces_half(&h->workspaces, b->from, at->block, h->high),
                                   at->phase, was->kind);
    if (work == WORKSPACE_RESERVE) {
        h->weights[at->block] = h->piece;
        h->piece = BLOCK_NEVER;
    }
}

/* Whether the block of E, a death, lives on for its copies; of a copy's the last ends what it is of. */
static bool outlives(struct build *b, const struct trace_moment *e, struct halving *h)
{
    uint32_t from = h->casts.from[e->block];
    struct source *s = &h->sources[from == BLOCK_NEVER ? e->block : from];
    if (from == BLOCK_NEVER) {
        s->died = s->copies > 0;
        return s->died;
    }
    s->copies -= s->copies > 0;
    if (!s->copies && s->died)
        build_died(b, b->now[from], e->phase);
    return false;
}

static void bear(struct build *b, size_t i, struct halving *h)
{
    const struct trace_moment *at = &b->from->events[i];
    const struct edit_block *was = &b->from->blocks[at->block];
    if (b->now[at->block] != BLOCK_NEVER)
        return;
    if (is_in_parts(h, at->block)) {
        unfused_bear(&h->unfused, b, i);
        return;
    }
    enum workspace work = h->workspaces.of[at->block];
    if (work != WORKSPACE_NONE) {
        bear_workspace(b, i, h, work);
        return;
    }
    if (h->casts.from[at->block] != BLOCK_NEVER)
        h->sources[h->casts.from[at->block]].copies++;
    double times = factor(b->from, at->block, h);
    uint32_t now = build_born(b, was, (uint64_t)((double)was->size * times + 0.5), at->phase, was->kind);
    b->now[at->block] = now;
    if (times < 1)
        mark_half(b, now);
    if (h->high &&
        (h->parts[at->block] == ATTENTION_TURNED || h->softmaxes.of[at->block] == SOFTMAX_OUTPUT)) {
        h->weights[at->block] = build_born(b, was, was->size / 2, at->phase, was->kind);
        mark_half(b, h->weights[at->block]);
    }
}

/* ---- what is known of types ---- */

static bool has_wide_parameter(const struct program *p)
{
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_PARAMETER && share(p, &p->blocks[i]) < 1)
            return true;
    return false;
}

/* Bytes of blocks whose type is not known, at most 1 % of all. */
static bool all_typed(const struct program *p)
{
    double all = 0, unknown = 0;
    for (size_t i = 0; i < p->block_count; i++) {
        const struct edit_block *b = &p->blocks[i];
        all += (double)b->size;
        unknown += b->type == ELEMENT_UNKNOWN && !program_asked(p, b)->raw ? (double)b->size : 0;
    }
    return unknown <= all / 100;
}

static uint64_t slack(const struct program *p)
{
    double all = 0, unknown = 0;
    for (size_t i = 0; i < p->block_count; i++) {
        const struct edit_block *b = &p->blocks[i];
        if (b->kind != KIND_SAVED)
            continue;
        all += (double)b->size;
        unknown += b->type == ELEMENT_UNKNOWN && !program_asked(p, b)->raw ? (double)b->size : 0;
    }
    double share = all > 0 ? unknown / all : 0, most = (double)program_most(p, KIND_SAVED);
    return (uint64_t)(most * ((1 - share) / SLACK_TYPED + share / SLACK_UNKNOWN));
}

/* False with R->why. */
static bool can_tell(const struct program *p, struct edit_result *r)
{
    if (p->facts->types) {
        if (!has_wide_parameter(p))
            refuse_nothing(r, "no parameter is float32 or float64");
        return !r->why;
    }
    enum widths widths = widths_of(p);
    if (p->facts->imported)
        refuse(r, "element types are not known: a snapshot does not say them, vramscope run does");
    else if (widths == WIDTHS_AUTOCAST)
        refuse(r, "element types are not known: forward makes blocks of half the size of most parameters, as "
                  "autocast's copies in 16 bits are");
    else if (widths == WIDTHS_HALF)
        refuse(r, "element types are not known: norms, or the loss, make blocks of twice the size of others, "
                  "as copies in fp32 of 16 bits are");
    return !r->why;
}

static const char *assumption(const struct program *p)
{
    if (!p->facts->types)
        return "everything is fp32 now, which no recording says";
    if (!all_typed(p))
        return "blocks of no known type are fp32 now";
    return widths_of(p) == WIDTHS_AUTOCAST ? "autocast goes, and its copies in 16 bits with it"
                                           : "losses and norms that compute in fp32 go on doing so";
}

static const char *about_loss(const struct losses *l)
{
    if (l->said)
        return l->type == LOSS_FP32 ? "; the loss takes a copy of its logits in fp32"
                                    : "; the loss takes its logits in 16 bits";
    return l->type == LOSS_UNKNOWN && l->elements
               ? "; wide, as the loss may take its logits in 16 bits (low end) or in fp32 (high end)"
               : "";
}

struct program apply_types(const struct program *from, const struct edit *e, struct edit_result *r, bool high)
{
    if (!needs_steps(from, r) || !needs_roles(from, r) || !can_tell(from, r))
        return (struct program){0};
    struct halving h = {.high = high,
                        .parts = attention_parts(from),
                        .casts = element_casts(from),
                        .norms = norms_read(from),
                        .unfused = unfused_read(from),
                        .workspaces = workspaces_read(from),
                        .weights = xrealloc(NULL, (from->block_count + 1) * sizeof *h.weights),
                        .sources = xrealloc(NULL, (from->block_count + 1) * sizeof *h.sources),
                        .piece = BLOCK_NEVER,
                        .losses = losses_read(from, (enum loss_type)e->loss),
                        .logits = BLOCK_NEVER,
                        .copy = BLOCK_NEVER,
                        .wide = BLOCK_NEVER};
    h.softmaxes = softmaxes_read(from, h.parts);
    memset(h.weights, 0xff, (from->block_count + 1) * sizeof *h.weights);
    memset(h.sources, 0, (from->block_count + 1) * sizeof *h.sources);
    struct edit_block like = {.stream = 0};
    struct build b;
    build_begin(&b, from);
    if (high && from->event_count) /* workspaces */
        build_born(&b, &like, slack(from), 0, KIND_OTHER);
    for (size_t i = 0; i < from->event_count; i++) {
        const struct trace_moment *at = &from->events[i];
        if (at->what == MOMENT_BORN || at->what == MOMENT_DIED)
            follow_copy(&b, i, &h);
        if (at->what == MOMENT_DIED) {
            unfused_end(&h.unfused, &b, i);
            build_died(&b, h.weights[at->block], at->phase);
        }
        if (at->what == MOMENT_BORN) {
            follow_gradient(&b, i, &h);
            bear(&b, i, &h);
            see_gradient(&b, i, &h);
        } else if (at->what != MOMENT_DIED || !outlives(&b, at, &h)) {
            build_copy(&b, i);
        }
    }
    bool fuses = memchr(h.parts, ATTENTION_FUSED, from->block_count) != NULL, in_parts = false;
    for (size_t i = 0; i < h.unfused.n; i++)
        in_parts = in_parts || h.unfused.calls[i].stays;
    free(h.parts);
    element_free_casts(&h.casts);
    free(h.sources);
    free(h.weights);
    norms_free(&h.norms);
    unfused_free(&h.unfused);
    const char *softmax =
        h.softmaxes.any ? "; wide, as a softmax may compute in 16 bits (low end) or in fp32 (high end)" : "";
    softmaxes_free(&h.softmaxes);
    workspaces_free(&h.workspaces);
    r->assumes =
        xformat("%s%s%s%s%s", assumption(from), fuses ? "; the program lets PyTorch fuse attention" : "",
                in_parts ? "; attention that is not fused now, though its heads allow it, is not then, "
                           "and computes in fp32"
                         : "",
                softmax, about_loss(&h.losses));
    losses_free(&h.losses);
    return build_end(&b);
}
