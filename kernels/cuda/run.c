/*
 * run.c - one run on the GPU: puts all work on the stream, in order.  z: logits, g: their gradient.
 *
 *     first        prepare: counts tokens, finds the state and the place of each
 *     each chunk   as one of the kinds below, after its rows of x were gathered if rows go by an index
 *     at the end   the labels' share of dweight (odds); dweight and dbias in their own type; rows of dinput
 *                  that no chunk made; the loss
 *
 *     plain      z = x weight^T   softmax: the loss, and z becomes g   dweight += g^T x   dinput = g weight
 *     odds       the labels' logits   e = odds of x weight^T   the loss, and x becomes factor x
 *                dweight += e^T (factor x)   dinput = factor (e weight) + the label's part
 *     slabs      for each slab of classes: z, scan.  Now the loss is known.  For each slab, backwards:
 *                z again (the last slab's is still there), which becomes g; dweight of the slab;
 *                dinput += g slab
 *     borrowed   plain or odds without the borrowed rows of dweight; stages make those (borrow.c)
 *     segments   plain or slabs, each segment as a plan of its own; with odds two passes over slabs:
 *                e, the rows' sums, dinput += e slab; then g and dweight of the slab (segments.c)
 *     parts      (of a vocabulary that ranks share) the first pass of slabs is a run, the second another
 *                one; with LCE_EXCHANGE both are one (exchange_chunk)
 */
#include <float.h>
#include <math.h>

#include "cuda.h"

static const float zero = 0, one = 1;

static int product(const struct cuda_run *r, const struct lce_gemm *gemm, void *out, const void *a,
                   const void *b, const struct lce_factors *factors)
{
    const struct cuda_library *l = cuda_of(r->plan);
    return lce_gemm_run(&l->blas, l->handle, gemm, out, a, b, factors, cuda_at(r, r->plan->layout.scratch),
                        r->stream);
}

/* A block of tokens: ROWS of them from FIRST on, whose hidden states are at X. */
struct block {
    int64_t first, rows;
    const char *x;
};

static int dweight(const struct cuda_run *r, const struct block *b, const struct cuda_slab *s)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    struct lce_factors factors = {&one, &one};
    const bool kept = plan->accumulates, first = b->first == 0; /* beta is applied at the end */
    if (first)
        factors.beta = kept ? &zero : &p->grad_weight_beta;
    if (plan->scaled) {
        factors.alpha = &r->stats->alpha;
        factors.beta = !first ? &r->stats->one : kept ? &r->stats->zero : &r->stats->beta;
    }
    const int64_t row =
        kept ? p->hidden * 4 : p->grad_weight_stride * (int64_t)lce_dtype_size(p->grad_weight_dtype);
    char *out = kept ? cuda_at(r, plan->layout.accumulator) : r->buffers->grad_weight;
    struct cuda_sum sum = {out, kept ? p->hidden : p->grad_weight_stride,
                           !first ? 1
                           : kept ? 0
                                  : p->grad_weight_beta};
    sum.out = out + s->begin * row;
    if (plan->own)
        return cuda_own_dweight(r, s, b->first, b->rows, &sum);
    sum.out = out + (s->begin + s->columns - s->tail) * row;
    int status = s->tail && !plan->borrowed ? cuda_tail_dweight(r, s, b->x, b->rows, &sum) : LCE_OK;
    return status ? status
                  : product(r, &s->products->dweight, out + s->begin * row, cuda_logits(r), b->x, &factors);
}

/* The classes' rows of the weight. */
static const char *weight_of(const struct cuda_run *r, const struct cuda_slab *s)
{
    const struct lce_problem *p = &r->plan->base.problem;
    const char *weight = r->buffers->weight;
    return weight + s->begin * p->weight_stride * (int64_t)lce_dtype_size(p->dtype);
}

/* FIRST: this is the first slab. */
static int dinput(const struct cuda_run *r, const struct block *b, const struct cuda_slab *s, bool first)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    if (plan->own)
        return cuda_sums_dinput(plan) ? cuda_own_dinput_sums(r, s, b->first, b->rows, !first)
                                      : cuda_own_dinput(r, s, b->first, b->rows);
    const bool alone = first && !s->tail; /* the tail is computed first, and the product adds to it */
    const struct lce_factors host = {&one, alone ? &zero : &one},
                             device = {&r->stats->alpha, alone ? &r->stats->zero : &r->stats->one};
    char *out = r->buffers->grad_input;
    if (cuda_sums_dinput(plan))
        out = cuda_dinput_sums(r);
    else if (plan->compacts)
        out = cuda_rows(r);
    else
        out += b->first * p->grad_input_stride * (int64_t)lce_dtype_size(p->dtype);
    const bool own = plan->compacts || cuda_sums_dinput(plan);
    const struct cuda_sum tail = {out, own ? p->hidden : p->grad_input_stride, first ? 0 : 1};
    int status = s->tail ? cuda_tail_dinput(r, s, b->rows, &tail) : LCE_OK;
    return status ? status
                  : product(r, &s->products->dinput, out, cuda_logits(r), weight_of(r, s),
                            plan->scaled ? &device : &host);
}

static int logits(const struct cuda_run *r, const struct block *b, const struct cuda_slab *s)
{
    const struct lce_factors plain = {&one, &zero};
    if (r->plan->own)
        return cuda_own_logits(r, s, b->first, b->rows);
    int status = s->tail ? cuda_tail_logits(r, s, b->x, b->rows) : LCE_OK;
    return status ? status : product(r, &s->products->logits, cuda_logits(r), b->x, weight_of(r, s), &plain);
}

/* Computes the wanted gradients from that of the slab's logits; FIRST: this is the block's first slab. */
static int gradients(const struct cuda_run *r, const struct block *b, const struct cuda_slab *s, bool first)
{
    int status = LCE_OK;
    if (cuda_wants(r, LCE_WANT_GRAD_WEIGHT))
        status = dweight(r, b, s);
    if (!status && cuda_wants(r, LCE_WANT_GRAD_BIAS))
        status = cuda_dbias(r, s, b->first, b->rows);
    if (!status && cuda_wants(r, LCE_WANT_GRAD_INPUT)) /* last, because it may overwrite the gathered rows */
        status = dinput(r, b, s, first);
    return status;
}

static struct cuda_slab slab_of(const struct cuda_plan *plan, const struct block *b, int64_t begin)
{
    const int64_t left = plan->end - begin;
    const bool shorter = left < plan->columns;
    return (struct cuda_slab){.begin = begin,
                              .columns = shorter ? left : plan->columns,
                              .tail = left <= plan->columns ? plan->tail : 0,
                              .products = &plan->products[b->rows != plan->chunk][shorter]};
}

/* Copies the block's dinput to the caller's rows, where it was made elsewhere. */
static int store_dinput(const struct cuda_run *r, const struct block *b)
{
    if (cuda_sums_dinput(r->plan))
        return cuda_slab_store(r, b->first, b->rows);
    if (r->plan->compacts && !r->plan->own && cuda_wants(r, LCE_WANT_GRAD_INPUT))
        return cuda_move_rows(r, false, b->first, b->rows);
    return LCE_OK;
}

/* Whole rows of odds: the products of gradients take them as they are, with factor x in the place of x. */
static int odds(const struct cuda_run *r, const struct block *b, const struct cuda_slab *all)
{
    const bool wants_input = cuda_wants(r, LCE_WANT_GRAD_INPUT);
    struct block scaled = *b;
    int status = cuda_own_exponents(r, all, b->first, b->rows);
    if (!status)
        status = cuda_odds_rows(r, all, b->first, b->rows);
    scaled.x = cuda_odds_x(r, b->first);
    if (!status)
        status = gradients(r, &scaled, all, true);
    return status || r->plan->own || !wants_input ? status : cuda_odds_dinput(r, b->first, b->rows);
}

static int whole_rows(const struct cuda_run *r, const struct block *b)
{
    const struct cuda_plan *plan = r->plan;
    const struct cuda_slab all = slab_of(plan, b, 0);
    const bool exponents = cuda_takes_exponents(r);
    if (cuda_takes_odds(r))
        return odds(r, b, &all);
    int status = exponents ? cuda_own_exponents(r, &all, b->first, b->rows) : logits(r, b, &all);
    if (!status)
        status = exponents ? cuda_exponents_pass(r, b->first, b->rows) : cuda_softmax(r, b->first, b->rows);
    if (!status)
        status = gradients(r, b, &all, true);
    return status ? status : store_dinput(r, b);
}

/* Odds of one slab at a time: the rows' sums and dinput. */
static int odds_in_slabs(const struct cuda_run *r, const struct block *b)
{
    const struct cuda_plan *plan = r->plan;
    int status = LCE_OK;
    for (int64_t begin = 0; !status && begin < plan->end; begin += plan->columns) {
        const struct cuda_slab s = slab_of(plan, b, begin);
        status = cuda_own_exponents(r, &s, b->first, b->rows);
        if (!status)
            status = cuda_odds_fold(r, &s, b->first, b->rows);
        if (!status)
            status = dinput(r, b, &s, begin == 0);
    }
    return status ? status : cuda_odds_store(r, b->first, b->rows);
}

/* The second pass goes backwards, because the last slab's logits are still there from the first; not so if
 * the first was another run. */
static int slab_gradients(const struct cuda_run *r, const struct block *b)
{
    const struct cuda_plan *plan = r->plan;
    const int64_t last = (plan->base.problem.vocab - 1) / plan->columns * plan->columns;
    int status = LCE_OK;
    for (int64_t begin = last; !status && begin >= 0; begin -= plan->columns) {
        const struct cuda_slab s = slab_of(plan, b, begin);
        if (begin != last || plan->base.problem.parts)
            status = logits(r, b, &s);
        if (!status)
            status = cuda_slab_gradient(r, &s, b->first, b->rows);
        if (!status)
            status = gradients(r, b, &s, begin == last);
    }
    return status ? status : store_dinput(r, b);
}

static int in_slabs(const struct cuda_run *r, const struct block *b)
{
    const struct lce_problem *p = &r->plan->base.problem;
    int status = LCE_OK;
    for (int64_t begin = 0; !status && begin < p->vocab; begin += r->plan->columns) {
        const struct cuda_slab s = slab_of(r->plan, b, begin);
        status = logits(r, b, &s);
        if (!status)
            status = cuda_slab_scan(r, &s, b->first, b->rows);
    }
    return !status && lce_wants_gradients(p) ? slab_gradients(r, b) : status;
}

static int gradient_again(const struct cuda_run *r, const struct block *b, const struct cuda_slab *s)
{
    const int status = logits(r, b, s);
    return status ? status : cuda_slab_gradient(r, s, b->first, b->rows);
}

/* Dweight, and in a segment dbias, of a block whose rows' sums are known: in a stage, or in a segment that
 * makes no dinput. */
static int dweight_alone(const struct cuda_run *r, const struct block *b)
{
    const struct cuda_plan *plan = r->plan;
    int status = LCE_OK;
    for (int64_t begin = plan->begin; !status && begin < plan->end; begin += plan->columns) {
        const struct cuda_slab s = slab_of(plan, b, begin);
        status = cuda_takes_odds(r) ? cuda_own_gradient(r, &s, b->first, b->rows) : gradient_again(r, b, &s);
        if (!status)
            status = gradients(r, b, &s, begin == plan->begin);
    }
    return status;
}

static struct block block_of(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct lce_problem *p = &r->plan->base.problem;
    struct block b = {first, rows, r->buffers->input};
    if (r->plan->compacts)
        b.x = cuda_rows(r);
    else
        b.x += first * p->input_stride * (int64_t)lce_dtype_size(p->dtype);
    return b;
}

static int chunk(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    const struct block b = block_of(r, first, rows);
    const bool known = plan->begin > 0 || plan->pass == DWEIGHT_PASS, in_odds = cuda_takes_odds(r) && !known;
    int status = LCE_OK;
    if (in_odds)
        status = cuda_odds_start(r, first, rows);
    else if (plan->compacts)
        status = cuda_move_rows(r, true, first, rows);
    if (status)
        return status;
    if (known)
        return dweight_alone(r, &b);
    if (p->parts)
        return slab_gradients(r, &b);
    if (in_odds && cuda_sliced(plan))
        return odds_in_slabs(r, &b);
    return cuda_sliced(plan) || lce_in_parts(p) ? in_slabs(r, &b) : whole_rows(r, &b);
}

static int first_half(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct block b = block_of(r, first, rows);
    const struct cuda_slab all = slab_of(r->plan, &b, 0);
    int status = r->plan->compacts ? cuda_move_rows(r, true, first, rows) : LCE_OK;
    if (!status)
        status = logits(r, &b, &all);
    return status ? status : cuda_slab_scan(r, &all, first, rows);
}

static int second_half(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct block b = block_of(r, first, rows);
    const struct cuda_slab all = slab_of(r->plan, &b, 0);
    int status = cuda_parts(r, first, rows);
    if (status || !lce_wants_gradients(&r->plan->base.problem))
        return status;
    status = cuda_slab_gradient(r, &all, first, rows);
    if (!status)
        status = gradients(r, &b, &all, true);
    if (!status)
        status = store_dinput(r, &b);
    return status || r->plan->compacts ? status : cuda_blank(r, first, rows);
}

/* A chunk of one rank's classes (LCE_EXCHANGE): its sums, the caller's exchange, for which the stream waits,
 * then its loss and gradients. */
static int exchange_chunk(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct lce_plan *plan = &r->plan->base;
    int status = first_half(r, first, rows);
    for (int step = LCE_EXCHANGE_START; !status && step <= LCE_EXCHANGE_FINISH; step++)
        status = lce_tell(plan, r->buffers, step, first, rows, r->stream);
    if (!status)
        status = second_half(r, first, rows);
    if (status || r->plan->compacts) /* such rows are tokens from anywhere: dinput is complete at the end */
        return status;
    return lce_tell(plan, r->buffers, LCE_EXCHANGE_INPUT, first, rows, r->stream);
}

static int exchanged(const struct cuda_run *r)
{
    const int64_t rows = r->plan->rows, chunk = r->plan->chunk;
    int status = LCE_OK;
    for (int64_t first = 0; !status && first < rows; first += chunk)
        status = exchange_chunk(r, first, rows - first < chunk ? rows - first : chunk);
    return status;
}

static int chunks(const struct cuda_run *r)
{
    const struct cuda_plan *plan = r->plan;
    struct cuda_run here = *r;
    int status = LCE_OK;
    for (int64_t first = plan->from; !status && first < plan->rows; first += plan->chunk) {
        const int64_t left = plan->rows - first;
        status = chunk(&here, first, left < plan->chunk ? left : plan->chunk);
        here.block += plan->in_place; /* each block has rows of its own */
    }
    return status;
}

static int finish(const struct cuda_run *r)
{
    const struct lce_problem *p = &r->plan->base.problem;
    const bool by_chunk = cuda_exchanges(r->plan) && !r->plan->compacts;
    int status = r->plan->rows > 0 && cuda_takes_odds(r) ? cuda_odds_labels(r) : LCE_OK;
    if (!status)
        status = cuda_store_weights(r);
    if (!status && !by_chunk)
        status = cuda_blank(r, 0, p->tokens);
    if (!status && !by_chunk && cuda_exchanges(r->plan))
        status = lce_tell(&r->plan->base, r->buffers, LCE_EXCHANGE_INPUT, 0, p->tokens, r->stream);
    if (!status && cuda_wants(r, LCE_WANT_LOSS) && r->plan->base.problem.reduction != LCE_NONE)
        status = cuda_reduce(r);
    return status;
}

int cuda_right_context(const struct cuda_library *l, const char *call)
{
    CUcontext current = NULL;
    l->driver.context_current(&current);
    if (current == l->context)
        return LCE_OK;
    return lce_fail(LCE_DEVICE_ERROR,
                    "%s: another CUDA context is current than in lce_open; make that one current, "
                    "or open a library for this one",
                    call);
}

int cuda_run(const struct lce_plan *base, const struct lce_buffers *buffers, void *stream)
{
    const struct cuda_plan *plan = (const struct cuda_plan *)base;
    struct cuda_run r = {.plan = plan, .buffers = buffers, .stream = stream};
    r.stats = cuda_at(&r, plan->layout.stats);
    r.state = cuda_at(&r, plan->layout.state);
    r.index = cuda_at(&r, plan->layout.index);
    if (cuda_wants(&r, LCE_WANT_LOSS))
        r.loss = base->problem.reduction == LCE_NONE ? buffers->loss : cuda_at(&r, plan->layout.loss);
    int status = cuda_right_context(cuda_of(plan), "lce_run");
    if (!status)
        status = cuda_prepare(&r);
    if (!status && cuda_exchanges(plan))
        status = exchanged(&r);
    else if (!status)
        status = base->problem.parts ? cuda_parts(&r, 0, plan->rows) : LCE_OK;
    if (!status && !cuda_exchanges(plan) && !plan->segment_count &&
        (!base->problem.parts || lce_wants_gradients(&base->problem)))
        status = chunks(&r);
    for (r.plan = plan->rest; !status && r.plan; r.plan = r.plan->rest)
        status = chunks(&r);
    r.plan = plan;
    if (!status && plan->in_place)
        status = cuda_expand(&r);
    return status ? status : finish(&r);
}
