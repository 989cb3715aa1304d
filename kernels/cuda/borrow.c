/*
 * borrow.c - keeps logits in the caller's buffer for dweight, if the old contents of that are not needed.
 *
 * Until a row of dweight gets its first sums its contents do not matter.  So the last rows of the buffer can
 * hold a chunk's logits (and its gathered rows, its sums of dinput, the parts of tiles of our products), and
 * the workspace can be very small:
 *
 *     dweight:  | rows that every chunk adds to ............ | logits of the chunk under way |
 *                                                            ^ vocab - borrowed
 *
 * The classes of the borrowed rows take part in every chunk's softmax and dinput.  Their dweight is computed
 * when all chunks are done and the rows are free again, in stages.  In each stage the first classes that are
 * left get their logits once more, with the sums of each row that were kept; and these logits again lie in
 * rows of classes that come later.  Only the last few classes have them in the workspace, by slabs:
 *
 *     dweight:  | done ......... | this stage's rows | its logits, of all tokens or of many at a time |
 *
 * That makes three products, and a fourth for the borrowed share of the vocabulary, which is chunk / H in 16
 * bits.  As the stages take many tokens at a time, the rest's dweight is hardly ever read, and its sums are
 * long.  Slabs alone (slab.c) need a fourth product for the whole vocabulary.
 */
#include "cuda.h"
#include "slab.h"

enum {
    MOST_CHUNK = 2048,
    LEAST_CHUNK = 64,
    MOST_REST = 1 << 23 /* logits of a slab in the workspace: wider slabs gain next to nothing */
};

bool cuda_may_borrow(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const bool accumulated = p->flags & LCE_F32_ACCUMULATE && p->grad_weight_dtype != LCE_F32;
    return !lce_in_parts(p) && plan->base.info.mode != LCE_NAIVE && p->wants & LCE_WANT_GRAD_WEIGHT &&
           p->grad_weight_beta == 0 && p->grad_weight_stride == p->hidden && !accumulated && plan->rows > 0;
}

/* ---- where things lie ---- */

static size_t row_size(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    return (size_t)p->hidden * lce_dtype_size(p->grad_weight_dtype);
}

/* Puts the matrices of N tokens and STRIDE classes one after the other; returns their bytes.  DINPUT: with
 * what is needed to make that, which stages do not. */
static size_t lay_out(const struct cuda_plan *plan, int64_t n, int64_t stride, bool dinput,
                      struct cuda_layout *l)
{
    const struct lce_problem *p = &plan->base.problem;
    const size_t h = (size_t)p->hidden;
    size_t total = 0;
    l->logits = lce_part(&total, (size_t)n * (size_t)stride, cuda_logit_size(plan));
    l->rows = lce_part(&total, plan->compacts ? (size_t)n * h : 0, lce_dtype_size(p->dtype));
    l->dinput = lce_part(&total, dinput && cuda_sums_dinput(plan) ? (size_t)n * h : 0, sizeof(float));
    l->parts = lce_part(&total, dinput ? cuda_lent_parts(plan, n) : 0, 1);
    return total;
}

/* Likewise in the last rows of dweight; returns the offset of the first of them, 0 if there are too few. */
static size_t lay_out_lent(const struct cuda_plan *plan, int64_t n, int64_t stride, bool dinput,
                           struct cuda_layout *l)
{
    const size_t all = (size_t)plan->base.problem.vocab * row_size(plan),
                 need = lay_out(plan, n, stride, dinput, l),
                 offset = need < all ? (all - need) / 256 * 256 : 0;
    l->logits += offset;
    l->rows += offset;
    l->dinput += offset;
    l->parts += offset;
    return offset;
}

int64_t cuda_borrowed(const struct cuda_plan *plan, int64_t chunk, struct cuda_layout *layout)
{
    const int64_t vocab = plan->base.problem.vocab;
    const size_t offset = lay_out_lent(plan, chunk, plan->stride, true, layout);
    const int64_t head = (int64_t)(offset / row_size(plan)) / LCE_SLAB_UNIT * LCE_SLAB_UNIT;
    return head >= vocab / 4 && head > 0 ? vocab - head : 0;
}

/* ---- the stages ---- */

/* The next number below: powers of two, and halves more. */
static int64_t next_below(int64_t chunk)
{
    int64_t power = 1;
    while (2 * power < chunk)
        power *= 2;
    return power > 1 && power / 2 * 3 < chunk ? power / 2 * 3 : power;
}

struct choice { /* of a stage */
    struct cuda_stage stage;
    double seconds, each; /* of a class; each < 0: none yet */
};

static void consider(const struct lce_slab_shape *shape, struct cuda_stage stage, struct choice *best)
{
    const int64_t classes = stage.end - stage.begin;
    const double seconds = lce_again_seconds(shape, stage.block, classes, stage.columns),
                 each = seconds / (double)classes;
    if (best->each < 0 || each < best->each)
        *best = (struct choice){stage, seconds, each};
}

/* Considers N tokens at a time, with logits in later rows of dweight. */
static void consider_lent(const struct cuda_plan *plan, const struct lce_slab_shape *shape, int64_t begin,
                          int64_t n, struct choice *best)
{
    const int64_t left = plan->base.problem.vocab - begin;
    struct cuda_layout l;
    const size_t row = row_size(plan), fixed = lay_out(plan, n, 0, false, &l) + 512, /* for rounding */
        class = (size_t)n * cuda_logit_size(plan) + row, rows = (size_t)left * row;
    const int64_t fit = rows > fixed ? (int64_t)((rows - fixed) / class) / LCE_SLAB_UNIT * LCE_SLAB_UNIT : 0;
    if (fit > 0 && fit < left)
        consider(shape, (struct cuda_stage){begin, begin + fit, fit, n, true}, best);
}

/* Likewise of all the classes that are left, with logits in ROOM bytes of the workspace. */
static void consider_slabs(const struct cuda_plan *plan, const struct lce_slab_shape *shape, int64_t begin,
                           int64_t n, uint64_t room, struct choice *best)
{
    const struct lce_problem *p = &plan->base.problem;
    const int64_t unit = LCE_SLAB_UNIT, forced = (int64_t)(p->proposals >> 16) * unit,
                  left = p->vocab - begin;
    struct cuda_layout l;
    const size_t fixed = lay_out(plan, n, 0, false, &l), each = (size_t)n * cuda_logit_size(plan);
    int64_t most = room > fixed ? (int64_t)((room / 256 * 256 - fixed) / (each * (size_t)unit)) * unit : 0;
    if (most > unit && most > MOST_REST / n)
        most = MOST_REST / n > unit ? MOST_REST / n / unit * unit : unit;
    if (forced)
        most = forced;
    if (most <= 0)
        return;
    const int64_t count = (left + most - 1) / most;
    const int64_t columns = cuda_round_up((left + count - 1) / count, unit); /* at most MOST, a multiple */
    consider(shape, (struct cuda_stage){begin, p->vocab, columns, n, false}, best);
}

/* Sets the stages of the borrowed classes, each the fastest for a class, and the bytes that they need in the
 * workspace, at most ROOM.  Whether there are any. */
static bool choose_stages(struct cuda_plan *plan, const struct lce_slab_shape *shape, int64_t chunk,
                          uint64_t room)
{
    const int64_t vocab = plan->base.problem.vocab, least = chunk < LEAST_CHUNK ? chunk : LEAST_CHUNK;
    const bool forced = plan->base.problem.proposals >> 16; /* slabs, in blocks of the chunk's size */
    struct cuda_layout l;
    plan->stage_count = 0;
    plan->rest_seconds = 0;
    for (int64_t begin = vocab - plan->borrowed; begin < vocab;) {
        struct choice best = {.each = -1};
        for (int64_t n = forced ? chunk : plan->rows; n >= least && n > 0; n = next_below(n)) {
            if (!forced && plan->stage_count < LCE_MOST_STAGES - 1)
                consider_lent(plan, shape, begin, n, &best);
            consider_slabs(plan, shape, begin, n, room, &best);
            if (forced || n == 1)
                break;
        }
        if (best.each < 0)
            return false;
        plan->stages[plan->stage_count++] = best.stage;
        plan->rest_seconds += best.seconds;
        plan->rest_size = lay_out(plan, best.stage.block, best.stage.columns, false, &l); /* the last's */
        begin = best.stage.end;
    }
    return true;
}

/* ---- the chunk ---- */

/* Sets what belongs to chunks of N tokens; returns their seconds, or a negative number if they do not fit, or
 * if even the best stages would make them slower than BEFORE. */
static double try_chunk(struct cuda_plan *plan, const struct lce_slab_shape *shape, int64_t n,
                        uint64_t budget, double before)
{
    const uint32_t proposals = (uint32_t)plan->base.problem.proposals;
    struct cuda_layout l;
    plan->borrowed = cuda_borrowed(plan, n, &l);
    plan->logits_in = plan->sums_in = plan->borrowed > 0 ? IN_DWEIGHT : IN_WORKSPACE;
    plan->rest_size = 0;
    if (!plan->borrowed)
        return -1;
    const double chunks = lce_borrow_seconds(shape, n, plan->borrowed);
    if (chunks + lce_again_seconds(shape, plan->rows, plan->borrowed, plan->borrowed) >= before)
        return -1;
    const uint64_t size = cuda_size_with(plan, n);
    uint64_t room = size < budget ? budget - size : 0;
    if (proposals >> 15 & 1 && !(proposals >> 16)) /* for tests: as many stages as there can be */
        room = lay_out(plan, n, LCE_SLAB_UNIT, false, &l);
    if (!choose_stages(plan, shape, n, room) || cuda_size_with(plan, n) > budget)
        return -1;
    return chunks + plan->rest_seconds;
}

bool cuda_borrow_choose(struct cuda_plan *plan, const struct lce_slab_shape *shape, int64_t *chunk,
                        bool given, uint64_t budget, double before)
{
    const int64_t first = given ? *chunk : plan->rows < MOST_CHUNK ? plan->rows : MOST_CHUNK;
    int64_t best = 0;
    for (int64_t n = first; n >= 1 && (n == first || (!given && n >= LEAST_CHUNK)); n = next_below(n)) {
        const double seconds = try_chunk(plan, shape, n, budget, before);
        if (seconds >= 0 && seconds < before) {
            before = seconds;
            best = n;
        }
        if (n == 1)
            break;
    }
    if (best) {
        try_chunk(plan, shape, best, budget, 1e30);
        *chunk = best;
        return true;
    }
    plan->borrowed = plan->stage_count = 0;
    plan->logits_in = plan->sums_in = IN_WORKSPACE;
    return false;
}

void cuda_borrow_rest(const struct cuda_plan *plan, int stage, struct cuda_plan *rest)
{
    const struct cuda_stage *s = &plan->stages[stage];
    const bool last = s->end == plan->base.problem.vocab;
    *rest = *plan;
    rest->borrowed = 0;
    rest->begin = s->begin;
    rest->end = s->end;
    rest->tail = last ? plan->tail : 0;
    rest->chunk = s->block;
    rest->last = (plan->rows - 1) % s->block + 1;
    rest->columns = s->columns;
    rest->stride = cuda_round_up(s->columns, LCE_SLAB_UNIT);
    rest->g_stride = rest->stride * (plan->g_stride / plan->stride);
    rest->logits_in = s->lent ? IN_DWEIGHT : IN_WORKSPACE;
    rest->base.problem.wants = LCE_WANT_GRAD_WEIGHT;
    rest->rest = NULL;
    if (s->lent) {
        lay_out_lent(rest, s->block, rest->stride, false, &rest->layout);
        return;
    }
    lay_out(rest, s->block, rest->stride, false, &rest->layout);
    rest->layout.logits += plan->layout.rest_logits;
    rest->layout.rows += plan->layout.rest_logits;
}
