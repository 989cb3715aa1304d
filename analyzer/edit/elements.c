/*
 * elements.c - what an element of a block takes, and which blocks are copies that autocast made (apply.h).
 *
 * Under autocast forward copies each fp32 parameter to 16 bits once and keeps the copy to the end of the
 * pass.  Data can have a parameter's shape, so no more blocks are taken for copies at a time than there are
 * parameters.  A layer's input is copied each time that a layer takes it: one and the same call makes the
 * copy, and then the output.
 */
#include "apply.h"

#include <stdlib.h>
#include <string.h>

#include "trace/event.h"

#define SURE  (UINT64_C(64) << 10) /* a block that is smaller may be of any kind */
#define ROUND 1024                 /* sizes are rounded up to 512 bytes */

uint64_t element_bytes(uint8_t type)
{
    static const uint8_t bytes[256] = {
#define X(n, text, size) [(n) + 1] = size,
        VS_ELEMENT_TYPES(X)
#undef X
    };
    return bytes[type];
}

/* ---- copies ---- */

static struct sizes wide_shapes(const struct program *p)
{
    struct sizes shapes = {.n = 0};
    for (size_t i = 0; i < p->block_count; i++) {
        const struct edit_block *b = &p->blocks[i];
        if (b->kind == KIND_PARAMETER && element_is_float(b->type) && element_bytes(b->type) >= 4)
            *PUSH(shapes.at, shapes.n) = program_asked(p, b)->shape;
    }
    sizes_sort(&shapes);
    return shapes;
}

struct seeing {
    const struct program *p;
    struct sizes shapes; /* of parameters that are wider than 16 bits */
    size_t *living;      /* by the first of equal shapes: copies that live */
    uint8_t *of;
    uint32_t last; /* the block that forward made before, if in 16 bits; BLOCK_NEVER */
};

static void see_forward(struct seeing *s, uint32_t block, size_t shape, size_t parameters)
{
    const struct edit_block *b = &s->p->blocks[block];
    if (!element_is_half(b->type)) {
        s->last = BLOCK_NEVER;
    } else if (parameters > 0 && s->living[shape] < parameters) {
        s->of[block] = CAST_WEIGHT;
        s->living[shape]++;
    } else {
        if (s->last != BLOCK_NEVER && b->stack && s->p->blocks[s->last].stack == b->stack)
            s->of[s->last] = CAST_DATA;
        s->last = block;
    }
}

static void see(struct seeing *s, const struct trace_moment *e)
{
    const struct edit_block *b = &s->p->blocks[e->block];
    uint64_t shape = program_asked(s->p, b)->shape;
    size_t at = sizes_from(&s->shapes, shape);
    size_t parameters = shape ? sizes_from(&s->shapes, shape + 1) - at : 0;
    if (e->what == MOMENT_DIED)
        s->living[at] -= s->of[e->block] == CAST_WEIGHT;
    else if (program_is_forward(s->p->facts, e->phase))
        see_forward(s, e->block, at, parameters);
    else if (parameters && element_is_half(b->type) && e->phase && e->phase == s->p->facts->backward)
        s->of[e->block] = CAST_DATA;
}

uint8_t *element_casts(const struct program *p)
{
    struct seeing s = {.p = p, .shapes = wide_shapes(p), .last = BLOCK_NEVER};
    s.of = xrealloc(NULL, p->block_count + 1);
    s.living = xrealloc(NULL, (s.shapes.n + 1) * sizeof *s.living);
    memset(s.of, CAST_NONE, p->block_count + 1);
    memset(s.living, 0, (s.shapes.n + 1) * sizeof *s.living);
    for (size_t i = 0; i < p->event_count && s.shapes.n; i++)
        if (p->events[i].what == MOMENT_BORN || p->events[i].what == MOMENT_DIED)
            see(&s, &p->events[i]);
    free(s.shapes.at);
    free(s.living);
    return s.of;
}

/* Where types are not recorded: forward makes a block of half the size of the largest parameter. */
static bool halves_largest(const struct program *p)
{
    struct sizes sizes = program_sizes(p, 1u << KIND_PARAMETER, SURE);
    uint64_t largest = sizes.n ? sizes.at[sizes.n - 1] : 0;
    bool halves = false;
    for (size_t i = 0; i < p->block_count && largest && !halves; i++) {
        const struct edit_block *b = &p->blocks[i];
        halves = program_is_forward(p->facts, p->events[b->born].phase) && b->size * 2 + ROUND >= largest &&
                 b->size * 2 <= largest + ROUND;
    }
    free(sizes.at);
    return halves;
}

bool elements_are_cast(const struct program *p)
{
    if (!p->facts->types)
        return halves_largest(p);
    uint8_t *casts = element_casts(p);
    bool cast = memchr(casts, CAST_WEIGHT, p->block_count) != NULL;
    free(casts);
    return cast;
}
