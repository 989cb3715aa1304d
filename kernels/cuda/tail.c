/*
 * tail.c - launches tail.cu: the share of the last classes, which cuBLASLt does not get, in each product.
 *
 * dinput's tail is computed first, in fp32, and the product adds to it: with both parts rounded to the
 * result's type the error was an eighth larger than PyTorch's.
 */
#include <stdio.h>

#include "cuda.h"

int64_t cuda_tail_of(const struct lce_problem *p)
{
    return p->vocab < LCE_TAIL_UNIT * 8 ? 0 : p->vocab % LCE_TAIL_UNIT;
}

/* The tail's columns of g, which lies where the logits were. */
static const void *tail_of(const struct cuda_run *r, const struct cuda_slab *s)
{
    const int64_t element = (int64_t)lce_dtype_size(r->plan->base.problem.dtype);
    return (const char *)cuda_logits(r) + (s->columns - s->tail) * element;
}

/* The arguments that all three share, the tail's rows of the weight among them. */
static struct lce_tail_args arguments(const struct cuda_run *r, const struct cuda_slab *s)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    const int64_t element = (int64_t)lce_dtype_size(p->dtype), first = s->begin + s->columns - s->tail;
    return (struct lce_tail_args){
        .weight = (const char *)r->buffers->weight + first * p->weight_stride * element,
        .stats = r->stats,
        .x_stride = plan->compacts ? p->hidden : p->input_stride,
        .weight_stride = p->weight_stride,
        .g_stride = plan->g_stride,
        .hidden = p->hidden,
        .classes = (int32_t)s->tail,
        .scaled = plan->scaled,
    };
}

int cuda_tail_logits(const struct cuda_run *r, const struct cuda_slab *s, const void *x, int64_t rows)
{
    const struct cuda_plan *plan = r->plan;
    struct lce_tail_args a = arguments(r, s);
    a.x = x;
    a.out = (char *)cuda_logits(r) + (s->columns - s->tail) * (int64_t)cuda_logit_size(plan);
    a.out_stride = plan->stride;
    a.rows = rows;
    return cuda_launch(r, plan->kernels.tail_logits, (unsigned int)((rows + 7) / 8), 256, &a);
}

int cuda_tail_dinput(const struct cuda_run *r, const struct cuda_slab *s, int64_t rows,
                     const struct cuda_sum *sum)
{
    const struct cuda_plan *plan = r->plan;
    struct lce_tail_args a = arguments(r, s);
    const int64_t columns = 256 * (16 / (int64_t)lce_dtype_size(plan->base.problem.dtype));
    a.g = tail_of(r, s);
    a.out = sum->out;
    a.out_stride = sum->stride;
    a.beta = sum->beta;
    a.rows = rows;
    a.blocks = (uint32_t)((a.hidden + columns - 1) / columns);
    return cuda_launch(r, plan->kernels.tail_dinput, (unsigned int)rows * a.blocks, 256, &a);
}

int cuda_tail_dweight(const struct cuda_run *r, const struct cuda_slab *s, const void *x, int64_t rows,
                      const struct cuda_sum *sum)
{
    const struct cuda_plan *plan = r->plan;
    struct lce_tail_args a = arguments(r, s);
    const int64_t columns = 32 * (16 / (int64_t)lce_dtype_size(plan->base.problem.dtype));
    a.g = tail_of(r, s);
    a.x = x;
    a.out = sum->out;
    a.out_stride = sum->stride;
    a.beta = sum->beta;
    a.rows = rows;
    return cuda_launch(r, plan->kernels.tail_dweight, (unsigned int)((a.hidden + columns - 1) / columns), 512,
                       &a);
}
