/*
 * attention.c - see attention.h.
 *
 *      fused       output, the sums' logarithms (small)           another line: a copy of the output
 *      in parts    keys, values and queries again, squares ...    in one call of one line
 *
 * Flash attention and cuDNN's take 16 bits alone; fp32 goes by another fused kernel, or in parts.  The other
 * kernel gives its output in an order of its own, so that the copy in another order, which some models take
 * of it, may be none.
 *
 * cuDNN's gives it in the order of the queries.  Where the program has put these in an order of their own, by
 * a copy of four extents, an output that needed no copy needs one then.  What such a block was copied by has
 * no node that makes anything; arithmetic on queries, which keeps their order, has.
 *
 * Why PyTorch went in parts is not recorded.  Where it makes the mask of causal attention by itself, two
 * blocks of bool at the place of the squares, the program gave it none.  Then fused kernels in 16 bits are
 * open to it, whatever the heads are, unless the program has switched them off.  PyTorch's node in backward,
 * which nothing else makes, says that it was PyTorch and not code of the model's.
 */
#include "attention.h"

#include <stdlib.h>
#include <string.h>

#include "scale.h"

struct layer {   /* what was seen of one */
    bool ours;   /* PyTorch's attention in parts, by its node */
    bool masked; /* squares without a mask that it made */
    bool causal; /* squares with one */
};

struct seeing {
    const struct program *p;
    struct scale_outputs outputs;
    uint8_t *parts;
    struct layer *layers; /* by number */
    bool *squares;        /* by stack: it makes some */
    /* of the events that were last */
    uint32_t output;         /* a block that may be attention's output; BLOCK_NEVER */
    bool sums;               /* and what may be its sums came behind it */
    uint32_t stack;          /* of the block that was last */
    uint64_t mask;           /* bytes of bool that came last at that stack */
    int masks;               /* and how many of that size */
    bool kept;               /* something was saved there already */
    uint32_t query;          /* the first that was saved of the layer and has four extents; BLOCK_NEVER */
    struct sizes arithmetic; /* lines with the shapes of what backward makes for them, a number each */
};

static uint64_t line_and_shape(const struct program *p, const struct edit_block *b)
{
    return program_stack(p, b)->line ^ program_asked(p, b)->shape * UINT64_C(0x9e3779b97f4a7c15);
}

static void see_arithmetic(struct seeing *s)
{
    for (size_t i = 0; i < s->p->block_count; i++)
        if (s->p->blocks[i].kind == KIND_BACKWARD && program_asked(s->p, &s->p->blocks[i])->rank == 4)
            *PUSH(s->arithmetic.at, s->arithmetic.n) = line_and_shape(s->p, &s->p->blocks[i]);
    sizes_sort(&s->arithmetic);
}

static void see_query(struct seeing *s, uint32_t block)
{
    const struct edit_block *b = &s->p->blocks[block];
    const struct edit_block *q = s->query == BLOCK_NEVER ? NULL : &s->p->blocks[s->query];
    if (q && program_stack(s->p, q)->layer != program_stack(s->p, b)->layer)
        s->query = BLOCK_NEVER;
    if (s->query == BLOCK_NEVER && b->kind == KIND_SAVED && program_asked(s->p, b)->rank == 4 &&
        program_stack(s->p, b)->attends && b->size > SCALE_SURE)
        s->query = block;
}

/* The output and its sums are there, and no copy of it followed. */
static void end_output(struct seeing *s)
{
    const struct edit_block *out = s->output == BLOCK_NEVER ? NULL : &s->p->blocks[s->output];
    const struct edit_block *q = s->query == BLOCK_NEVER ? NULL : &s->p->blocks[s->query];
    if (!out || !s->sums || !q || q == out || q->size != out->size || out->type != ELEMENT_FLOAT32 ||
        program_stack(s->p, q)->layer != program_stack(s->p, out)->layer ||
        sizes_have(&s->arithmetic, line_and_shape(s->p, q)))
        return;
    s->parts[s->output] = ATTENTION_TURNED;
}

static bool is_square(const struct seeing *s, const struct edit_block *b)
{
    return scale_is_square(s->p, b, &s->outputs);
}

static void see_layers(struct seeing *s)
{
    for (size_t i = 0; i < s->p->block_count; i++) {
        const struct edit_block *b = &s->p->blocks[i];
        const struct edit_stack *stack = program_stack(s->p, b);
        if (stack->parts)
            s->layers[stack->layer].ours = true;
        if (is_square(s, b) && program_is_forward(s->p->facts, s->p->events[b->born].phase))
            s->squares[b->stack < s->p->facts->stack_count ? b->stack : 0] = true;
    }
}

static void see_output(struct seeing *s, uint32_t block)
{
    const struct edit_block *b = &s->p->blocks[block];
    const struct edit_block *out = s->output == BLOCK_NEVER ? NULL : &s->p->blocks[s->output];
    if (out && b->stack == out->stack && b->size <= out->size / 8) {
        s->sums = s->sums || b->type == ELEMENT_FLOAT32 || b->type == ELEMENT_UNKNOWN;
        return;
    }
    bool copy = out && s->sums && b->stack != out->stack && b->size == out->size && b->kind == KIND_SAVED &&
                program_stack(s->p, b)->layer == program_stack(s->p, out)->layer;
    if (copy)
        s->parts[block] = ATTENTION_COPY;
    else
        end_output(s);
    if (s->sums)
        s->query = BLOCK_NEVER; /* its call is over */
    bool may = !copy && program_stack(s->p, b)->attends && b->kind == KIND_SAVED && b->size > SCALE_SURE;
    s->output = may ? block : BLOCK_NEVER;
    s->sums = false;
}

static void see_parts(struct seeing *s, uint32_t block)
{
    const struct edit_block *b = &s->p->blocks[block];
    uint32_t stack = b->stack < s->p->facts->stack_count ? b->stack : 0;
    if (b->stack != s->stack) {
        s->stack = b->stack;
        s->masks = 0;
        s->mask = 0;
        s->kept = false;
    }
    if (b->type == ELEMENT_BOOL) {
        s->masks = s->mask == b->size ? s->masks + 1 : 1;
        s->mask = b->size;
    } else if (is_square(s, b)) {
        struct layer *layer = &s->layers[program_stack(s->p, b)->layer];
        if (s->masks >= 2 && s->mask && b->size % s->mask == 0)
            layer->causal = true;
        else if (!layer->causal)
            layer->masked = true;
    } else if (s->squares[stack] && b->kind == KIND_SAVED && b->size > SCALE_SURE) {
        if (s->kept)
            s->parts[block] = ATTENTION_BESIDE;
        s->kept = true; /* queries: every kernel saves these */
    }
}

static void mark_squares(struct seeing *s)
{
    for (size_t i = 0; i < s->p->block_count; i++) {
        const struct edit_block *b = &s->p->blocks[i];
        const struct layer *layer = &s->layers[program_stack(s->p, b)->layer];
        if (is_square(s, b))
            s->parts[i] = layer->ours && layer->causal && !layer->masked ? ATTENTION_FUSED : ATTENTION_SQUARE;
    }
}

uint8_t *attention_parts(const struct program *p)
{
    size_t stacks = p->facts->stack_count, layers = UINT16_MAX + 1;
    struct seeing s = {.p = p,
                       .outputs = scale_unit_outputs(p),
                       .output = BLOCK_NEVER,
                       .stack = BLOCK_NEVER,
                       .query = BLOCK_NEVER};
    s.parts = xrealloc(NULL, p->block_count + 1);
    memset(s.parts, ATTENTION_NONE, p->block_count + 1);
    s.layers = xrealloc(NULL, layers * sizeof *s.layers);
    memset(s.layers, 0, layers * sizeof *s.layers);
    s.squares = xrealloc(NULL, stacks + 1);
    memset(s.squares, 0, stacks + 1);
    see_layers(&s);
    see_arithmetic(&s);
    for (size_t i = 0; i < p->event_count; i++) {
        const struct trace_moment *e = &p->events[i];
        if (e->what == MOMENT_STEP)
            s.output = s.stack = s.query = BLOCK_NEVER;
        if (e->what != MOMENT_BORN || !program_is_forward(p->facts, e->phase))
            continue;
        see_output(&s, e->block);
        see_query(&s, e->block);
        see_parts(&s, e->block);
    }
    mark_squares(&s);
    scale_free_outputs(&s.outputs);
    free(s.layers);
    free(s.squares);
    free(s.arithmetic.at);
    return s.parts;
}
