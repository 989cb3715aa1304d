/*
 * odds.c - when odds are stored in the place of exponentials (odds.cuh), their memory, and the launches
 * around the products.
 *
 * Odds need the range of bf16; fp16 has exponentials.  dweight's product reads x times the rows' factors.
 * With our products that overwrites the gathered rows of x.  With cuBLASLt's it lies in the chunk's rows of
 * dinput until dinput is made, after dweight.  So both gradients must be wanted, and x must be read where the
 * caller has it, ungathered.
 */
#include "cuda.h"

enum { THREADS = 256 }; /* as in odds.cuh and label_rows.cuh */

static int64_t slices_of(const struct cuda_plan *plan)
{
    return (plan->base.problem.hidden + LCE_LABEL_SLICE - 1) / LCE_LABEL_SLICE;
}

/* The most items that there can be: one for each class that has tokens, and the slices of those with many. */
static int64_t items_of(const struct cuda_plan *plan)
{
    const int64_t tokens = plan->base.problem.tokens;
    return tokens + tokens / LCE_LABEL_FEW * slices_of(plan);
}

/* Whether x times the factors may lie in the caller's rows of dinput. */
static bool beside_fits(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    return !plan->compacts && plan->tail == 0 && p->grad_input_stride == p->input_stride &&
           p->wants & LCE_WANT_GRAD_INPUT && p->wants & LCE_WANT_GRAD_WEIGHT;
}

bool cuda_odds_fit(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    return p->dtype == LCE_BF16 && lce_wants_gradients(p) && !(p->wants & LCE_WANT_GRAD_BIAS) &&
           p->input_stride % 8 == 0 && p->grad_weight_stride % 8 == 0 && items_of(plan) < INT32_MAX &&
           (plan->own || beside_fits(plan));
}

bool cuda_takes_odds(const struct cuda_run *r)
{
    return r->plan->odds && cuda_takes_exponents(r);
}

static bool wants_dweight(const struct cuda_plan *plan)
{
    return plan->base.problem.wants & LCE_WANT_GRAD_WEIGHT;
}

bool cuda_counts_labels(const struct cuda_run *r)
{
    return cuda_takes_odds(r) && wants_dweight(r->plan);
}

void cuda_odds_lay_out(const struct cuda_plan *plan, struct cuda_layout *l, size_t *total)
{
    const struct lce_problem *p = &plan->base.problem;
    const bool summed = plan->odds && cuda_exponents_tiles(plan) > 0 && wants_dweight(plan);
    const size_t tokens = summed ? (size_t)p->tokens : 0, classes = summed ? (size_t)p->vocab : 0;
    l->label_factors = lce_part(total, tokens, sizeof(float));
    l->slots = lce_part(total, tokens, sizeof(int32_t));
    l->counts = lce_part(total, classes, sizeof(int32_t));
    l->ends = lce_part(total, classes, sizeof(int32_t));
    l->items = lce_part(total, summed ? (size_t)items_of(plan) : 0, sizeof(struct lce_label_item));
    l->used = lce_part(total, summed ? 2 : 0, sizeof(int32_t));
}

/* ---- a chunk ---- */

static const char *caller_rows(const struct cuda_run *r, int64_t first)
{
    return (const char *)r->buffers->input + first * r->plan->base.problem.input_stride * 2;
}

int cuda_odds_start(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    const struct lce_softmax_args softmax = cuda_softmax_args(r, first);
    const struct lce_odds_start_args a = {
        .labels = softmax.labels,
        .x = r->buffers->input,
        .weight = r->buffers->weight,
        .rows = plan->compacts ? cuda_rows(r) : NULL,
        .index = plan->compacts ? r->index + first : NULL,
        .state = r->state,
        .references = cuda_beside_logits(r, plan->layout.references),
        .counts = wants_dweight(plan) ? cuda_at(r, plan->layout.counts) : NULL,
        .first = first,
        .x_stride = p->input_stride,
        .weight_stride = p->weight_stride,
        .hidden = p->hidden,
        .to_bits = softmax.to_bits,
        .skips = plan->own,
    };
    return cuda_launch(r, plan->kernels.own.odds_start, (unsigned int)rows, THREADS, &a);
}

void *cuda_odds_x(const struct cuda_run *r, int64_t first)
{
    if (r->plan->compacts)
        return cuda_rows(r);
    return (char *)r->buffers->grad_input + first * r->plan->base.problem.grad_input_stride * 2;
}

static struct lce_odds_rows_args rows_arguments(const struct cuda_run *r, const struct cuda_slab *s,
                                                int64_t first)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    return (struct lce_odds_rows_args){
        .softmax = cuda_softmax_args(r, first),
        .tiles = cuda_beside_logits(r, plan->layout.tiles),
        .targets = cuda_beside_logits(r, plan->layout.targets),
        .references = cuda_beside_logits(r, plan->layout.references),
        .factors = cuda_beside_logits(r, plan->layout.factors),
        .label_factors = wants_dweight(plan) ? cuda_at(r, plan->layout.label_factors) : NULL,
        .kept = plan->borrowed ? cuda_kept(r, first) : NULL,
        .x = plan->compacts ? cuda_rows(r) : caller_rows(r, first),
        .scaled = wants_dweight(plan) ? cuda_odds_x(r, first) : NULL,
        .x_stride = plan->compacts ? p->hidden : p->input_stride,
        .scaled_stride = plan->compacts ? p->hidden : p->grad_input_stride,
        .hidden = p->hidden,
        .count = cuda_tiles_of(s->columns),
    };
}

int cuda_odds_rows(const struct cuda_run *r, const struct cuda_slab *s, int64_t first, int64_t rows)
{
    const struct lce_odds_rows_args a = rows_arguments(r, s, first);
    return cuda_launch(r, r->plan->kernels.own.odds_rows, (unsigned int)rows, THREADS, &a);
}

int cuda_odds_fold(const struct cuda_run *r, const struct cuda_slab *s, int64_t first, int64_t rows)
{
    const struct cuda_plan *plan = r->plan;
    struct lce_odds_fold_args a = {.slab = rows_arguments(r, s, first),
                                   .rows = cuda_kept(r, first),
                                   .dinput = cuda_dinput_sums(r),
                                   .first = s->begin == 0,
                                   .last = s->begin + s->columns == plan->end};
    a.slab.scaled = NULL; /* the gathered rows stay as they are */
    return cuda_launch(r, plan->kernels.own.odds_fold, (unsigned int)rows, THREADS, &a);
}

int cuda_odds_store(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    const struct lce_odds_store_args a = {
        .labels = cuda_softmax_args(r, first).labels,
        .index = r->index + first,
        .factors = cuda_beside_logits(r, plan->layout.factors),
        .from = cuda_dinput_sums(r),
        .weight = r->buffers->weight,
        .to = cuda_rows(r),
        .weight_stride = p->weight_stride,
        .to_stride = p->hidden,
        .hidden = p->hidden,
    };
    return cuda_launch(r, plan->kernels.own.odds_store, (unsigned int)rows, THREADS, &a);
}

/* After cuBLASLt's product.  After ours own_scatter does the same while it copies rows to the caller's. */
int cuda_odds_dinput(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    const struct lce_odds_dinput_args a = {
        .labels = cuda_softmax_args(r, first).labels,
        .factors = cuda_beside_logits(r, plan->layout.factors),
        .state = r->state,
        .weight = r->buffers->weight,
        .out = cuda_odds_x(r, first),
        .first = first,
        .weight_stride = p->weight_stride,
        .out_stride = p->grad_input_stride,
        .hidden = p->hidden,
    };
    return cuda_launch(r, plan->kernels.own.odds_dinput, (unsigned int)rows, THREADS, &a);
}

/* ---- after all chunks, and the stages of borrowed rows ---- */

static struct lce_label_rows_args label_arguments(const struct cuda_run *r)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    return (struct lce_label_rows_args){
        .labels = cuda_softmax_args(r, 0).labels,
        .state = r->state,
        .counts = cuda_at(r, plan->layout.counts),
        .ends = cuda_at(r, plan->layout.ends),
        .slots = cuda_at(r, plan->layout.slots),
        .items = cuda_at(r, plan->layout.items),
        .used = cuda_at(r, plan->layout.used),
        .label_factors = cuda_at(r, plan->layout.label_factors),
        .x = r->buffers->input,
        .out = plan->accumulates ? cuda_at(r, plan->layout.accumulator) : r->buffers->grad_weight,
        .x_stride = p->input_stride,
        .out_stride = plan->accumulates ? p->hidden : p->grad_weight_stride,
        .hidden = p->hidden,
        .slices = (int32_t)slices_of(plan),
    };
}

static unsigned int blocks_for(int64_t count)
{
    return (unsigned int)((count + THREADS - 1) / THREADS);
}

int cuda_odds_labels(const struct cuda_run *r)
{
    const struct cuda_own_kernels *k = &r->plan->kernels.own;
    const struct lce_label_rows_args a = label_arguments(r);
    if (!wants_dweight(r->plan))
        return LCE_OK;
    int status = cuda_launch(r, k->label_reserve, blocks_for(a.labels.vocab), THREADS, &a);
    if (!status)
        status = cuda_launch(r, k->label_place, blocks_for(a.labels.tokens), THREADS, &a);
    if (!status)
        status = cuda_launch(r, k->label_rows, (unsigned int)items_of(r->plan), THREADS, &a);
    return status;
}
