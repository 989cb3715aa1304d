/*
 * norms.c - see norms.h.
 *
 *      x.float() * rsqrt(mean(x.float() ** 2) + e), made narrow, times the weight
 *
 * In fp32 x, the product and the output are kept for backward.  In 16 bits a copy of x in fp32 is kept, and
 * the product and the output in 16 bits: together as many bytes as product and output have in fp32.  x itself
 * is kept only where others need it; the sum or the layer that made it does not.  T5's norm multiplies x as
 * it is, and keeps it, too.  Gemma's keep the product in fp32, which is a quarter more.  A norm of PyTorch's
 * own is one kernel, and has no node for a square in backward.  Hugging Face's norms compute so; of other
 * code it is not known.
 */
#include "norms.h"

#include <stdlib.h>
#include <string.h>

#include "scale.h"

static bool *find_by_hand(const struct program *p)
{
    bool *layers = xrealloc(NULL, UINT16_MAX + 1);
    memset(layers, 0, UINT16_MAX + 1);
    for (size_t i = 0; i < p->block_count; i++) {
        const struct edit_stack *s = program_stack(p, &p->blocks[i]);
        layers[s->layer] = layers[s->layer] || s->squares;
    }
    return layers;
}

/* Those whose calls keep something for backward: of a layer that is computed again none does. */
static bool *find_keeping(const struct program *p)
{
    bool *layers = xrealloc(NULL, UINT16_MAX + 1);
    memset(layers, 0, UINT16_MAX + 1);
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_SAVED)
            layers[program_stack(p, &p->blocks[i])->layer] = true;
    return layers;
}

/* What was saved last before such a norm's call, which copies it to fp32, and is as large as what it makes
 * first. */
static bool *find_given(const struct program *p, const bool *by_hand)
{
    bool *keeping = find_keeping(p);
    bool *given = xrealloc(NULL, p->block_count + 1);
    uint32_t last = BLOCK_NEVER;
    memset(given, 0, p->block_count + 1);
    for (size_t i = 0; i < p->event_count; i++) {
        const struct trace_moment *e = &p->events[i];
        if (e->what != MOMENT_BORN)
            continue;
        const struct edit_block *b = &p->blocks[e->block];
        const struct edit_stack *s = program_stack(p, b);
        if (s->norm && s->library && by_hand[s->layer]) {
            if (last != BLOCK_NEVER && p->blocks[last].size == b->size && s->upcast && keeping[s->layer])
                given[last] = true;
            last = BLOCK_NEVER;
        } else if (b->kind == KIND_SAVED && b->size > SCALE_SURE) {
            last = e->block;
        }
    }
    free(keeping);
    return given;
}

struct norms norms_read(const struct program *p)
{
    struct norms n = {.by_hand = find_by_hand(p)};
    n.given = find_given(p, n.by_hand);
    return n;
}

void norms_free(struct norms *n)
{
    free(n->by_hand);
    free(n->given);
    *n = (struct norms){0};
}
