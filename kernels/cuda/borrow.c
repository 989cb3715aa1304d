/*
 * borrow.c - keeps logits in the caller's buffer for dweight, if the old contents of that are not needed.
 *
 * Until a row of dweight gets its first sums its contents do not matter.  So the last rows of the buffer can
 * hold a chunk's logits, and the workspace can be very small:
 *
 *     dweight:  | rows that every chunk adds to ............ | logits of the chunk under way |
 *                                                            ^ vocab - borrowed
 *
 * The classes of the borrowed rows take part in every chunk's softmax and dinput.  Their dweight is computed
 * when all chunks are done and the rows are free again: their logits are computed once more, a slab at a
 * time in the workspace, with the sums of each row that were kept.  That makes three products, and a fourth
 * for the borrowed share of the vocabulary, which is chunk / H in 16 bits.  Slabs alone (slab.c) need a
 * fourth product for the whole vocabulary.
 */
#include "cuda.h"
#include "slab.h"

enum {
    MOST_CHUNK = 2048,
    LEAST_CHUNK = 64,
    MOST_REST = 1 << 23 /* logits of a slab of the rest: wider slabs gain next to nothing */
};

bool cuda_may_borrow(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const bool accumulated = p->flags & LCE_F32_ACCUMULATE && p->grad_weight_dtype != LCE_F32;
    return !plan->own && !lce_in_parts(p) && plan->base.info.mode != LCE_NAIVE &&
           p->wants & LCE_WANT_GRAD_WEIGHT && p->grad_weight_beta == 0 &&
           p->grad_weight_stride == p->hidden && !accumulated && plan->rows > 0;
}

int64_t cuda_borrowed(const struct cuda_plan *plan, int64_t chunk, size_t *offset)
{
    const struct lce_problem *p = &plan->base.problem;
    const size_t row = (size_t)p->hidden * lce_dtype_size(p->grad_weight_dtype), all = (size_t)p->vocab * row,
                 need = (size_t)chunk * (size_t)plan->stride * cuda_logit_size(plan);
    *offset = need < all ? (all - need) / 256 * 256 : 0;
    const int64_t head = (int64_t)(*offset / row) / LCE_SLAB_UNIT * LCE_SLAB_UNIT;
    return head >= p->vocab / 4 && head > 0 ? p->vocab - head : 0;
}

/* The width of slabs of the borrowed classes, about equal and fitting; 0: none fits. */
static int64_t rest_columns(struct cuda_plan *plan, int64_t chunk, uint64_t budget)
{
    const int64_t unit = LCE_SLAB_UNIT, forced = (int64_t)(plan->base.problem.proposals >> 16) * unit;
    plan->rest_columns = 0;
    const uint64_t size = cuda_size_with(plan, chunk),
                   each = (uint64_t)chunk * (uint64_t)unit * cuda_logit_size(plan);
    int64_t most = size < budget ? (int64_t)((budget - size) / each) * unit : 0;
    if (most > MOST_REST / chunk / unit * unit)
        most = MOST_REST / chunk / unit * unit;
    if (forced)
        most = forced;
    if (most <= 0)
        return 0;
    const int64_t count = (plan->borrowed + most - 1) / most;
    return cuda_round_up((plan->borrowed + count - 1) / count, unit); /* at most MOST, which is a multiple */
}

/* The next chunk below: powers of two, and halves more. */
static int64_t next_below(int64_t chunk)
{
    int64_t power = 1;
    while (2 * power < chunk)
        power *= 2;
    return power > 1 && power / 2 * 3 < chunk ? power / 2 * 3 : power;
}

bool cuda_borrow_choose(struct cuda_plan *plan, const struct lce_slab_shape *shape, int64_t *chunk,
                        bool given, uint64_t budget, double before)
{
    const int64_t first = given ? *chunk : plan->rows < MOST_CHUNK ? plan->rows : MOST_CHUNK;
    int64_t best = 0, best_borrowed = 0, best_columns = 0;
    size_t offset;
    for (int64_t n = first; n >= 1 && (n == first || (!given && n >= LEAST_CHUNK)); n = next_below(n)) {
        plan->borrowed = cuda_borrowed(plan, n, &offset);
        const int64_t columns = plan->borrowed ? rest_columns(plan, n, budget) : 0;
        const double seconds = columns ? lce_borrow_seconds(shape, n, plan->borrowed, columns) : before;
        plan->rest_columns = columns;
        if (seconds < before && cuda_size_with(plan, n) <= budget) {
            before = seconds;
            best = n, best_borrowed = plan->borrowed, best_columns = columns;
        }
        if (n == 1)
            break;
    }
    plan->borrowed = best_borrowed;
    plan->rest_columns = best_columns;
    *chunk = best ? best : *chunk;
    return best > 0;
}

void cuda_borrow_rest(const struct cuda_plan *plan, struct cuda_plan *rest)
{
    *rest = *plan;
    rest->borrowed = 0;
    rest->begin = plan->base.problem.vocab - plan->borrowed;
    rest->columns = plan->rest_columns;
    rest->stride = cuda_round_up(plan->rest_columns, LCE_SLAB_UNIT);
    rest->g_stride = rest->stride * (plan->g_stride / plan->stride);
    rest->layout.logits = plan->layout.rest_logits;
    rest->base.problem.wants = LCE_WANT_GRAD_WEIGHT;
    rest->rest = NULL;
}
