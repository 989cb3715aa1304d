/*
 * plan.c - makes a plan for the GPU: how many tokens and classes at a time, the layout of the workspace,
 * cuBLASLt's algorithms.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

#define MIB (UINT64_C(1) << 20)

/* ---- the workspace ---- */

/* The layout of all parts but cuBLASLt's scratch, which comes last. */
static size_t lay_out(struct cuda_plan *plan, int64_t chunk)
{
    const struct lce_problem *p = &plan->base.problem;
    const size_t n = (size_t)chunk, h = (size_t)p->hidden, v = (size_t)p->vocab, e = lce_dtype_size(p->dtype);
    struct cuda_layout *l = &plan->layout;
    size_t total = 0;
    l->stats = lce_part(&total, 1, sizeof(struct lce_stats));
    l->state = lce_part(&total, (size_t)p->tokens, 1);
    l->loss =
        lce_part(&total, p->reduction != LCE_NONE && p->wants & LCE_WANT_LOSS ? (size_t)p->tokens : 0, 4);
    l->index = lce_part(&total, plan->compacts ? (size_t)plan->rows : 0, sizeof(int32_t));
    const bool here = !plan->borrowed && !plan->segment_count; /* what belongs to a chunk */
    l->rows = lce_part(&total, plan->compacts && here ? n * h : 0, e);
    l->next_rows = 0;
    l->dbias = lce_part(&total, p->wants & LCE_WANT_GRAD_BIAS ? v : 0, sizeof(float));
    l->accumulator = lce_part(&total, plan->accumulates ? v * h : 0, sizeof(float));
    l->logits = lce_part(&total, here ? n * (size_t)plan->stride : 0, cuda_logit_size(plan));
    cuda_exponents_lay_out(plan, chunk, here ? cuda_exponents_tiles(plan) : 0, l, &total);
    cuda_odds_lay_out(plan, l, &total);
    l->known = lce_part(&total,
                        plan->borrowed || p->parts || plan->two_passes ? (size_t)plan->rows
                        : cuda_sliced(plan) && here                    ? n
                                                                       : 0,
                        sizeof(struct lce_slab_row));
    l->order = lce_part(&total, (size_t)cuda_own_orders(plan), sizeof(int32_t));
    l->rest_logits = lce_part(&total, here ? 0 : plan->rest_size, 1);
    l->dinput = lce_part(&total, cuda_sums_dinput(plan) && here ? n * h : 0, sizeof(float));
    if (plan->borrowed)
        cuda_borrowed(plan, chunk, l);
    l->scratch = total;
    return total;
}

static bool stores_odds(const struct cuda_plan *plan)
{
    return plan->odds && cuda_exponents_tiles(plan) > 0;
}

/* The bytes of that for each token of a chunk. */
static uint64_t token_size(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const size_t row = plan->compacts ? lce_dtype_size(p->dtype) : 0,
                 sum = cuda_sums_dinput(plan) ? sizeof(float) : 0,
                 tiles = (size_t)cuda_exponents_tiles(plan) * sizeof(struct lce_tile_sum) +
                         (cuda_exponents_tiles(plan) ? sizeof(float) : 0) +
                         (stores_odds(plan) ? sizeof(float) + sizeof(struct lce_odds_factors) : 0);
    return (size_t)plan->stride * cuda_logit_size(plan) + (size_t)p->hidden * (row + sum) + tiles;
}

/* Whether dweight is summed over several chunks and the caller wants it rounded once (with one chunk it is
 * rounded once anyway).  PASSES: segments make one gradient at a time, dweight with blocks of its own. */
static bool accumulates(const struct lce_problem *p, int64_t chunk, int64_t rows, bool passes)
{
    return p->flags & LCE_F32_ACCUMULATE && p->wants & LCE_WANT_GRAD_WEIGHT &&
           p->grad_weight_dtype != LCE_F32 && (chunk < rows || passes);
}

void cuda_slice(struct cuda_plan *plan, int64_t columns)
{
    const struct lce_problem *p = &plan->base.problem;
    plan->columns = columns < p->vocab ? columns : p->vocab;
    plan->stride = cuda_round_up(plan->columns, LCE_SLAB_UNIT);
    plan->g_stride = plan->stride * (plan->wide ? 2 : 1);
}

size_t cuda_size_with(struct cuda_plan *plan, int64_t chunk)
{
    plan->accumulates = accumulates(&plan->base.problem, chunk, plan->rows, plan->two_passes);
    return lay_out(plan, chunk);
}

/* ---- the chunk ---- */

static int64_t largest_within(struct cuda_plan *plan, uint64_t budget)
{
    int64_t low = 0, high = plan->rows > 0 ? plan->rows : 1;
    if (cuda_size_with(plan, high) <= budget) /* without an accumulator one chunk may need less than two */
        return high;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (cuda_size_with(plan, middle) <= budget)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* The shape for the estimates, with room for MOST tokens within BUDGET. */
static struct lce_chunk_shape chunk_shape(struct cuda_plan *plan, int64_t most, uint64_t budget)
{
    const struct lce_problem *p = &plan->base.problem;
    const uint64_t token = token_size(plan), fixed = cuda_size_with(plan, most) - (uint64_t)most * token;
    return (struct lce_chunk_shape){
        .tokens = plan->rows,
        .hidden = p->hidden,
        .vocab = p->vocab,
        .element = (int)cuda_logit_size(plan),
        .grad_element = p->wants & LCE_WANT_GRAD_WEIGHT ? (int)lce_dtype_size(p->grad_weight_dtype) : 0,
        .grad_input = (p->wants & LCE_WANT_GRAD_INPUT) != 0,
        .processors = cuda_of(plan)->processors,
        .tail = plan->tail > 0,
        .adds = p->grad_weight_beta != 0,
        .exponents = cuda_exponents_tiles(plan) > 0,
        .odds = stores_odds(plan),
        .dinput_width = cuda_own_width(plan, 4),
        .dweight_width = cuda_own_width(plan, 8),
        .budget = budget > fixed ? budget - fixed : 0,
        .token = token,
    };
}

static int64_t choose_chunk(struct cuda_plan *plan, uint64_t budget)
{
    int64_t most = largest_within(plan, budget - budget / 64); /* leaves some scratch for cuBLASLt */
    if (most == 0)
        most = largest_within(plan, budget);
    if (most < 128)
        most = 128; /* the mode's budget is too small for a problem this large */
    const struct lce_chunk_shape shape = chunk_shape(plan, most, budget);
    return plan->own ? lce_own_choose(&shape, most) : lce_chunk_choose(&shape, most);
}

/* The bytes that the mode's plans keep to, but for problems whose shortest chunk takes more. */
static uint64_t budget_of(const struct cuda_plan *plan)
{
    if (plan->base.info.mode == LCE_LEAN)
        return 128 * MIB;
    /* includes the chunk's rows and parts of dinput; or what exponentials have beside them */
    return (plan->own ? 576 : plan->exponents ? 524 : 512) * MIB;
}

/* ---- slabs ---- */

static uint64_t size_sliced(void *context, int64_t block, int64_t columns)
{
    cuda_slice(context, columns);
    return cuda_size_with(context, block);
}

static struct lce_slab_shape slab_shape(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const bool wide = p->flags & LCE_F32_ACCUMULATE || p->grad_weight_dtype == LCE_F32;
    return (struct lce_slab_shape){
        .tokens = plan->rows,
        .hidden = p->hidden,
        .vocab = p->vocab,
        .element = (int)cuda_logit_size(plan),
        .input_element = (int)lce_dtype_size(p->dtype),
        .grad_element = !(p->wants & LCE_WANT_GRAD_WEIGHT) ? 0
                        : wide                             ? 4
                                                           : 2,
        .grad_input = p->wants & LCE_WANT_GRAD_INPUT,
        .gradients = lce_wants_gradients(p),
        .processors = cuda_of(plan)->processors,
        .slower = p->dtype != LCE_F32         ? 1
                  : p->flags & LCE_ALLOW_TF32 ? 2
                                              : 15,
    };
}

/* Chooses slabs if they are estimated to gain 5 % over the plan without them, or if only they fit. */
static void choose_slabs(struct cuda_plan *plan, int64_t *chunk, uint64_t budget)
{
    const struct lce_slab_shape shape = slab_shape(plan);
    const int64_t vocab = plan->base.problem.vocab;
    const bool fits = cuda_size_with(plan, *chunk) <= budget;
    struct lce_slab_choice slabs = lce_slab_choose(&shape, size_sliced, plan, budget);
    cuda_slice(plan, vocab);
    if (!slabs.block || (fits && slabs.seconds * 1.05 > lce_slab_seconds(&shape, *chunk, vocab)))
        return;
    cuda_slice(plan, slabs.columns);
    *chunk = slabs.block;
}

/* Chooses to borrow rows of dweight if that is estimated to gain 5 %, or if only that fits. */
static void choose_borrowed(struct cuda_plan *plan, int64_t *chunk, bool given, uint64_t budget)
{
    const bool forced = plan->base.problem.proposals >> 15 & 1;
    const struct lce_slab_shape shape = slab_shape(plan);
    const int64_t columns = plan->columns;
    if (!cuda_may_borrow(plan) || (given && !forced))
        return;
    const bool fits = cuda_size_with(plan, *chunk) <= budget && !forced,
               whole = columns == plan->base.problem.vocab;
    cuda_slice(plan, plan->base.problem.vocab);
    const struct lce_chunk_shape own = chunk_shape(plan, *chunk, budget);
    const double before = !fits                ? 1e30
                          : plan->own && whole ? lce_own_seconds(&own, *chunk) / 1.05
                                               : lce_slab_seconds(&shape, *chunk, columns) / 1.05;
    if (!cuda_borrow_choose(plan, &shape, plan->own ? &own : NULL, chunk, given, budget, before))
        cuda_slice(plan, columns);
}

/* Likewise rows of dinput. */
static void choose_segments(struct cuda_plan *plan, int64_t *chunk, bool given, uint64_t budget)
{
    const bool forced = plan->base.problem.proposals >> 15 & 1;
    const struct lce_slab_shape shape = slab_shape(plan);
    if (!cuda_may_segment(plan) || (given && !forced))
        return;
    const bool fits = cuda_size_with(plan, *chunk) <= budget && !forced;
    const struct lce_chunk_shape own = chunk_shape(plan, *chunk, budget);
    const double before = !fits       ? 1e30
                          : plan->own ? lce_own_seconds(&own, *chunk) / 1.05
                                      : lce_slab_seconds(&shape, *chunk, plan->columns) / 1.05;
    cuda_segments_choose(plan, &shape, plan->own ? &own : NULL, chunk, given, budget, before);
}

/* ---- tokens and classes at a time ---- */

/* Chooses the number of tokens at a time, unless CHUNK is given; sets the columns. */
static int64_t choose_shape(struct cuda_plan *plan, int64_t chunk)
{
    const struct lce_problem *p = &plan->base.problem;
    const bool given = chunk > 0;
    const uint64_t budget = budget_of(plan);
    const bool cut =
        p->proposals >> 16 && !cuda_exchanges(plan) && !(p->proposals >> 15 & 1 && cuda_may_borrow(plan));
    cuda_slice(plan, p->vocab);
    plan->borrowed = plan->stage_count = 0;
    plan->lends_odds = plan->in_place = plan->two_passes = false;
    plan->segment_count = 0;
    plan->logits_in = plan->sums_in = plan->rows_in = IN_WORKSPACE;
    if (cut)
        cuda_slice(plan, (int64_t)(p->proposals >> 16) * LCE_SLAB_UNIT);
    if (!given)
        chunk = choose_chunk(plan, budget);
    if (plan->rows > 0 && chunk > plan->rows)
        chunk = plan->rows;
    if (cuda_exchanges(plan))
        return chunk;
    /* ours have whole rows, or those of a segment */
    const bool lends = plan->own && (cuda_may_borrow(plan) || cuda_may_segment(plan));
    if (!lends && !(p->proposals >> 16) && !given)
        choose_slabs(plan, &chunk, budget);
    if (!cut)
        choose_borrowed(plan, &chunk, given, budget);
    if (given || plan->base.info.mode == LCE_LEAN)
        choose_segments(plan, &chunk, given, budget);
    return chunk;
}

/* Sets chunk, last, columns and layout; returns how much of the budget is left for cuBLASLt's scratch. */
static size_t choose_sizes(struct cuda_plan *plan, int64_t chunk)
{
    const uint64_t budget = budget_of(plan);
    plan->chunk = choose_shape(plan, chunk);
    plan->last = plan->rows > 0 ? (plan->rows - 1) % plan->chunk + 1 : 0;
    const size_t size = cuda_size_with(plan, plan->chunk);
    const bool little = size < budget && budget - size < LCE_MOST_SCRATCH;
    return little ? (size_t)((budget - size) / 256 * 256) : LCE_MOST_SCRATCH;
}

/* ---- all of it ---- */

/* Makes the plans of the stages or segments; *USED gets the scratch of their products. */
static int fill_rest(struct cuda_plan *plan, size_t scratch, size_t *used)
{
    struct cuda_plan **next = &plan->rest;
    int status = LCE_OK;
    for (int i = 0; !status && i < plan->stage_count + plan->segment_count; i++) {
        struct cuda_plan *rest = malloc(sizeof *rest);
        if (!rest)
            return lce_fail(LCE_OUT_OF_MEMORY, "lce_plan_create: no memory for a plan");
        if (plan->segment_count)
            cuda_segment(plan, i, rest);
        else
            cuda_borrow_rest(plan, i, rest);
        memset(rest->products, 0, sizeof rest->products);
        *next = rest;
        next = &rest->rest;
        status = cuda_make_products(rest, scratch);
        const size_t most = cuda_most_scratch(rest);
        *used = most > *used ? most : *used;
        if (!status)
            status = cuda_find_kernels(rest);
    }
    return status;
}

static int fill(struct cuda_plan *plan, int64_t chunk)
{
    const size_t scratch = choose_sizes(plan, chunk);
    size_t used = 0;
    int status = LCE_OK;
    plan->exponents = cuda_exponents_tiles(plan) > 0;
    plan->odds = plan->odds && plan->exponents;
    if (!plan->segment_count)
        status = cuda_make_products(plan, scratch);
    if (!status)
        status = cuda_find_kernels(plan);
    used = cuda_most_scratch(plan);
    if (!status && (plan->borrowed || plan->segment_count))
        status = fill_rest(plan, scratch, &used);
    if (status)
        return status;
    if (plan->own) {
        const size_t parts = plan->borrowed || plan->segment_count ? 0 : cuda_own_scratch(plan, plan->chunk);
        used = parts < scratch ? parts : scratch;
    }
    struct lce_plan_info *info = &plan->base.info;
    info->gemm_size = used;
    info->workspace_size = plan->layout.scratch + info->gemm_size;
    info->chunk_tokens = plan->chunk;
    info->chunks = (int32_t)((plan->rows + plan->chunk - 1) / plan->chunk);
    if (plan->segment_count)
        info->chunks = cuda_segment_blocks(plan);
    info->logits_size = (uint64_t)plan->chunk * (uint64_t)plan->stride * cuda_logit_size(plan);
    info->slab_columns = plan->columns;
    return LCE_OK;
}

/* The estimate for the shape that was chosen, to be compared with that of the other's products.  Slabs and
 * segments, and borrowed rows beside cuBLASLt's products, have estimates that can be compared with chunk.c's
 * only: they take as much longer as whole rows do. */
static double seconds_of(struct cuda_plan *plan)
{
    struct lce_chunk_shape shape = chunk_shape(plan, plan->chunk, budget_of(plan));
    const struct lce_slab_shape slabs = slab_shape(plan);
    if (plan->own && plan->segment_count)
        return plan->rest_seconds;
    if (plan->own && plan->borrowed) {
        shape.room = 1 + (int64_t)(cuda_lent_parts(plan, plan->chunk) / LCE_PART_SIZE);
        shape.borrowed = plan->borrowed;
        return plan->rest_seconds + lce_own_seconds(&shape, plan->chunk);
    }
    const double whole =
        plan->own ? lce_own_seconds(&shape, plan->chunk) : lce_their_seconds(&shape, plan->chunk);
    if (!plan->segment_count && !cuda_sliced(plan) && !plan->borrowed)
        return whole;
    double seconds = plan->rest_seconds; /* of the segments, or the stages */
    if (plan->borrowed)
        seconds += lce_borrow_seconds(&slabs, plan->chunk, plan->borrowed);
    else if (!plan->segment_count)
        seconds = lce_slab_seconds(&slabs, plan->chunk, plan->columns);
    return seconds * whole / lce_chunk_seconds(&shape, plan->chunk);
}

/* Chooses whether rows are compacted, and whose products are used. */
static void decide(struct cuda_plan *plan, bool own)
{
    const struct lce_problem *p = &plan->base.problem;
    const bool promised = p->max_counted > 0 && p->max_counted < p->tokens;
    plan->own = own;
    plan->compacts = own || cuda_own_compacts(plan) || promised;
    plan->rows = promised && plan->compacts ? p->max_counted : p->tokens;
    plan->tail = own ? 0 : cuda_tail_of(p);
    plan->exponents = cuda_exponents_fit(plan);
    plan->odds = plan->exponents && cuda_odds_fit(plan);
}

/* How many times cuBLASLt's time our own products may take, if all tokens count.  How many are ignored is not
 * known here: ours spend no time on these, cuBLASLt's two thirds of what a counted token takes.  So an
 * estimated loss of 10 % is accepted; a caller whose tokens all count can say so (max_counted).  Where rows
 * are borrowed it is 16 %, as estimates of ours are too high there (measured at twelve shapes: a loss of up
 * to 3 %).  In segments it is 6 %, measured up to 7 %. */
static double price_of(const struct cuda_plan *plan)
{
    if (plan->segment_count)
        return 1.06;
    return plan->borrowed ? 1.16 : 1.10;
}

static bool own_pays(struct cuda_plan *plan, int64_t chunk)
{
    if (!cuda_own_fits(plan))
        return false;
    decide(plan, true);
    choose_sizes(plan, chunk);
    if (cuda_sliced(plan) && !plan->segment_count)
        return false;
    const double own = seconds_of(plan) / price_of(plan);
    decide(plan, false);
    choose_sizes(plan, chunk);
    return cuda_own_forced(plan) || own <= seconds_of(plan);
}

int cuda_plan_create(struct lce *library, const struct lce_problem *problem, int mode, int64_t chunk,
                     struct lce_plan **out)
{
    struct cuda_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return lce_fail(LCE_OUT_OF_MEMORY, "lce_plan_create: no memory for a plan");
    plan->base.library = library;
    plan->base.problem = *problem;
    plan->end = problem->vocab;
    plan->base.info.mode = mode;
    plan->scaled = problem->dtype == LCE_F16 && problem->reduction != LCE_NONE;
    plan->wide = problem->flags & LCE_F32_LOGITS && problem->dtype != LCE_F32;
    decide(plan, own_pays(plan, chunk));
    int status = fill(plan, chunk);
    if (status)
        cuda_plan_destroy(&plan->base);
    else
        *out = &plan->base;
    return status;
}

void cuda_plan_destroy(struct lce_plan *base)
{
    struct cuda_plan *plan = (struct cuda_plan *)base;
    cuda_drop_products(plan);
    if (plan->rest)
        cuda_plan_destroy(&plan->rest->base);
    free(plan);
}
