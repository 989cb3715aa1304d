/*
 * lce_plan_choices.h - whether two plans of the CUDA back end are the same, by a number.
 */
#ifndef TESTS_UNIT_KERNELS_LCE_PLAN_CHOICES_H
#define TESTS_UNIT_KERNELS_LCE_PLAN_CHOICES_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda.h"

static inline uint64_t plan_mix(uint64_t sum, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ ((const unsigned char *)data)[i]) * UINT64_C(1099511628211);
    return sum;
}

/* A number of all that the plan has chosen. */
static inline uint64_t plan_choices(const struct cuda_plan *c)
{
    uint64_t sum = UINT64_C(14695981039346656037);
#define MIX(field) sum = plan_mix(sum, &(field), sizeof(field))
    MIX(c->layout), MIX(c->rows), MIX(c->chunk), MIX(c->last), MIX(c->columns), MIX(c->tail), MIX(c->stride);
    MIX(c->g_stride), MIX(c->borrowed), MIX(c->rest_size), MIX(c->logits_in), MIX(c->sums_in),
        MIX(c->rows_in);
    MIX(c->parts_in), MIX(c->own), MIX(c->exponents), MIX(c->odds), MIX(c->lends_odds), MIX(c->in_place);
    MIX(c->two_passes), MIX(c->base.info.workspace_size), MIX(c->base.info.chunk_tokens),
        MIX(c->base.info.mode);
    for (int i = 0; i < c->stage_count; i++) {
        MIX(c->stages[i].begin), MIX(c->stages[i].end), MIX(c->stages[i].columns), MIX(c->stages[i].block);
        MIX(c->stages[i].lent);
    }
    for (int i = 0; i < c->segment_count; i++) {
        MIX(c->segments[i].begin), MIX(c->segments[i].end), MIX(c->segments[i].block),
            MIX(c->segments[i].columns);
        MIX(c->segments[i].pass), MIX(c->segments[i].logits_in), MIX(c->segments[i].sums_in);
        MIX(c->segments[i].rows_in);
    }
    return sum;
}
#undef MIX

#endif
