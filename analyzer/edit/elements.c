/*
 * elements.c - see elements.h.
 *
 * Under autocast parameters are fp32, and forward copies each to 16 bits once and keeps the copy to the end
 * of the pass.  A copy has its parameter's shape; since data can have the same one, no more are taken for
 * copies at a time than there are parameters.  A layer's input is copied each time that a layer takes it: in
 * one and the same call the copy is made, and then the output.
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
    uint8_t *casts;
    uint32_t last; /* block of data that was made last, where nothing but copies came since */
};

static void see_forward(struct seeing *s, uint32_t block, struct shape *like)
{
    const struct edit_block *b = &s->p->blocks[block];
    if (element_is_half(b->type) && like && like->copies < like->parameters) {
        s->casts[block] = CAST_WEIGHT;
        like->copies++;
        return;
    }
    if (!element_is_half(b->type)) {
        s->last = BLOCK_NEVER;
        return;
    }
    if (s->last != BLOCK_NEVER && b->stack && s->p->blocks[s->last].stack == b->stack)
        s->casts[s->last] = CAST_DATA;
    s->last = block;
}

static void see(struct seeing *s, const struct trace_moment *e)
{
    const struct edit_block *b = &s->p->blocks[e->block];
    struct shape *like = find(&s->shapes, program_asked(s->p, b)->shape);
    if (e->what == MOMENT_DIED) {
        if (s->casts[e->block] == CAST_WEIGHT && like && like->copies)
            like->copies--;
    } else if (program_is_forward(s->p->facts, e->phase)) {
        see_forward(s, e->block, like);
    } else {
        s->last = BLOCK_NEVER;
        if (like && element_is_half(b->type) && e->phase && e->phase == s->p->facts->backward)
            s->casts[e->block] = CAST_GRADIENT;
    }
}

uint8_t *element_casts(const struct program *p)
{
    struct seeing s = {.p = p, .shapes = parameter_shapes(p), .last = BLOCK_NEVER};
    s.casts = xrealloc(NULL, p->block_count + 1);
    memset(s.casts, CAST_NONE, p->block_count + 1);
    for (size_t i = 0; i < p->event_count && s.shapes.n; i++)
        if (p->events[i].what == MOMENT_BORN || p->events[i].what == MOMENT_DIED)
            see(&s, &p->events[i]);
    free(s.shapes.at);
    return s.casts;
}
