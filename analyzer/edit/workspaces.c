/*
 * workspaces.c - see workspaces.h.
 *
 * Recurrent layers, one call of cuDNN's:
 *
 *      output, states, [weights in one piece], workspace, reserve     forward; the reserve is saved
 *      gradients, workspace, gradient of the weights in one piece     backward
 *
 * The reserve has the gates' and cells' values (5 of them an element for an LSTM), so in 16 bits it is half;
 * masks of dropout in it, at most one in 64 bytes, stay.  The workspace has such values, and 8 MiB
 * for each layer and direction whatever the type (cuDNN 9; 27 shapes of LSTM, GRU and RNN were measured).
 * Module code keeps the weights in one piece only of types that torch.backends.cudnn knows (half, float,
 * double: not bfloat16); of others each call makes that piece and saves it.
 *
 * Of what grows with the data those 8 MiB are no part, and the weights' bytes neither.
 *
 * Convolutions: kernels for tensor cores take channels last, and a workspace has the data in that order,
 * which is half in 16 bits.  In fp32 kernels are more often taken that need no copy of the one or the other,
 * so that in 16 bits it can be both.  Partial sums of weights' gradients stay in fp32, and are as large as
 * before.
 */
#include "workspaces.h"

#include <stdlib.h>
#include <string.h>

#include "elements.h"

#define LAYERS (UINT16_MAX + 1)
#define PART   (UINT64_C(8) << 20)  /* of a recurrent workspace, whatever the type */
#define FIXED  (UINT64_C(16) << 20) /* so much of a convolution's may not depend on the type */

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Which layers call cuDNN is said in backward. */
static void see_backward(struct workspace_layer *l, const struct edit_block *b, const struct edit_stack *s,
                         const struct asked *a)
{
    l->recurrent = l->recurrent || s->recurrent;
    l->convolves = l->convolves || s->convolves;
    if (s->recurrent && b->kind == KIND_GRADIENT && a->rank == 1 && b->type == ELEMENT_FLOAT32)
        l->weights = larger(l->weights, b->size);
    if (s->convolves && b->kind == KIND_BACKWARD && element_is_float(b->type) && !a->raw)
        l->input = larger(l->input, b->size);
}

/* A recurrent layer's last state is [layers x directions, samples, width], and stands before the workspace.
 */
static void see_forward(struct workspace_layer *l, const struct edit_block *b, const struct asked *a,
                        uint64_t *states)
{
    l->half = l->half || (b->kind != KIND_OTHER && element_is_half(b->type));
    if (l->recurrent && b->type == ELEMENT_UINT8 && !a->raw && b->kind == KIND_FORWARD)
        l->parts = *states;
    if (l->recurrent && b->type == ELEMENT_FLOAT32 && a->rank != 1)
        *states = a->rank == 3 ? a->outer : 0;
    if (l->convolves && element_is_float(b->type) && !a->raw)
        l->output = larger(l->output, b->size);
}

static void see_layers(const struct program *p, struct workspace_layer *layers)
{
    uint64_t states = 0;
    for (size_t i = 0; i < p->block_count; i++) {
        const struct edit_stack *s = program_stack(p, &p->blocks[i]);
        see_backward(&layers[s->layer], &p->blocks[i], s, program_asked(p, &p->blocks[i]));
    }
    for (size_t i = 0; i < p->block_count; i++) {
        const struct edit_block *b = &p->blocks[i];
        if (program_is_forward(p->facts, p->events[b->born].phase))
            see_forward(&layers[program_stack(p, b)->layer], b, program_asked(p, b), &states);
    }
}

static enum workspace kind_of(const struct program *p, const struct edit_block *b,
                              const struct workspace_layer *l)
{
    const struct edit_stack *s = program_stack(p, b);
    bool raw = program_asked(p, b)->raw;
    bool call = b->kind == KIND_FORWARD || b->kind == KIND_BACKWARD;
    bool back = b->kind == KIND_BACKWARD;
    if (l->half)
        return WORKSPACE_NONE;
    if (!raw && b->type == ELEMENT_UINT8 && (back ? s->recurrent : l->recurrent))
        return b->kind == KIND_SAVED ? WORKSPACE_RESERVE : call ? WORKSPACE_RECURRENT : WORKSPACE_NONE;
    if (raw && call && !program_is_workspace(b->size) && (back ? s->convolves : l->convolves))
        return WORKSPACE_CONVOLUTION;
    return WORKSPACE_NONE;
}

struct workspaces workspaces_read(const struct program *p)
{
    struct workspaces w;
    w.of = xrealloc(NULL, p->block_count + 1);
    w.layers = xrealloc(NULL, LAYERS * sizeof *w.layers);
    memset(w.layers, 0, LAYERS * sizeof *w.layers);
    see_layers(p, w.layers);
    for (size_t i = 0; i < p->block_count; i++)
        w.of[i] = (uint8_t)kind_of(p, &p->blocks[i], &w.layers[program_stack(p, &p->blocks[i])->layer]);
    return w;
}

void workspaces_free(struct workspaces *w)
{
    free(w->of);
    free(w->layers);
    *w = (struct workspaces){0};
}

static uint64_t recurrent(const struct workspace_layer *l, uint64_t size, bool high)
{
    uint64_t half = size / 2, fixed = l->parts * (PART / 2);
    if (l->parts && l->parts * PART < size)
        return half + fixed;
    return high ? size : half;
}

uint64_t workspaces_fixed(const struct workspaces *w, const struct program *p, uint32_t block)
{
    const struct edit_block *b = &p->blocks[block];
    const struct workspace_layer *l = &w->layers[program_stack(p, b)->layer];
    uint64_t fixed = l->parts * PART + l->weights;
    bool known = w->of[block] == WORKSPACE_RECURRENT && l->parts && l->weights && b->type == ELEMENT_UINT8;
    return known && fixed < b->size ? fixed : 0;
}

uint64_t workspaces_half(const struct workspaces *w, const struct program *p, uint32_t block, bool high)
{
    const struct edit_block *b = &p->blocks[block];
    const struct workspace_layer *l = &w->layers[program_stack(p, b)->layer];
    uint64_t half = (b->size + 1) / 2;
    switch ((enum workspace)w->of[block]) {
    case WORKSPACE_RESERVE:
        return high ? half + b->size / 64 : half;
    case WORKSPACE_RECURRENT:
        return recurrent(l, b->size, high);
    case WORKSPACE_CONVOLUTION:
        return high ? larger(half + smaller(half, FIXED), (l->input + l->output) / 2) : half;
    case WORKSPACE_NONE:
        break;
    }
    return b->size;
}
