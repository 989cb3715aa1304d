/*
 * cpu.c - the CPU back end: one thread, products in fp32, everything in the caller's workspace.
 *
 *     for each chunk of counted tokens:   x = their hidden states in fp32
 *                                         logits = x weight^T, the loss and g (softmax.c)
 *                                         dinput = g weight,  dweight += g^T x,  dbias += column sums
 *
 * Rows of the weight are widened to fp32 in blocks of BLOCK, which stay in the cache for all the chunk's
 * tokens.  Modes differ in the size of the chunk alone.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "half.h"

enum { BLOCK = 64 };

struct cpu_plan {
    struct lce_plan base;
    struct cpu_layout layout;
};

static size_t layout_fill(const struct lce_problem *p, int64_t chunk, struct cpu_layout *l)
{
    const size_t n = (size_t)chunk, h = (size_t)p->hidden, v = (size_t)p->vocab;
    size_t total = 0;
    l->chunk = chunk;
    l->state = lce_part(&total, (size_t)p->tokens, 1);
    l->logits = lce_part(&total, cpu_needs_logits(p) ? n * v : 0, sizeof(float));
    l->x = lce_part(&total, n * h, sizeof(float));
    l->dx = lce_part(&total, p->wants & LCE_WANT_GRAD_INPUT ? n * h : 0, sizeof(float));
    l->index = lce_part(&total, n, sizeof(int32_t));
    l->weight = lce_part(&total, BLOCK * h, sizeof(float));
    l->dweight = lce_part(&total, p->wants & LCE_WANT_GRAD_WEIGHT ? BLOCK * h : 0, sizeof(float));
    l->dbias = lce_part(&total, p->wants & LCE_WANT_GRAD_BIAS ? v : 0, sizeof(float));
    bool whole =
        p->wants & LCE_WANT_GRAD_WEIGHT && p->flags & LCE_F32_ACCUMULATE && p->grad_weight_dtype != LCE_F32;
    l->accumulator = lce_part(&total, whole ? v * h : 0, sizeof(float));
    l->accumulates = whole;
    return total;
}

/* Bytes of the workspace, if the logits of one token fit. */
enum { LEAN_SIZE = 16 << 20, FAST_SIZE = 64 << 20 };

/* The largest chunk whose workspace has at most SIZE bytes, or one token. */
static int64_t chunk_within(const struct lce_problem *p, size_t size)
{
    struct cpu_layout l;
    int64_t low = 0, high = p->tokens > 0 ? p->tokens : 1;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (layout_fill(p, middle, &l) <= size)
            low = middle;
        else
            high = middle - 1;
    }
    return low > 0 ? low : 1;
}

static int64_t choose_chunk(const struct lce_problem *p, int mode, int64_t chunk)
{
    const int64_t tokens = p->tokens > 0 ? p->tokens : 1;
    if (chunk == 0)
        chunk = chunk_within(p, mode == LCE_LEAN ? LEAN_SIZE : FAST_SIZE);
    return chunk < tokens ? chunk : tokens;
}

static int plan_create(struct lce *library, const struct lce_problem *problem, int mode, int64_t chunk,
                       struct lce_plan **out)
{
    chunk = choose_chunk(problem, mode, chunk);
    struct cpu_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return lce_fail(LCE_OUT_OF_MEMORY, "lce_plan_create: no memory for a plan");
    plan->base.library = library;
    plan->base.problem = *problem;
    struct lce_plan_info *info = &plan->base.info;
    info->mode = mode;
    info->chunk_tokens = chunk;
    info->chunks = (int32_t)((problem->tokens + chunk - 1) / chunk);
    info->workspace_size = layout_fill(problem, chunk, &plan->layout);
    info->logits_size = (uint64_t)chunk * (uint64_t)problem->vocab * sizeof(float);
    info->slab_columns = problem->vocab;
    *out = &plan->base;
    return LCE_OK;
}

static void plan_destroy(struct lce_plan *plan)
{
    free(plan);
}

/* ---- one run ---- */

/* Takes the tokens of the next chunk, from *TOKEN on, which is row FIRST. */
static void gather(struct cpu_run *r, int64_t *token, int64_t first)
{
    const struct lce_problem *p = r->p;
    int64_t count = 0;
    for (; *token < p->tokens && count < r->l->chunk; ++*token) {
        if (r->state[*token] != CPU_COUNTED)
            continue;
        for (int64_t h = 0; h < p->hidden; h++)
            r->x[count * p->hidden + h] = lce_load(r->b->input, p->dtype, *token * p->input_stride + h);
        r->index[count++] = (int32_t)*token;
    }
    r->first = first;
    r->count = count;
}

/* Converts rows of the weight from BEGIN on to fp32: [rows, H] or, if TRANSPOSED, [H, BLOCK].  Returns how
 * many. */
static int64_t widen(const struct cpu_run *r, int64_t begin, bool transposed)
{
    const struct lce_problem *p = r->p;
    const int64_t rows = p->vocab - begin < BLOCK ? p->vocab - begin : BLOCK;
    for (int64_t c = 0; c < rows; c++)
        for (int64_t h = 0; h < p->hidden; h++)
            r->weight[transposed ? h * BLOCK + c : c * p->hidden + h] =
                lce_load(r->b->weight, p->dtype, (begin + c) * p->weight_stride + h);
    return rows;
}

static void make_logits(const struct cpu_run *r)
{
    const struct lce_problem *p = r->p;
    memset(r->logits, 0, (size_t)(r->count * p->vocab) * sizeof(float));
    for (int64_t begin = 0; begin < p->vocab; begin += BLOCK) {
        int64_t rows = widen(r, begin, true);
        lce_matmul(&(struct lce_matmul){.c = r->logits + begin,
                                        .a = r->x,
                                        .b = r->weight,
                                        .m = r->count,
                                        .n = rows,
                                        .k = p->hidden,
                                        .c_row = p->vocab,
                                        .a_row = p->hidden,
                                        .a_column = 1,
                                        .b_row = BLOCK});
    }
}

static void make_dinput(const struct cpu_run *r)
{
    const struct lce_problem *p = r->p;
    memset(r->dx, 0, (size_t)(r->count * p->hidden) * sizeof(float));
    for (int64_t begin = 0; begin < p->vocab; begin += BLOCK) {
        int64_t rows = widen(r, begin, false);
        lce_matmul(&(struct lce_matmul){.c = r->dx,
                                        .a = r->logits + begin,
                                        .b = r->weight,
                                        .m = r->count,
                                        .n = p->hidden,
                                        .k = rows,
                                        .c_row = p->hidden,
                                        .a_row = p->vocab,
                                        .a_column = 1,
                                        .b_row = p->hidden});
    }
    for (int64_t i = 0; i < r->count; i++)
        for (int64_t h = 0; h < p->hidden; h++)
            lce_store(r->b->grad_input, p->dtype, r->index[i] * p->grad_input_stride + h,
                      r->dx[i * p->hidden + h]);
}

/* Loads the value of the row of dweight from before this chunk. */
static void load_dweight(const struct cpu_run *r, int64_t row, float *sum, bool first)
{
    const struct lce_problem *p = r->p;
    const float beta = first ? p->grad_weight_beta : 1;
    if (beta == 0)
        memset(sum, 0, (size_t)p->hidden * sizeof(float));
    else if (r->l->accumulates && !first)
        memcpy(sum, r->accumulator + row * p->hidden, (size_t)p->hidden * sizeof(float));
    else
        for (int64_t h = 0; h < p->hidden; h++)
            sum[h] =
                beta * lce_load(r->b->grad_weight, p->grad_weight_dtype, row * p->grad_weight_stride + h);
}

static void store_dweight(const struct cpu_run *r, int64_t row, const float *sum, bool last)
{
    const struct lce_problem *p = r->p;
    if (r->l->accumulates && !last) {
        memcpy(r->accumulator + row * p->hidden, sum, (size_t)p->hidden * sizeof(float));
        return;
    }
    for (int64_t h = 0; h < p->hidden; h++)
        lce_store(r->b->grad_weight, p->grad_weight_dtype, row * p->grad_weight_stride + h, sum[h]);
}

static void make_dweight(const struct cpu_run *r, bool last)
{
    const struct lce_problem *p = r->p;
    for (int64_t begin = 0; begin < p->vocab; begin += BLOCK) {
        int64_t rows = p->vocab - begin < BLOCK ? p->vocab - begin : BLOCK;
        for (int64_t c = 0; c < rows; c++)
            load_dweight(r, begin + c, r->dweight + c * p->hidden, r->first == 0);
        lce_matmul(&(struct lce_matmul){.c = r->dweight,
                                        .a = r->logits + begin,
                                        .b = r->x,
                                        .m = rows,
                                        .n = p->hidden,
                                        .k = r->count,
                                        .c_row = p->hidden,
                                        .a_row = 1,
                                        .a_column = p->vocab,
                                        .b_row = p->hidden});
        for (int64_t c = 0; c < rows; c++)
            store_dweight(r, begin + c, r->dweight + c * p->hidden, last);
    }
}

static void make_dbias(const struct cpu_run *r, bool last)
{
    const struct lce_problem *p = r->p;
    for (int64_t c = 0; r->first == 0 && c < p->vocab; c++)
        r->dbias[c] = p->grad_weight_beta == 0
                          ? 0
                          : p->grad_weight_beta * lce_load(r->b->grad_bias, p->grad_weight_dtype, c);
    for (int64_t i = 0; i < r->count; i++)
        for (int64_t c = 0; c < p->vocab; c++)
            r->dbias[c] += r->logits[i * p->vocab + c];
    for (int64_t c = 0; last && c < p->vocab; c++)
        lce_store(r->b->grad_bias, p->grad_weight_dtype, c, r->dbias[c]);
}

/* Writes the results of tokens that no chunk has written: 0 for ignored tokens, NaN for labels out of range;
 * of those a partial result is 0, too. */
static void blank(const struct cpu_run *r)
{
    const struct lce_problem *p = r->p;
    for (int64_t i = 0; i < p->tokens; i++) {
        if (r->state[i] == CPU_COUNTED)
            continue;
        const float value = r->state[i] == CPU_INVALID ? NAN : 0;
        for (int64_t h = 0; p->wants & LCE_WANT_GRAD_INPUT && h < p->hidden; h++)
            lce_store(r->b->grad_input, p->dtype, i * p->grad_input_stride + h, value);
        if (p->wants & LCE_WANT_LOSS && p->reduction == LCE_NONE)
            r->b->loss[i] = value;
        if (p->wants & LCE_WANT_ENTROPY)
            r->b->entropy[i] = value;
        if (p->wants & LCE_WANT_PARTIAL)
            memset(r->b->partial + i, 0, sizeof *r->b->partial);
    }
}

static void make_gradients(const struct cpu_run *r, bool last)
{
    const uint32_t wants = r->p->wants;
    if (wants & LCE_WANT_GRAD_INPUT)
        make_dinput(r);
    if (wants & LCE_WANT_GRAD_WEIGHT)
        make_dweight(r, last);
    if (wants & LCE_WANT_GRAD_BIAS)
        make_dbias(r, last);
}

static int run_chunk(const struct cpu_run *r, bool last)
{
    int status = LCE_OK;
    if (cpu_needs_logits(r->p))
        make_logits(r);
    if (r->p->wants & LCE_WANT_PARTIAL || cpu_exchanges(r->p))
        cpu_partial(r);
    if (cpu_exchanges(r->p)) {
        status = lce_tell(r->plan, r->b, LCE_EXCHANGE_START, r->first, r->count, NULL);
        if (!status)
            status = lce_tell(r->plan, r->b, LCE_EXCHANGE_FINISH, r->first, r->count, NULL);
    }
    if (status)
        return status;
    if (!(r->p->wants & LCE_WANT_PARTIAL))
        cpu_softmax(r);
    make_gradients(r, last);
    return LCE_OK;
}

static int run_chunks(struct cpu_run *r)
{
    const int64_t all = r->sums->counted;
    int64_t token = 0;
    int status;
    do { /* at least once, because gradients must be written even if no token counts */
        gather(r, &token, r->first + r->count);
        status = run_chunk(r, r->first + r->count == all);
    } while (!status && r->first + r->count < all);
    return status;
}

static int run(const struct lce_plan *base, const struct lce_buffers *b, void *stream)
{
    const struct cpu_layout *l = &((const struct cpu_plan *)base)->layout;
    char *w = b->workspace;
    struct cpu_sums sums = {0};
    struct cpu_run r = {
        .plan = base,
        .p = &base->problem,
        .b = b,
        .l = l,
        .sums = &sums,
        .state = (uint8_t *)w + l->state,
        .index = (int32_t *)(void *)(w + l->index),
        .logits = (float *)(void *)(w + l->logits),
        .x = (float *)(void *)(w + l->x),
        .dx = (float *)(void *)(w + l->dx),
        .weight = (float *)(void *)(w + l->weight),
        .dweight = (float *)(void *)(w + l->dweight),
        .dbias = (float *)(void *)(w + l->dbias),
        .accumulator = (float *)(void *)(w + l->accumulator),
    };
    cpu_count(&r);
    int status = run_chunks(&r);
    blank(&r);
    if (!status && cpu_exchanges(r.p))
        status = lce_tell(base, b, LCE_EXCHANGE_INPUT, 0, r.p->tokens, NULL);
    if (base->problem.wants & LCE_WANT_LOSS && base->problem.reduction != LCE_NONE)
        *b->loss = cpu_reduced(&r);
    return status;
}

static int scale(const struct lce *library, void *matrix, uint64_t count, int dtype, const float *factor,
                 void *stream)
{
    for (uint64_t i = 0; *factor != 1 && i < count; i++)
        lce_store(matrix, dtype, (int64_t)i, lce_load(matrix, dtype, (int64_t)i) * *factor);
    return LCE_OK;
}

static void close_library(struct lce *library) {}

int lce_cpu_open(struct lce **library)
{
    static const struct lce_operations operations = {close_library, plan_create, plan_destroy,
                                                     run,           64,          scale};
    static struct lce cpu = {&operations};
    *library = &cpu;
    return LCE_OK;
}
