/*
 * widths.c - element types say whether a program computes in 16 bits; older recordings and snapshots have
 * none.  Two signs of 16 bits are in the sizes.
 *
 *      autocast      forward makes a block of half the size of most parameters: the copies of weights
 *      bf16, fp16    a norm, or a loss, that takes a copy of its input in fp32 makes one of twice its size:
 *                    both are made there, where of an fp32 input the copy is none
 *
 * A model whose activations happen to be half as large as its weights looks like the first.  Where neither
 * is seen the elements may still have 2 bytes: not every model has such a norm or loss.
 */
#include "widths.h"

#include <stdlib.h>
#include <string.h>

#include "elements.h"

#define SURE  (UINT64_C(64) << 10) /* a block that is smaller may be of any kind */
#define SLACK 1024                 /* sizes are rounded up to 512 bytes */

static bool is_about(uint64_t a, uint64_t b)
{
    return a + SLACK >= b && b + SLACK >= a;
}

static bool in_forward(const struct program *p, const struct edit_block *b)
{
    return program_is_forward(p->facts, p->events[b->born].phase) && b->size > SURE / 2;
}

/* Of the sizes the first that is about SIZE or larger. */
static size_t first_about(const struct sizes *s, uint64_t size)
{
    return sizes_from(s, size > SLACK ? size - SLACK : 0);
}

/* Bytes of parameters for each of which there is a block of half its size among those made in forward in the
 * events from *I up to a step's end. */
static uint64_t halved(const struct program *p, const struct sizes *sizes, size_t *i, size_t *taken)
{
    uint64_t bytes = 0;
    memset(taken, 0, sizes->n * sizeof *taken);
    for (; *i < p->event_count && p->events[*i].what != MOMENT_STEP; ++*i) {
        if (p->events[*i].what != MOMENT_BORN)
            continue;
        const struct edit_block *b = &p->blocks[p->events[*i].block];
        if (!in_forward(p, b))
            continue;
        size_t k = first_about(sizes, 2 * b->size), next = k < sizes->n ? k + taken[k] : k;
        if (next < sizes->n && is_about(sizes->at[next], 2 * b->size)) {
            taken[k]++;
            bytes += sizes->at[next];
        }
    }
    ++*i;
    return bytes;
}

static bool is_autocast(const struct program *p)
{
    struct sizes sizes = program_sizes(p, 1u << KIND_PARAMETER, SURE);
    uint64_t all = 0, most = 0;
    size_t *taken = xrealloc(NULL, (sizes.n + 1) * sizeof *taken); /* of those from each on, how many */
    for (size_t i = 0; i < sizes.n; i++)
        all += sizes.at[i];
    for (size_t i = 0; sizes.n && i < p->event_count;) {
        uint64_t bytes = halved(p, &sizes, &i, taken);
        most = bytes > most ? bytes : most;
    }
    free(taken);
    free(sizes.at);
    return all && most >= all / 2;
}

/* Whether what such code makes in one go has two sizes, one twice the other. */
static bool doubles(const struct program *p)
{
    uint16_t layer = 0;
    uint64_t least = 0;
    for (size_t i = 0; i < p->event_count; i++) {
        if (p->events[i].what == MOMENT_STEP)
            layer = 0;
        if (p->events[i].what != MOMENT_BORN)
            continue;
        const struct edit_block *b = &p->blocks[p->events[i].block];
        const struct edit_stack *s = program_stack(p, b);
        if (!s->upcast || !s->layer || s->layer != layer)
            least = 0;
        layer = s->layer;
        if (!s->upcast || !in_forward(p, b))
            continue;
        if (least && (is_about(b->size, 2 * least) || is_about(2 * b->size, least)))
            return true;
        least = b->size;
    }
    return false;
}

/* By what was recorded. */
static enum widths recorded(const struct program *p)
{
    struct casts casts = element_casts(p);
    uint64_t wide = 0, half = 0;
    bool copies = memchr(casts.of, CAST_WEIGHT, p->block_count) != NULL;
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_PARAMETER)
            *(element_is_half(p->blocks[i].type) ? &half : &wide) += p->blocks[i].size;
    element_free_casts(&casts);
    return copies ? WIDTHS_AUTOCAST : half > wide ? WIDTHS_HALF : WIDTHS_UNKNOWN;
}

enum widths widths_of(const struct program *p)
{
    if (p->facts->types)
        return recorded(p);
    return is_autocast(p) ? WIDTHS_AUTOCAST : doubles(p) ? WIDTHS_HALF : WIDTHS_UNKNOWN;
}
