/*
 * borrow.c - lets dweight's buffer hold a chunk's logits during the run, so that the workspace can be small.
 *
 * A row of dweight means nothing before its first sums are written.  So while chunks are under way, the rows
 * of the last classes of the vocabulary are *borrowed*:
 *
 *     dweight:  | rows that each chunk adds to | borrowed: logits of the chunk under way |
 *
 * Each chunk makes dweight without the borrowed classes.  When all chunks are done, *stages* make theirs.  A
 * stage takes some of these classes and computes their logits again, for many tokens at a time.  The sums of
 * each row were kept, so the logits become g, and g makes dweight.  The stage's logits lie in rows of classes
 * that are still to come; those of the last stage lie in the workspace, by slabs:
 *
 *     dweight:  | done | rows of this stage's classes | its logits |
 *
 * The price is a fourth product for the borrowed share of the vocabulary, which is chunk / H where both have
 * 16 bits.  Slabs alone (slab.c) pay it for the whole vocabulary.
 *
 * With our own products in bf16 the rows hold odds instead of logits, and the product of a stage's logits
 * stores g itself (odds.cuh).
 */
#include "cuda.h"

enum {
    MOST_CHUNK = 2048,
    LEAST_CHUNK = 64,
    MOST_SHORTEST = 2048, /* the blocks that the shortest of our stages may have */
    MOST_REST = 1 << 23   /* logits of a slab in the workspace: wider slabs gain next to nothing */
};

bool cuda_may_borrow(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const bool accumulated = p->flags & LCE_F32_ACCUMULATE && p->grad_weight_dtype != LCE_F32;
    return !lce_in_parts(p) && p->wants & LCE_WANT_GRAD_WEIGHT && p->grad_weight_beta == 0 &&
           p->grad_weight_stride == p->hidden && !accumulated && plan->rows > 0;
}

/* ---- where things lie ---- */

static size_t row_size(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    return (size_t)p->hidden * lce_dtype_size(p->grad_weight_dtype);
}

/* Moves the gathered rows, and what odds have beside them. */
static void move_rows(struct cuda_layout *l, size_t offset)
{
    size_t *const parts[] = {&l->rows, &l->tiles, &l->targets, &l->references, &l->factors};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        *parts[i] += offset;
}

/* The first of the last NEED bytes of the rows of dweight; 0 if there are fewer. */
static size_t lent_from(const struct cuda_plan *plan, size_t need)
{
    const size_t all = (size_t)plan->base.problem.vocab * row_size(plan);
    return need < all ? (all - need) / 256 * 256 : 0;
}

static void lay_out_rows(const struct cuda_plan *plan, int64_t n, struct cuda_layout *l, size_t *total)
{
    const struct lce_problem *p = &plan->base.problem;
    l->rows = lce_part(total, plan->compacts ? (size_t)(n * p->hidden) : 0, lce_dtype_size(p->dtype));
}

/* Puts what a stage has, for N tokens and STRIDE classes, one after the other; returns its bytes. */
static size_t lay_out_stage(const struct cuda_plan *plan, int64_t n, int64_t stride, struct cuda_layout *l)
{
    size_t total = 0;
    l->logits = lce_part(&total, (size_t)(n * stride), cuda_logit_size(plan));
    lay_out_rows(plan, n, l, &total);
    return total;
}

/* Puts what a chunk of N tokens has into the last rows of dweight, but what lies in the workspace: from
 * rest_logits on, where the last stage's logits lie later.  Returns the first byte of dweight, 0 if there are
 * too few; *HERE gets the bytes in the workspace. */
static size_t lay_out_chunk(const struct cuda_plan *plan, int64_t n, struct cuda_layout *l, size_t *here)
{
    const struct lce_problem *p = &plan->base.problem;
    size_t used[] = {[IN_WORKSPACE] = 0, [IN_DWEIGHT] = 0};
    l->logits = lce_part(&used[IN_DWEIGHT], (size_t)(n * plan->stride), cuda_logit_size(plan));
    l->dinput =
        lce_part(&used[IN_DWEIGHT], cuda_sums_dinput(plan) ? (size_t)(n * p->hidden) : 0, sizeof(float));
    lay_out_rows(plan, n, l, &used[plan->rows_in]);
    cuda_exponents_lay_out(plan, n, plan->lends_odds ? cuda_tiles_of(plan->stride) : 0, l,
                           &used[plan->rows_in]);
    l->parts = lce_part(&used[IN_WORKSPACE], cuda_lent_parts(plan, n), 1);
    const size_t from = lent_from(plan, used[IN_DWEIGHT]),
                 first[] = {[IN_WORKSPACE] = l->rest_logits, [IN_DWEIGHT] = from};
    l->logits += from;
    l->dinput += from;
    move_rows(l, first[plan->rows_in]);
    l->parts += l->rest_logits;
    *here = used[IN_WORKSPACE];
    return from;
}

int64_t cuda_borrowed(const struct cuda_plan *plan, int64_t chunk, struct cuda_layout *layout)
{
    const int64_t vocab = plan->base.problem.vocab;
    size_t here;
    const size_t offset = lay_out_chunk(plan, chunk, layout, &here);
    const int64_t head = (int64_t)(offset / row_size(plan)) / LCE_SLAB_UNIT * LCE_SLAB_UNIT;
    return head >= vocab / 4 && head > 0 ? vocab - head : 0;
}

/* The bytes of a chunk in the workspace. */
static size_t chunk_here(const struct cuda_plan *plan, int64_t n)
{
    struct cuda_layout l = {.rest_logits = 0};
    size_t here;
    lay_out_chunk(plan, n, &l, &here);
    return here;
}

/* ---- estimates ---- */

/* What the estimates need to know of the problem; whose products they are of. */
struct estimates {
    const struct lce_slab_shape *theirs;
    const struct lce_chunk_shape *ours; /* NULL: they are cuBLASLt's */
};

/* The shape for our products, where the plan borrows rows for CHUNK tokens. */
static struct lce_chunk_shape own_shape(const struct cuda_plan *plan, const struct estimates *e,
                                        int64_t chunk)
{
    struct lce_chunk_shape shape = *e->ours;
    shape.exponents = shape.odds = plan->lends_odds;
    shape.borrowed = plan->borrowed;
    shape.room = 1 + (int64_t)(cuda_lent_parts(plan, chunk) / LCE_PART_SIZE);
    return shape;
}

/* Seconds of all chunks, without the dweight of the borrowed classes. */
static double chunks_seconds(const struct cuda_plan *plan, const struct estimates *e, int64_t chunk)
{
    if (!e->ours)
        return lce_borrow_seconds(e->theirs, chunk, plan->borrowed);
    const struct lce_chunk_shape shape = own_shape(plan, e, chunk);
    return lce_own_seconds(&shape, chunk);
}

/* Seconds of the dweight of CLASSES of these. */
static double again_seconds(const struct cuda_plan *plan, const struct estimates *e, int64_t block,
                            int64_t classes, int64_t columns)
{
    if (!e->ours)
        return lce_again_seconds(e->theirs, block, classes, columns);
    const struct lce_chunk_shape shape = own_shape(plan, e, block);
    return lce_own_again_seconds(&shape, block, classes, columns);
}

/* ---- the stages ---- */

/* The next block to try for a stage, shorter than N tokens.  Our products get blocks that cut all tokens into
 * equal parts of whole tiles, down to 1024 tokens.  Below that, and with cuBLASLt, it is lce_next_below. */
static int64_t next_block(const struct cuda_plan *plan, int64_t n)
{
    const int64_t tile = 2 * LCE_TILE_M, least = 1024, most_parts = 8;
    int64_t even = n;
    for (int64_t count = plan->rows / n + 1; plan->own && even >= n && n > least && count <= most_parts;
         count++)
        even = cuda_round_up((plan->rows + count - 1) / count, tile);
    return even < n && even >= least ? even : lce_next_below(n);
}

static int64_t least_block(int64_t chunk)
{
    return chunk < LEAST_CHUNK ? chunk : LEAST_CHUNK;
}

struct choice { /* of a stage */
    struct cuda_stage stage;
    double seconds, each; /* of a class; each < 0: none yet */
};

static void consider(const struct cuda_plan *plan, const struct estimates *e, struct cuda_stage stage,
                     struct choice *best)
{
    const int64_t classes = stage.end - stage.begin;
    const double seconds = again_seconds(plan, e, stage.block, classes, stage.columns),
                 each = seconds / (double)classes;
    if (best->each < 0 || each < best->each)
        *best = (struct choice){stage, seconds, each};
}

/* The bytes of a stage's block of N tokens: without logits; and of the logits of LCE_SLAB_UNIT classes. */
static size_t fixed_size(const struct cuda_plan *plan, int64_t n)
{
    struct cuda_layout l;
    return lay_out_stage(plan, n, 0, &l);
}
static size_t varying_size(const struct cuda_plan *plan, int64_t n)
{
    return (size_t)(n * LCE_SLAB_UNIT) * cuda_logit_size(plan);
}

/* Considers a stage from class BEGIN on, of N tokens at a time, with logits in later rows of dweight. */
static void consider_lent(const struct cuda_plan *plan, const struct estimates *e, int64_t begin, int64_t n,
                          struct choice *best)
{
    const int64_t left = plan->base.problem.vocab - begin, unit = LCE_SLAB_UNIT;
    const size_t row = row_size(plan), fixed = fixed_size(plan, n) + 512, /* for rounding */
        each = varying_size(plan, n) + (size_t)unit * row, rows = (size_t)left * row;
    const int64_t fit = rows > fixed ? (int64_t)((rows - fixed) / each) * unit : 0;
    if (fit > 0 && fit < left)
        consider(plan, e, (struct cuda_stage){begin, begin + fit, fit, n, true}, best);
}

/* Considers a last stage, of all classes from BEGIN on, with logits in ROOM bytes of the workspace. */
static void consider_slabs(const struct cuda_plan *plan, const struct estimates *e, int64_t begin, int64_t n,
                           uint64_t room, struct choice *best)
{
    const struct lce_problem *p = &plan->base.problem;
    const int64_t unit = LCE_SLAB_UNIT, forced = (int64_t)(p->proposals >> 16) * unit,
                  left = p->vocab - begin;
    const size_t fixed = fixed_size(plan, n), each = varying_size(plan, n);
    int64_t most = room > fixed ? (int64_t)((room / 256 * 256 - fixed) / each) * unit : 0;
    if (most > unit && most > MOST_REST / n)
        most = MOST_REST / n > unit ? MOST_REST / n / unit * unit : unit;
    if (forced)
        most = forced;
    if (most <= 0)
        return;
    const int64_t count = (left + most - 1) / most;
    const int64_t columns = cuda_round_up((left + count - 1) / count, unit); /* at most MOST, a multiple */
    consider(plan, e, (struct cuda_stage){begin, p->vocab, columns, n, false}, best);
}

/* Sets the stages of the borrowed classes, one after the other, each the one that takes the least time for a
 * class, and the bytes that they need in the workspace, at most ROOM.  Stages with logits in dweight take at
 * least SHORTEST tokens at a time.  False if all stages take BEFORE seconds or more, or if one does not fit.
 */
static bool set_stages(struct cuda_plan *plan, const struct estimates *e, int64_t chunk, uint64_t room,
                       int64_t shortest, double before)
{
    const int64_t vocab = plan->base.problem.vocab, least = least_block(chunk);
    const bool forced = plan->base.problem.proposals >> 16; /* slabs, in blocks of the chunk's size */
    struct cuda_layout l;
    plan->stage_count = 0;
    plan->rest_seconds = 0;
    for (int64_t begin = vocab - plan->borrowed; begin < vocab;) {
        struct choice best = {.each = -1};
        for (int64_t n = forced ? chunk : plan->rows; n >= least && n > 0; n = next_block(plan, n)) {
            if (!forced && n >= shortest && plan->stage_count < LCE_MOST_STAGES - 1)
                consider_lent(plan, e, begin, n, &best);
            consider_slabs(plan, e, begin, n, room, &best);
            if (forced || n == 1)
                break;
        }
        plan->rest_seconds += best.seconds;
        if (best.each < 0 || plan->rest_seconds >= before)
            return false;
        plan->stages[plan->stage_count++] = best.stage;
        plan->rest_size = lay_out_stage(plan, best.stage.block, best.stage.columns, &l); /* the last's */
        begin = best.stage.end;
    }
    return true;
}

/* The fastest stages.  The block that is the fastest in a stage may make the stages after it slower.  So with
 * our products, whose short blocks are dear, stages are set with several values of SHORTEST, and the fastest
 * are kept. */
static bool choose_stages(struct cuda_plan *plan, const struct estimates *e, int64_t chunk, uint64_t room)
{
    const int64_t most = plan->rows < MOST_SHORTEST ? plan->rows : MOST_SHORTEST;
    int64_t best = 0;
    double least = 1e30;
    for (int64_t n = most; e->ours && n >= least_block(chunk) && n > 1; n = lce_next_below(n))
        if (set_stages(plan, e, chunk, room, n, least)) {
            least = plan->rest_seconds;
            best = n;
        }
    return set_stages(plan, e, chunk, room, best, 1e30);
}

/* ---- the chunk ---- */

/* Sets what belongs to chunks of N tokens; returns the seconds of chunks and stages, or a negative number if
 * they do not fit, or if even the best stages would make them slower than BEFORE. */
static double try_chunk(struct cuda_plan *plan, const struct estimates *e, int64_t n, uint64_t budget,
                        double before)
{
    const uint32_t proposals = (uint32_t)plan->base.problem.proposals;
    const bool most =
        proposals >> 15 & 1 && !(proposals >> 16); /* for tests: as many stages as there can be */
    struct cuda_layout l = {.rest_logits = 0};
    plan->logits_in = plan->sums_in = IN_DWEIGHT;
    plan->rows_in = plan->own ? IN_WORKSPACE : IN_DWEIGHT;
    plan->rest_size = 0;
    plan->borrowed = 1; /* the size of what is in the workspace does not depend on how many they are */
    const uint64_t size = cuda_size_with(plan, n);
    uint64_t room = size < budget ? budget - size : 0;
    if (most)
        room = (uint64_t)cuda_round_up((int64_t)(fixed_size(plan, n) + varying_size(plan, n)), 256);
    plan->borrowed = cuda_borrowed(plan, n, &l);
    if (!plan->borrowed)
        return -1;
    const double chunks = chunks_seconds(plan, e, n);
    if (chunks + again_seconds(plan, e, plan->rows, plan->borrowed, plan->borrowed) >= before)
        return -1;
    if (!choose_stages(plan, e, n, room))
        return -1;
    const size_t here = chunk_here(plan, n);
    plan->rest_size = here > plan->rest_size ? here : plan->rest_size;
    if (cuda_size_with(plan, n) > budget)
        return -1;
    return chunks + plan->rest_seconds;
}

struct search {
    int64_t chunk; /* 0: none */
    double seconds;
};

/* The fastest chunk, if that is faster than BEFORE. */
static struct search best_chunk(struct cuda_plan *plan, const struct estimates *e, int64_t chunk, bool given,
                                uint64_t budget, double before)
{
    const int64_t first = given ? chunk : plan->rows < MOST_CHUNK ? plan->rows : MOST_CHUNK;
    struct search best = {0, before};
    for (int64_t n = first; n >= 1 && (n == first || (!given && n >= LEAST_CHUNK)); n = lce_next_below(n)) {
        const double seconds = try_chunk(plan, e, n, budget, best.seconds);
        if (seconds >= 0 && seconds < best.seconds)
            best = (struct search){n, seconds};
        if (n == 1)
            break;
    }
    return best;
}

/* Gradients are more exact with odds than with logits, so odds may take so much longer. */
static const double odds_worth = 1.03;

/* Sets what belongs to the fastest chunk, with odds or without; returns that chunk, 0 if none is faster than
 * BEFORE. */
static int64_t choose_chunk(struct cuda_plan *plan, const struct estimates *e, int64_t chunk, bool given,
                            uint64_t budget, double before)
{
    struct search best = best_chunk(plan, e, chunk, given, budget, before);
    if (e->ours && plan->odds) {
        const double longer = best.seconds * odds_worth, most = longer < before ? longer : before;
        plan->lends_odds = true;
        const struct search odds = best_chunk(plan, e, chunk, given, budget, most);
        plan->lends_odds = odds.chunk > 0;
        best = odds.chunk ? odds : best;
    }
    if (best.chunk)
        try_chunk(plan, e, best.chunk, budget, 1e30);
    return best.chunk;
}

bool cuda_borrow_choose(struct cuda_plan *plan, const struct lce_slab_shape *shape,
                        const struct lce_chunk_shape *own, int64_t *chunk, bool given, uint64_t budget,
                        double before)
{
    const struct estimates e = {shape, own};
    const int64_t found = choose_chunk(plan, &e, *chunk, given, budget, before);
    if (found) {
        *chunk = found;
        return true;
    }
    plan->borrowed = plan->stage_count = 0;
    plan->logits_in = plan->sums_in = plan->rows_in = IN_WORKSPACE;
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
    rest->logits_in = rest->rows_in = s->lent ? IN_DWEIGHT : IN_WORKSPACE;
    rest->base.problem.wants = LCE_WANT_GRAD_WEIGHT;
    rest->rest = NULL;
    const size_t size = lay_out_stage(rest, s->block, rest->stride, &rest->layout),
                 from = s->lent ? lent_from(rest, size) : plan->layout.rest_logits;
    rest->layout.logits += from;
    move_rows(&rest->layout, from);
}
