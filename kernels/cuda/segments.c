/*
 * segments.c - keeps logits in the caller's buffer for dinput, whose rows are written one block at a time.
 *
 * Until a token's dinput is computed the contents of its row do not matter.  So where dweight's rows cannot
 * be borrowed (borrow.c), as they are added to, the rows of the tokens that come later hold the logits, and
 * the sums of dinput:
 *
 *     dinput:  | done ..... | the block under way | later tokens: logits ............... | sums of dinput |
 *
 * There is less and less of that memory towards the end.  So tokens are taken in segments, each with blocks
 * and slabs of its own, which are the fastest that fit: with many tokens the first segments have whole rows
 * and three products, the others slabs and four.  A block's sums are rounded into its rows when its logits
 * are no longer needed; so if there are sums, logits may lie in the block's own rows, too.  What does not fit
 * into dinput lies in the workspace.
 */
#include "cuda.h"
#include "slab.h"

enum {
    MOST_BLOCK = 4096,
    SHARE = 6 /* a segment leaves at most one part in so many of dinput's free rows unused */
};

bool cuda_may_segment(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    return !plan->compacts && /* which takes rows of dinput out of their order */
           !lce_in_parts(p) && plan->base.info.mode != LCE_NAIVE && plan->rows > 1 &&
           p->wants & LCE_WANT_GRAD_INPUT && p->grad_input_stride == p->hidden && !cuda_may_borrow(plan);
}

/* Lays out what belongs to a block of the segment, from offset BEGIN of the workspace on; returns the end of
 * that, or SIZE_MAX if dinput has too little room.  The plan's columns are set. */
static size_t place(struct cuda_plan *s, size_t begin)
{
    const struct lce_problem *p = &s->base.problem;
    struct cuda_layout *l = &s->layout;
    const size_t row = (size_t)p->hidden * lce_dtype_size(p->dtype), all = (size_t)p->tokens * row,
                 n = (size_t)s->chunk, logits = n * (size_t)s->stride * cuda_logit_size(s),
                 sums = cuda_sums_dinput(s) ? n * (size_t)p->hidden * sizeof(float) : 0;
    /* without sums the product writes the block's own rows while it reads its logits */
    const size_t free = ((size_t)s->rows - (sums ? n : 0)) * row;
    size_t total = begin, end = all;
    l->known = lce_part(&total, cuda_sliced(s) ? n : 0, sizeof(struct lce_slab_row));
    if (s->sums_in == IN_DINPUT && sums > 0) {
        if (all < sums)
            return SIZE_MAX;
        l->dinput = end = (all - sums) / 256 * 256;
        if (end < (size_t)s->rows * row)
            return SIZE_MAX;
    } else {
        l->dinput = lce_part(&total, sums, 1);
    }
    if (s->logits_in == IN_DINPUT) {
        l->logits = (free + 255) / 256 * 256;
        return l->logits + logits <= end ? total : SIZE_MAX;
    }
    l->logits = lce_part(&total, logits, 1);
    return total;
}

static void set_columns(struct cuda_plan *s, int64_t columns)
{
    const int64_t wide = s->g_stride / s->stride;
    s->columns = columns < s->base.problem.vocab ? columns : s->base.problem.vocab;
    s->stride = cuda_round_up(s->columns, LCE_SLAB_UNIT);
    s->g_stride = s->stride * wide;
}

/* The next number below: powers of two, and halves more. */
static int64_t next_below(int64_t count)
{
    int64_t power = 1;
    while (2 * power < count)
        power *= 2;
    return power > 1 && power / 2 * 3 < count ? power / 2 * 3 : power;
}

struct search {
    const struct lce_slab_shape *shape;
    struct cuda_plan *plan; /* a copy, for trying */
    size_t begin, end;      /* the segment's part of the workspace */
    int64_t forced;         /* classes of a slab, or 0 */
    struct cuda_segment best;
    double seconds, each; /* of the best, of a token of it; each < 0: none yet */
};

static bool fits(struct search *s, int64_t columns)
{
    set_columns(s->plan, columns);
    return place(s->plan, s->begin) <= s->end;
}

static void consider(struct search *s, int64_t columns)
{
    struct cuda_plan *p = s->plan;
    if (columns <= 0 || !fits(s, columns))
        return;
    const double blocks = (double)((p->rows - p->from) / p->chunk),
                 seconds = blocks * lce_block_seconds(s->shape, p->chunk, p->columns),
                 each = seconds / (double)(p->rows - p->from);
    if (s->each >= 0 && each >= s->each)
        return;
    s->best = (struct cuda_segment){p->from, p->rows, p->chunk, p->columns, p->logits_in, p->sums_in};
    s->seconds = seconds;
    s->each = each;
}

/* Considers the widest slab for the plan's block, and slabs of equal width. */
static void consider_widths(struct search *s)
{
    const int64_t unit = LCE_SLAB_UNIT, vocab = s->plan->base.problem.vocab;
    int64_t low = 0, high = (vocab + unit - 1) / unit;
    if (s->forced) {
        consider(s, s->forced);
        return;
    }
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        if (fits(s, middle * unit))
            low = middle;
        else
            high = middle - 1;
    }
    if (low == 0)
        return;
    const int64_t most = low * unit, count = (vocab + most - 1) / most;
    consider(s, most);
    consider(s, cuda_round_up((vocab + count - 1) / count, unit));
    consider(s, next_below(most) / unit * unit);
}

/* Finds the fastest segment for the tokens from FIRST on. */
static void next_segment(struct search *s, int64_t first, int64_t given)
{
    static const enum cuda_place places[3][2] = {
        {IN_DINPUT, IN_DINPUT}, {IN_DINPUT, IN_WORKSPACE}, {IN_WORKSPACE, IN_WORKSPACE}};
    const int64_t left = s->shape->tokens - first, most = given ? given : MOST_BLOCK;
    s->each = -1;
    for (int64_t n = left < most ? left : most; n >= 1; n = next_below(n)) {
        const int64_t many = 1 + left / SHARE / n, blocks = many < left / n ? many : left / n;
        for (int i = 0; i < 3; i++) {
            s->plan->from = first;
            s->plan->rows = first + blocks * n;
            s->plan->chunk = s->plan->last = n;
            s->plan->logits_in = places[i][0];
            s->plan->sums_in = places[i][1];
            consider_widths(s);
        }
        if (given || n == 1 || (s->each >= 0 && 8 * n < s->best.block))
            break;
    }
}

/* Sets the segments; returns their seconds, or a negative number if there are none. */
static double choose(struct cuda_plan *plan, struct search *s, int64_t given)
{
    double seconds = 0;
    plan->segment_count = 0;
    plan->rest_size = 0;
    for (int64_t first = 0; first < s->shape->tokens; first = s->best.end) {
        if (plan->segment_count == LCE_MOST_SEGMENTS)
            return -1;
        next_segment(s, first, given);
        if (s->each < 0)
            return -1;
        plan->segments[plan->segment_count++] = s->best;
        seconds += s->seconds;
        cuda_segment(plan, plan->segment_count - 1, s->plan);
        const size_t size = place(s->plan, s->begin) - s->begin;
        plan->rest_size = size > plan->rest_size ? size : plan->rest_size;
    }
    return seconds;
}

bool cuda_segments_choose(struct cuda_plan *plan, const struct lce_slab_shape *shape, int64_t *chunk,
                          bool given, uint64_t budget, double before)
{
    const uint32_t proposals = (uint32_t)plan->base.problem.proposals;
    struct cuda_plan trial = *plan;
    trial.segment_count = 1; /* what belongs to a block is not in the size */
    trial.rest_size = 0;
    const size_t size = cuda_size_with(&trial, 1);
    struct search s = {.shape = shape,
                       .plan = &trial,
                       .begin = size,
                       .end = budget,
                       .forced = (int64_t)(proposals >> 16) * LCE_SLAB_UNIT};
    if (size >= budget)
        return false;
    if (proposals >> 15 & 1 && !s.forced) { /* for tests: as much in dinput as can be */
        trial.chunk = given ? *chunk : 64;
        trial.logits_in = trial.sums_in = IN_WORKSPACE;
        set_columns(&trial, LCE_SLAB_UNIT);
        s.end = place(&trial, size);
    }
    plan->rest_seconds = choose(plan, &s, given ? *chunk : 0);
    if (plan->rest_seconds < 0 || plan->rest_seconds >= before) {
        plan->segment_count = 0;
        return false;
    }
    *chunk = plan->segments[0].block;
    plan->columns = plan->segments[0].columns;
    plan->stride = cuda_round_up(plan->columns, LCE_SLAB_UNIT);
    plan->g_stride = plan->stride * (trial.g_stride / trial.stride);
    return true;
}

int32_t cuda_segment_blocks(const struct cuda_plan *plan)
{
    int64_t blocks = 0;
    for (int i = 0; i < plan->segment_count; i++)
        blocks += (plan->segments[i].end - plan->segments[i].begin) / plan->segments[i].block;
    return (int32_t)blocks;
}

void cuda_segment(const struct cuda_plan *plan, int index, struct cuda_plan *segment)
{
    const struct cuda_segment *s = &plan->segments[index];
    *segment = *plan;
    segment->segment_count = 0;
    segment->from = s->begin;
    segment->rows = s->end;
    segment->chunk = segment->last = s->block;
    segment->logits_in = s->logits_in;
    segment->sums_in = s->sums_in;
    segment->rest = NULL;
    set_columns(segment, s->columns);
    place(segment, plan->layout.rest_logits);
}
