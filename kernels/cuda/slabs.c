/* slabs.c - launches the passes over slabs (slab.cu), and the final rounding of dinput. */
#include "cuda.h"

/* Where the sums of the block's rows lie that begins with row FIRST. */
static struct lce_slab_row *known(const struct cuda_run *r, int64_t first)
{
    struct lce_slab_row *rows = cuda_at(r, r->plan->layout.known);
    return rows + (cuda_knows_all(r->plan) ? first : 0);
}

static int pass(const struct cuda_run *r, const CUfunction functions[CUDA_KINDS], struct lce_slab_args *a,
                int64_t first, int64_t rows)
{
    a->softmax = cuda_softmax_args(r, first);
    return cuda_launch(r, functions[cuda_kind(&a->softmax)], (unsigned int)rows, 256, a);
}

_Static_assert(sizeof(struct lce_slab_row) == sizeof(struct lce_partial),
               "the kernels write struct lce_partial");

int cuda_parts(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    const bool exchanged = cuda_exchanges(plan);
    const struct lce_slab_row *partials = (const struct lce_slab_row *)r->buffers->partials;
    const struct lce_parts_args a = {.softmax = cuda_softmax_args(r, first),
                                     .partials = partials + (exchanged ? p->parts * first : 0),
                                     .rows = known(r, first),
                                     .count = rows,
                                     .stride = exchanged ? rows : p->tokens,
                                     .parts = p->parts,
                                     .by_token = !exchanged};
    if (rows == 0)
        return LCE_OK;
    return cuda_launch(r, plan->kernels.parts, (unsigned int)((rows + 255) / 256), 256, &a);
}

int cuda_slab_scan(const struct cuda_run *r, const struct cuda_slab *s, int64_t first, int64_t rows)
{
    const bool alone = r->plan->base.problem.wants & LCE_WANT_PARTIAL, exchanged = cuda_exchanges(r->plan);
    struct lce_slab_row *partial = (struct lce_slab_row *)r->buffers->partial;
    struct lce_slab_args a = {.rows = alone       ? partial
                                      : exchanged ? partial + first
                                                  : known(r, first),
                              .begin = (int32_t)s->begin,
                              .columns = (int32_t)s->columns,
                              .partial = alone || exchanged,
                              .by_token = alone};
    return pass(r, r->plan->kernels.scan, &a, first, rows);
}

int cuda_slab_gradient(const struct cuda_run *r, const struct cuda_slab *s, int64_t first, int64_t rows)
{
    struct lce_slab_args a = {
        .rows = known(r, first), .begin = (int32_t)s->begin, .columns = (int32_t)s->columns};
    return pass(r, r->plan->kernels.slab_gradient, &a, first, rows);
}

/* the products have multiplied by alpha */
int cuda_slab_store(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    const unsigned int blocks = (unsigned int)((p->hidden + 255) / 256);
    const bool scatters = plan->compacts && !plan->in_place;
    char *to = r->buffers->grad_input;
    if (!scatters)
        to += first * p->grad_input_stride * (int64_t)lce_dtype_size(p->dtype);
    const struct lce_store_args a = {.to = to,
                                     .from = cuda_dinput_sums(r),
                                     .index = scatters ? r->index + first : NULL,
                                     .stats = r->stats,
                                     .to_stride = p->grad_input_stride,
                                     .from_stride = p->hidden,
                                     .columns = p->hidden,
                                     .blocks = blocks};
    return cuda_launch(r, plan->kernels.store_input, (unsigned int)rows * blocks, 256, &a);
}
