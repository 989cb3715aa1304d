/*
 * exponents.c - exponentials in the place of logits (exponents.cuh): where they are stored, and their pass.
 *
 * Only the end of our own product can make them, of whole rows of 16 bits, and only where a logit's own class
 * does not matter: no bias, softcap or smoothing, no entropies, which need the logits themselves.  A bias and
 * the entropies' upstream gradient are a run's, so such a run of the same plan has its logits.
 */
#include "cuda.h"

/* Of a plan whose rows are not whole, or lie elsewhere, there are none. */
int32_t cuda_exponents_tiles(const struct cuda_plan *plan)
{
    if (!plan->exponents || cuda_sliced(plan) || plan->borrowed || plan->segment_count)
        return 0;
    return (int32_t)((plan->base.problem.vocab + LCE_TILE_CLASSES - 1) / LCE_TILE_CLASSES);
}

/* Whether our product of the logits is taken where the others are cuBLASLt's. */
static bool beside_others(const struct cuda_plan *plan, bool budget)
{
    const bool kept = plan->base.problem.proposals >> 13 & 1; /* cuBLASLt's are asked for */
    return cuda_own_logits_fit(plan) && !budget && (!kept || cuda_own_forced(plan));
}

bool cuda_exponents_fit(const struct cuda_plan *plan, bool budget)
{
    const struct lce_problem *p = &plan->base.problem;
    const bool measured = p->proposals >> 12 & 1; /* another pass over logits */
    return (plan->own || beside_others(plan, budget)) && !plan->wide && !lce_in_parts(p) &&
           !cuda_exchanges(plan) && !measured && p->softcap == 0 && p->label_smoothing == 0 &&
           !(p->wants & LCE_WANT_ENTROPY) && p->vocab <= (int64_t)LCE_MOST_TILES * LCE_TILE_CLASSES;
}

bool cuda_takes_exponents(const struct cuda_run *r)
{
    const struct lce_softmax_args a = cuda_softmax_args(r, 0);
    return cuda_exponents_tiles(r->plan) > 0 && cuda_kind(&a) == CUDA_PLAIN;
}

int cuda_exponents_pass(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct lce_exponents_args a = {.softmax = cuda_softmax_args(r, first),
                                         .tiles = cuda_at(r, r->plan->layout.tiles),
                                         .targets = cuda_at(r, r->plan->layout.targets),
                                         .count = cuda_exponents_tiles(r->plan)};
    return cuda_launch(r, r->plan->kernels.own.exponents_pass, (unsigned int)rows, 512, &a);
}
