/*
 * loss.c - the loss fused with the output layer, in chunks of tokens: its gradients are made together with
 * it.
 *
 *      recorded   logits |L  L' ...|   backward |G  G' ...  W  D|
 *      fused      logits |D  W  C| -C  backward |               |
 *
 * L are logits, G their gradient, W the gradient of the layer's weight, D that of its input, C a chunk of
 * logits.  How many tokens a chunk has the kernel chooses: where the shapes are known its own code is asked
 * (kernels/cuda/chunk.c), else it is taken as 1024 to 2048. Whether it takes its own products of 16 bits or a
 * library's depends on the GPU.
 *
 * Other libraries' fused losses do the same with other chunks; cut cross-entropy makes gradients in backward,
 * which takes less.
 */
#include <chunk.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "apply.h"

#define TOKENS_MOST  2048
#define TOKENS_LEAST 1024
#define SCRATCH      (UINT64_C(4) << 20) /* of the kernel, beside the chunk */
#define SMALL        (UINT64_C(1) << 20) /* what is less is left as it is */

struct head {               /* of one pass through the output layer */
    size_t from, to;        /* its events in logits */
    size_t at;              /* the birth of L */
    uint64_t logits;        /* L */
    double tokens;          /* of L's shape; 0: it is not known */
    uint32_t weight, input; /* blocks that are W and D; BLOCK_NEVER: not seen */
    uint32_t narrow;        /* W in 16 bits, where autocast copies it to the gradient: BLOCK_NEVER */
    uint64_t weight_size, input_size; /* of W and D; of a pass that did not come so far they are inferred */
    double bytes;                     /* of an element: L's times D's by W's; 0 unknown */
    uint8_t type;                     /* of L, ELEMENT_... */
    size_t end;                       /* the first event behind what backward does for it */
    bool cut;                         /* a refusal ended it before backward made both */
    uint16_t layer;
};

static bool is_born(const struct program *p, size_t i)
{
    return p->events[i].what == MOMENT_BORN;
}

static const struct edit_block *block_of(const struct program *p, size_t i)
{
    return &p->blocks[p->events[i].block];
}

/* The request that was refused may be the one for them. */
static bool is_logits(const struct program *p, const struct edit_block *b)
{
    bool request =
        b->kind == KIND_REQUEST && p->events[b->born].phase == p->facts->logits && p->facts->logits;
    return (b->kind == KIND_LOGITS || request) && b->size >= SMALL;
}

/* Of [tokens, words], or [samples, length, words]. */
static double rows(const struct program *p, const struct edit_block *b)
{
    double row = (double)program_asked(p, b)->inner[0] * (double)element_bytes(b->type);
    return row > 0 ? (double)b->size / row : 0;
}

/* Reads into H the events of logits from I on, the layer of the first, and the largest block that this layer
 * makes.  The phase begins when the output layer is called.  What the loss then makes of its logits (copies
 * in fp32) is the model's. */
static void see_logits(const struct program *p, size_t i, struct head *h)
{
    *h =
        (struct head){.from = i, .at = i, .weight = BLOCK_NEVER, .input = BLOCK_NEVER, .narrow = BLOCK_NEVER};
    for (; i < p->event_count && p->events[i].phase == p->facts->logits; i++)
        if (is_born(p, i) && is_logits(p, block_of(p, i))) {
            if (!h->logits)
                h->layer = program_stack(p, block_of(p, i))->layer;
            if (block_of(p, i)->size <= h->logits || program_stack(p, block_of(p, i))->layer != h->layer)
                continue;
            h->logits = block_of(p, i)->size;
            h->at = i;
            h->type = block_of(p, i)->type;
            h->tokens = rows(p, block_of(p, i));
        }
    h->to = h->end = i;
}

static uint8_t largest_type(const struct program *p)
{
    const struct edit_block *largest = NULL;
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_PARAMETER && (!largest || p->blocks[i].size > largest->size))
            largest = &p->blocks[i];
    return largest ? largest->type : ELEMENT_UNKNOWN;
}

/* Whether B is a parameter's gradient: where a weight is used twice, that is added to another one. */
static bool is_weight(const struct sizes *s, const struct edit_block *b)
{
    return b->kind == KIND_GRADIENT || sizes_have(s, b->size);
}

/* A library's workspace is made where its first call is, and stays: it is no gradient. */
static bool is_workspace(const struct program *p, const struct edit_block *b)
{
    return program_asked(p, b)->raw || (b->kind == KIND_OTHER && program_is_workspace(b->size));
}

/* What backward makes first: gradients of logits, and those of the output layer, which are made by one node.
 */
static void see_backward(const struct program *p, const struct sizes *parameters, struct head *h)
{
    size_t i = h->to;
    uint32_t stack = 0;
    bool next = false; /* another forward begins before any backward */
    for (; i < p->event_count && p->events[i].phase != p->facts->backward &&
           p->events[i].phase != p->facts->logits && p->events[i].what != MOMENT_STEP;
         i++)
        next = next || (is_born(p, i) && p->events[i].phase == p->facts->forward);
    for (; i < p->event_count && p->events[i].phase == p->facts->backward; i++) {
        if (!is_born(p, i))
            continue;
        const struct edit_block *b = block_of(p, i);
        bool heads = h->layer && program_stack(p, b)->layer == h->layer && b->size < h->logits;
        if (stack && b->stack != stack)
            break;
        if (!heads || b->size < SMALL / 16 || is_workspace(p, b))
            continue;
        stack = b->stack;
        if (h->weight == BLOCK_NEVER)
            h->weight = p->events[i].block;
        else if (h->input == BLOCK_NEVER)
            h->input = p->events[i].block;
    }
    h->end = i;
    h->cut = i == p->event_count && !next && is_born(p, i - 1) && block_of(p, i - 1)->kind == KIND_REQUEST;
    if (h->weight != BLOCK_NEVER && h->input == BLOCK_NEVER && !h->cut &&
        !is_weight(parameters, &p->blocks[h->weight])) { /* the layer is frozen */
        h->input = h->weight;
        h->weight = BLOCK_NEVER;
    }
    if (h->weight != BLOCK_NEVER && h->input != BLOCK_NEVER && is_weight(parameters, &p->blocks[h->input]) &&
        !is_weight(parameters, &p->blocks[h->weight])) {
        uint32_t other = h->weight;
        h->weight = h->input;
        h->input = other;
    }
}

/* Tokens of a pass, by the sizes of logits (N x V), input (N x H) and weight (V x H), in elements of BYTES
 * where types are not known. */
static double tokens(const struct head *h, double bytes)
{
    if (h->tokens > 0 || !h->weight_size || !h->input_size)
        return h->tokens;
    double each = h->bytes > 0 ? h->bytes : bytes;
    return sqrt((double)h->logits * (double)h->input_size / ((double)h->weight_size * each));
}

/* Bytes of an element that L's and D's sizes have in their product more than W's. */
static double bytes_of(const struct head *h, uint8_t weight, uint8_t input)
{
    uint64_t l = element_bytes(h->type), d = element_bytes(input), w = element_bytes(weight);
    return w ? (double)(l * d) / (double)w : 0;
}

/* ---- a chunk ---- */

#define BUDGET     (UINT64_C(512) << 20) /* of a plan, by default, */
#define BUDGET_OWN (UINT64_C(576) << 20) /* and of one that takes its own products */
#define PROCESSORS 132                   /* of the GPUs that it has estimates for */
#define ROW        128                   /* elements that a row of logits is a multiple of */
#define CUT        512 /* tokens: of less a plan may take classes in turn, or lend rows of what it gives */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct chunks {
    uint64_t least, most; /* bytes */
    int64_t tokens[2];    /* likewise */
};

/* As the plan chooses it (kernels/cuda/plan.c).  OWN: of its own products, whose rows of D are gathered. */
static int64_t chunk_tokens(struct lce_chunk_shape shape, bool own)
{
    shape.budget = own ? BUDGET_OWN : BUDGET;
    shape.token += own ? (uint64_t)(shape.hidden * shape.element) : 0;
    shape.tail = !own && shape.element == 2 && shape.vocab % 8;
    int64_t most = (int64_t)((shape.budget - shape.budget / 64) / shape.token);
    most = most < 128 ? 128 : most > shape.tokens ? shape.tokens : most;
    return own ? lce_own_choose(&shape, most) : lce_chunk_choose(&shape, most);
}

/* False: the shapes are not known. */
static bool chunks_of(const struct head *h, uint8_t weight, uint8_t input, struct chunks *c)
{
    uint64_t element = element_bytes(h->type), width = element_bytes(input);
    if (h->tokens < 1 || !element || !width || !h->input_size)
        return false;
    struct lce_chunk_shape shape = {
        .tokens = (int64_t)h->tokens,
        .hidden = (int64_t)((double)h->input_size / ((double)width * h->tokens)),
        .vocab = (int64_t)((double)h->logits / ((double)element * h->tokens)),
        .element = (int)element,
        .grad_element = h->weight_size ? (int)element_bytes(weight) : 0,
        .grad_input = 1,
        .processors = PROCESSORS,
    };
    if (shape.hidden < 1 || shape.vocab < 1)
        return false;
    shape.token = (uint64_t)((shape.vocab + ROW - 1) / ROW * ROW) * element;
    int64_t least = chunk_tokens(shape, false), most = least;
    for (int odds = 0; element == 2 && odds < 2;
         odds++) { /* of 16 bits some have them: kernels/cuda/odds.c */
        shape.exponents = true;
        shape.odds = odds;
        const int64_t own = chunk_tokens(shape, true);
        least = own < least ? own : least;
        most = own > most ? own : most;
    }
    c->tokens[0] = least;
    c->tokens[1] = most;
    uint64_t logits = (uint64_t)most * shape.token, fixed = 9 * (uint64_t)h->tokens + SCRATCH;
    uint64_t rows = element == 2 ? (uint64_t)(most * shape.hidden) * element : 0;
    if (element == 2) /* the tokens of each class, for its row of the weight's gradient */
        fixed += (uint64_t)(h->tokens * (24 + (double)shape.hidden / 2048)) + 8 * (uint64_t)shape.vocab;
    bool splits = element == 2 || lce_worth_splitting(most, shape.hidden, PROCESSORS);
    c->least = least < CUT && least < shape.tokens ? 0 : (uint64_t)least * shape.token;
    c->most = logits + rows + fixed + (splits ? LCE_MOST_SCRATCH : 0);
    return true;
}

static uint64_t chunk(const struct head *h, uint8_t weight, uint8_t input, bool high, struct chunks *c)
{
    if (chunks_of(h, weight, input, c))
        return high ? c->most : larger(c->least, SMALL);
    c->tokens[0] = c->tokens[1] = 0;
    double n = tokens(h, high ? 4 : 2), most = high ? TOKENS_MOST : TOKENS_LEAST;
    double share = n > most ? most / n : 1;
    return (uint64_t)((double)h->logits * share) + (high ? SCRATCH : 0);
}

struct fusing {
    struct build b;
    struct head head;
    bool in, high, autocast;
    struct chunks chunks; /* of the last pass */
    uint64_t chunk_size;
    uint32_t chunk, more; /* more: what W in fp32 has over W in 16 bits, until backward makes the fp32 one */
    struct sizes parameters;
    uint64_t saved;                  /* what forward saved last in this step */
    uint8_t saved_type, weight_type; /* of that, and of the largest parameter */
};

/* Where backward did not make both, as it did not come so far or the layer is frozen: W is the largest
 * parameter, as output layers' are, and D as large as what forward saved last, which is the layer's input. */
static void infer(const struct fusing *f, struct head *h)
{
    if (h->weight == BLOCK_NEVER && f->parameters.n)
        h->weight_size = f->parameters.at[f->parameters.n - 1];
    h->input_size = h->input == BLOCK_NEVER ? f->saved : f->b.from->blocks[h->input].size;
    h->bytes = bytes_of(h, f->weight_type, f->saved_type);
}

/* Under autocast W is copied to its gradient as soon as it is there; a fused loss makes that at once. */
static void see_gradient(const struct program *p, struct head *h)
{
    const struct edit_block *w = &p->blocks[h->weight];
    uint32_t left = 8; /* blocks behind it at the most */
    for (size_t i = w->born + 1; i < p->event_count && left && p->events[i].phase == p->facts->backward;
         i++) {
        const struct edit_block *b = block_of(p, i);
        if (!is_born(p, i))
            continue;
        left--;
        if (b->kind != KIND_GRADIENT || b->size != 2 * w->size || program_stack(p, b)->layer != h->layer)
            continue;
        h->narrow = h->weight;
        h->weight = p->events[i].block;
        h->end = h->end > i ? h->end : i + 1;
        return;
    }
}

static void begin(struct fusing *f, size_t i)
{
    const struct program *p = f->b.from;
    struct head *h = &f->head;
    see_logits(p, i, h);
    see_backward(p, &f->parameters, h);
    if (h->weight != BLOCK_NEVER && h->input != BLOCK_NEVER) {
        h->weight_size = p->blocks[h->weight].size;
        h->input_size = p->blocks[h->input].size;
        h->bytes = bytes_of(h, p->blocks[h->weight].type, p->blocks[h->input].type);
    } else {
        infer(f, h);
    }
    uint8_t weight = h->weight == BLOCK_NEVER ? f->weight_type : p->blocks[h->weight].type,
            input = h->input == BLOCK_NEVER ? f->saved_type : p->blocks[h->input].type;
    f->chunk_size = chunk(h, weight, input, f->high, &f->chunks);
    if (f->autocast && h->weight != BLOCK_NEVER && f->chunks.tokens[1])
        see_gradient(p, h);
    f->in = true;
}

/* At the birth of L. */
static void make(struct fusing *f, size_t i)
{
    const struct program *p = f->b.from;
    struct head *h = &f->head;
    uint16_t phase = p->events[i].phase;
    if (h->cut && h->input == BLOCK_NEVER)
        build_born(&f->b, block_of(p, i), h->input_size, phase, KIND_BACKWARD);
    if (h->cut && h->weight == BLOCK_NEVER)
        build_born(&f->b, block_of(p, i), h->weight_size, phase, KIND_GRADIENT);
    if (h->input != BLOCK_NEVER) {
        const struct edit_block *d = &p->blocks[h->input];
        f->b.now[h->input] = build_born(&f->b, d, d->size, phase, d->kind);
    }
    if (h->weight != BLOCK_NEVER) {
        const struct edit_block *w = &p->blocks[h->weight];
        f->b.now[h->weight] = build_born(&f->b, w, w->size, phase, w->kind);
    }
    const struct edit_block *like = block_of(p, i);
    bool made = h->weight == BLOCK_NEVER ? h->cut : p->blocks[h->weight].kind != KIND_GRADIENT;
    if (f->autocast && f->high && made)
        f->more = build_born(&f->b, like, h->weight_size, phase, KIND_GRADIENT);
    f->chunk = build_born(&f->b, like, f->chunk_size, phase, KIND_LOGITS);
}

/* What autocast made for the output layer, of its input and its weight: the fused one needs both, too, while
 * it runs. */
static bool is_cast(const struct fusing *f, const struct edit_block *b)
{
    return f->autocast && element_is_half(b->type) && b->size < f->head.logits &&
           program_stack(f->b.from, b)->layer == f->head.layer;
}

static void end_casts(struct fusing *f)
{
    for (size_t i = f->head.from; i < f->head.to; i++)
        if (is_born(f->b.from, i) && is_cast(f, block_of(f->b.from, i)))
            build_died(&f->b, f->b.now[f->b.from->events[i].block], f->b.from->facts->logits);
}

/* Whether event I of a pass is gone, or was made before.  The death of what is not there is no event. */
static bool is_gone(const struct fusing *f, size_t i)
{
    const struct program *p = f->b.from;
    const struct trace_moment *e = &p->events[i];
    if (e->what != MOMENT_BORN)
        return false;
    const struct edit_block *b = &p->blocks[e->block];
    if (e->block == f->head.weight || e->block == f->head.input)
        return f->b.now[e->block] != BLOCK_NEVER;
    if (e->block == f->head.narrow)
        return true;
    bool request = b->kind == KIND_REQUEST;
    if (i < f->head.to)
        return (b->kind == KIND_LOGITS || request) && b->size >= SMALL && !is_cast(f, b);
    return i < f->head.end && (b->kind == KIND_BACKWARD || request) && b->size >= f->head.logits / 4;
}

static char *assumption(const struct fusing *f)
{
    const int64_t *tokens = f->chunks.tokens;
    const char *weight =
        f->autocast && !tokens[1] ? ", and the weight's gradient 16 bits or, under autocast, 32" : "";
    if (!tokens[1])
        return xformat("the chunk has between 1024 and 2048 tokens%s", weight);
    if (tokens[0] == tokens[1])
        return xformat("the chunk has %" PRId64 " tokens, as vramscope.linear_cross_entropy chooses%s",
                       tokens[0], weight);
    return xformat("the chunk has %" PRId64 " or %" PRId64
                   " tokens, as vramscope.linear_cross_entropy chooses%s",
                   tokens[0], tokens[1], weight);
}

struct program apply_loss(const struct program *from, const struct edit *e, struct edit_result *r, bool high)
{
    (void)e;
    bool any = false;
    if (!needs_steps(from, r))
        return (struct program){0};
    for (size_t i = 0; i < from->block_count && !any; i++)
        any = is_logits(from, &from->blocks[i]);
    for (size_t i = 0; i < from->block_count; i++)
        if (from->blocks[i].kind == KIND_GRADIENT && from->events[from->blocks[i].born].phase &&
            from->events[from->blocks[i].born].phase == from->facts->logits)
            return refuse_nothing(r, "the loss makes a parameter's gradient in logits: it is fused already");
    if (!any)
        return refuse_nothing(r, "no output layer made logits to speak of in a phase 'logits'");
    struct fusing f = {.high = high,
                       .autocast = elements_are_cast(from),
                       .chunk = BLOCK_NEVER,
                       .more = BLOCK_NEVER,
                       .parameters = program_sizes(from, 1u << KIND_PARAMETER, 0),
                       .weight_type = largest_type(from)};
    build_begin(&f.b, from);
    for (size_t i = 0; i < from->event_count; i++) {
        const struct trace_moment *at = &from->events[i];
        if (f.in && i >= f.head.to) {
            if (f.chunk != BLOCK_NEVER)
                end_casts(&f);
            build_died(&f.b, f.chunk, from->facts->logits);
            build_died(&f.b, f.more, from->facts->logits);
            f.chunk = f.more = BLOCK_NEVER;
            f.in = i < f.head.end;
        }
        const struct edit_block *born = at->what == MOMENT_BORN ? &from->blocks[at->block] : NULL;
        if (born && is_logits(from, born) && (!f.in || i >= f.head.end))
            begin(&f, i);
        if (f.in && i == f.head.at)
            make(&f, i);
        if (born && born->kind == KIND_SAVED && born->size >= SMALL / 16) {
            f.saved = born->size;
            f.saved_type = born->type;
        } else if (at->what == MOMENT_STEP) {
            f.saved = 0;
        }
        if (!f.in || !is_gone(&f, i))
            build_copy(&f.b, i);
    }
    free(f.parameters.at);
    r->assumes = assumption(&f);
    return build_end(&f.b);
}
