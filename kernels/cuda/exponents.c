/*
 * exponents.c - when exponentials are stored in the place of logits (exponents.cuh), their memory, their
 * pass.
 *
 * Only the end of our own product of the logits makes them.  A bias and the entropies' upstream gradient are
 * known at a run, not in the plan: such a run of the same plan stores logits.
 */
#include "cuda.h"

int32_t cuda_tiles_of(int64_t classes)
{
    return (int32_t)((classes + LCE_TILE_CLASSES - 1) / LCE_TILE_CLASSES);
}

/* Where rows of dweight are borrowed, and in segments of ours, there are odds, or none; other slabs have
 * none. */
int32_t cuda_exponents_tiles(const struct cuda_plan *plan)
{
    const bool borrows = plan->borrowed > 0 || plan->begin > 0 || plan->segment_count || plan->two_passes;
    if (!plan->exponents || (borrows ? !plan->lends_odds : cuda_sliced(plan)))
        return 0;
    return cuda_tiles_of(plan->columns);
}

void cuda_exponents_lay_out(const struct cuda_plan *plan, int64_t rows, int32_t tiles, struct cuda_layout *l,
                            size_t *total)
{
    const size_t n = tiles > 0 ? (size_t)rows : 0, odds = plan->odds ? n : 0;
    l->tiles = lce_part(total, n * (size_t)tiles, sizeof(struct lce_tile_sum));
    l->targets = lce_part(total, n, sizeof(float));
    l->references = lce_part(total, odds, sizeof(float));
    l->factors = lce_part(total, odds, sizeof(struct lce_odds_factors));
}

/* Whether our product of the logits is taken where the others are cuBLASLt's. */
static bool beside_others(const struct cuda_plan *plan)
{
    const bool kept = plan->base.problem.proposals >> 13 & 1; /* cuBLASLt's are asked for */
    return cuda_own_logits_fit(plan) && (!kept || cuda_own_forced(plan));
}

bool cuda_exponents_fit(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const bool logits = p->proposals >> 12 & 1; /* are asked for */
    return (plan->own || beside_others(plan)) && !plan->wide && !lce_in_parts(p) && !cuda_exchanges(plan) &&
           !logits && p->softcap == 0 && p->label_smoothing == 0 && !(p->wants & LCE_WANT_ENTROPY) &&
           p->vocab <= (int64_t)LCE_MOST_TILES * LCE_TILE_CLASSES;
}

bool cuda_takes_exponents(const struct cuda_run *r)
{
    const struct lce_softmax_args a = cuda_softmax_args(r, 0);
    return cuda_exponents_tiles(r->plan) > 0 && cuda_kind(&a) == CUDA_PLAIN;
}

int cuda_exponents_pass(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct lce_exponents_args a = {.softmax = cuda_softmax_args(r, first),
                                         .tiles = cuda_beside_logits(r, r->plan->layout.tiles),
                                         .targets = cuda_beside_logits(r, r->plan->layout.targets),
                                         .count = cuda_exponents_tiles(r->plan)};
    return cuda_launch(r, r->plan->kernels.own.exponents_pass, (unsigned int)rows, 512, &a);
}
