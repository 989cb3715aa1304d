/*
 * elements.c - see elements.h.
 *
 * Under autocast parameters are fp32, and forward copies each to 16 bits once and keeps the copy to the end
 * of the pass.  A copy has its parameter's shape; since data can have the same one, no more are taken for
 * copies at a time than there are parameters.  A layer's input is copied each time that a layer takes it: one
 * and the same call makes the copy, and then the output.
 *
 * Where that call is one product (of PyTorch's linear layers and convolutions) it makes nothing but copies
 * and its output.  So the block before the output is for sure the copy of the input, and the input is the
 * block of as many elements that was made last.  Without autocast the layer is given the input itself, which
 * is kept for backward in the copy's place.
 */
#include "elements.h"

#include <stdlib.h>
#include <string.h>

#include "trace/event.h"

static const struct {
    const char *name;
    uint8_t bytes;
} types[256] = {
#define X(n, text, size) [(n) + 1] = {text, size},
    VS_ELEMENT_TYPES(X)
#undef X
};

uint64_t element_bytes(uint8_t type)
{
    return types[type].bytes;
}

const char *element_name(uint8_t type)
{
    return types[type].name ? types[type].name : "of an unknown type";
}

/* ---- copies ---- */

struct shape { /* of parameters that are wider than 16 bits */
    uint64_t shape;
    size_t parameters, copies; /* so many have it; so many copies live */
};

struct shapes { /* sorted */
    struct shape *at;
    size_t n;
};

static int by_shape(const void *a, const void *b)
{
    uint64_t x = ((const struct shape *)a)->shape, y = ((const struct shape *)b)->shape;
    return (x > y) - (x < y);
}

static struct shapes parameter_shapes(const struct program *p)
{
    struct shapes s = {0};
    size_t n = 0;
    for (size_t i = 0; i < p->block_count; i++) {
        const struct edit_block *b = &p->blocks[i];
        uint64_t shape = program_asked(p, b)->shape;
        if (b->kind == KIND_PARAMETER && shape && element_is_float(b->type) && element_bytes(b->type) >= 4)
            *PUSH(s.at, s.n) = (struct shape){.shape = shape, .parameters = 1};
    }
    if (s.n)
        qsort(s.at, s.n, sizeof *s.at, by_shape);
    for (size_t i = 0; i < s.n; i++)
        if (n && s.at[n - 1].shape == s.at[i].shape)
            s.at[n - 1].parameters++;
        else
            s.at[n++] = s.at[i];
    s.n = n;
    return s;
}

static struct shape *find(const struct shapes *s, uint64_t shape)
{
    struct shape key = {.shape = shape};
    return s->n && shape ? bsearch(&key, s->at, s->n, sizeof *s->at, by_shape) : NULL;
}

struct seeing {
    const struct program *p;
    struct shapes shapes;
    struct casts casts;
    uint32_t last;   /* block of data that was made last, where nothing but copies came since */
    uint32_t *alive; /* wide blocks that live, as they were made */
    size_t n;
};

static uint64_t elements_of(const struct edit_block *b)
{
    return element_bytes(b->type) ? b->size / element_bytes(b->type) : 0;
}

/* The wide block of as many elements that was made last of those that live; BLOCK_NEVER. */
static uint32_t find_source(const struct seeing *s, uint32_t copy)
{
    for (size_t i = s->n; i-- > 0;)
        if (elements_of(&s->p->blocks[s->alive[i]]) == elements_of(&s->p->blocks[copy]))
            return s->alive[i];
    return BLOCK_NEVER;
}

static void see_copy(struct seeing *s, uint32_t copy)
{
    const struct edit_stack *stack = program_stack(s->p, &s->p->blocks[copy]);
    uint32_t from = stack->product ? find_source(s, copy) : BLOCK_NEVER;
    s->casts.of[copy] = from == BLOCK_NEVER ? CAST_DATA : CAST_INPUT;
    s->casts.from[copy] = from;
}

static void see_forward(struct seeing *s, uint32_t block, struct shape *like)
{
    const struct edit_block *b = &s->p->blocks[block];
    if (element_is_half(b->type) && like && like->copies < like->parameters) {
        s->casts.of[block] = CAST_WEIGHT;
        like->copies++;
        return;
    }
    if (!element_is_half(b->type)) {
        s->last = BLOCK_NEVER;
        if (b->type == ELEMENT_FLOAT32 && (b->kind == KIND_SAVED || b->kind == KIND_FORWARD))
            *PUSH(s->alive, s->n) = block;
        return;
    }
    bool behind = s->last != BLOCK_NEVER && b->stack && s->p->blocks[s->last].stack == b->stack;
    if (behind)
        see_copy(s, s->last);
    s->last = behind && program_stack(s->p, b)->product ? BLOCK_NEVER : block; /* its output ends a product */
}

static void forget(struct seeing *s, uint32_t block)
{
    size_t i = s->n;
    while (i > 0 && s->alive[i - 1] != block)
        i--;
    if (!i)
        return;
    memmove(&s->alive[i - 1], &s->alive[i], (s->n - i) * sizeof *s->alive);
    s->n--;
}

static void see(struct seeing *s, const struct trace_moment *e)
{
    const struct edit_block *b = &s->p->blocks[e->block];
    struct shape *like = find(&s->shapes, program_asked(s->p, b)->shape);
    if (e->what == MOMENT_DIED) {
        if (s->casts.of[e->block] == CAST_WEIGHT && like && like->copies)
            like->copies--;
        forget(s, e->block);
    } else if (program_is_forward(s->p->facts, e->phase)) {
        see_forward(s, e->block, like);
    } else {
        s->last = BLOCK_NEVER;
        if (like && element_is_half(b->type) && e->phase && e->phase == s->p->facts->backward)
            s->casts.of[e->block] = CAST_GRADIENT;
    }
}

struct casts element_casts(const struct program *p)
{
    struct seeing s = {.p = p, .shapes = parameter_shapes(p), .last = BLOCK_NEVER};
    s.casts.of = xrealloc(NULL, p->block_count + 1);
    s.casts.from = xrealloc(NULL, (p->block_count + 1) * sizeof *s.casts.from);
    memset(s.casts.of, CAST_NONE, p->block_count + 1);
    memset(s.casts.from, 0xff, (p->block_count + 1) * sizeof *s.casts.from);
    for (size_t i = 0; i < p->event_count && s.shapes.n; i++)
        if (p->events[i].what == MOMENT_BORN || p->events[i].what == MOMENT_DIED)
            see(&s, &p->events[i]);
    free(s.shapes.at);
    free(s.alive);
    return s.casts;
}

void element_free_casts(struct casts *c)
{
    free(c->of);
    free(c->from);
    *c = (struct casts){0};
}
