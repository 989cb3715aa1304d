/*
 * segments.c - lets dinput's buffer hold logits during the run, where dweight's cannot (borrow.c).
 *
 * A token's row of dinput means nothing before its block is computed.  So the rows of later tokens hold the
 * block's logits, and the fp32 sums of its dinput where that is summed over slabs of classes:
 *
 *     dinput:  | done | rows of the block | later tokens: logits ........ | sums of dinput |
 *
 * That room shrinks towards the end.  So tokens are cut into *segments*, each with its own sizes of block and
 * slab, the fastest that fit.  If there are many tokens the first segments have whole rows (three products),
 * the others slabs (four).  What does not fit into dinput lies in the workspace.
 *
 * Our own products make dinput of the counted tokens one after the other in the first rows of the buffer, as
 * only the device knows where they belong; cuda_expand moves them at the end.  Their segments always have
 * slabs.
 */
#include "cuda.h"

enum {
    SHARE = 6 /* a segment leaves at most one part in so many of dinput's free rows unused */
};

bool cuda_may_segment(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const bool ordered = !plan->compacts || plan->own; /* cuBLASLt's need dinput's rows where they belong */
    return ordered && !lce_in_parts(p) && plan->rows > 1 && p->wants & LCE_WANT_GRAD_INPUT &&
           p->grad_input_stride == p->hidden && !cuda_may_borrow(plan);
}

/* Lays out what lies beside a block's odds, and where its gathered rows are. */
static void place_rows(struct cuda_plan *s, size_t row, size_t *total)
{
    struct cuda_layout *l = &s->layout;
    cuda_exponents_lay_out(s, s->chunk, cuda_exponents_tiles(s), l, total);
    l->rows = (size_t)s->from * row;
    l->next_rows = (size_t)s->chunk * row;
}

/* Lays out a block of which dweight alone is made: its gathered rows, and its gradient of a slab. */
static size_t place_dweight(struct cuda_plan *s, size_t begin)
{
    const struct lce_problem *p = &s->base.problem;
    struct cuda_layout *l = &s->layout;
    const size_t row = (size_t)p->hidden * lce_dtype_size(p->dtype), n = (size_t)s->chunk,
                 all = (size_t)p->tokens * row;
    size_t used[] = {[IN_WORKSPACE] = begin, [IN_DINPUT] = ((size_t)s->rows * row + 255) / 256 * 256};
    l->rows = lce_part(&used[s->rows_in], n, row);
    l->logits = lce_part(&used[s->logits_in], n * (size_t)s->stride, cuda_logit_size(s));
    l->next_rows = 0;
    const bool lent = s->rows_in == IN_DINPUT || s->logits_in == IN_DINPUT;
    return lent && used[IN_DINPUT] > all ? SIZE_MAX : used[IN_WORKSPACE];
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
    const size_t free = ((size_t)s->rows - (sums && !s->in_place ? n : 0)) * row;
    size_t total = begin, end = all;
    if (s->pass == DWEIGHT_PASS)
        return place_dweight(s, begin);
    if (s->in_place)
        place_rows(s, row, &total);
    if (!s->two_passes)
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

struct search {
    const struct lce_slab_shape *shape;
    const struct lce_chunk_shape *own; /* NULL: products are cuBLASLt's */
    struct cuda_plan *plan;            /* a copy, for trying */
    size_t begin, end;                 /* the segment's part of the workspace */
    int64_t forced;                    /* classes of a slab, or 0 */
    int64_t rounds;                    /* tiles of all rounds that were considered for the block */
    struct cuda_segment best;
    double seconds, each; /* of the best, of a token of it; each < 0: none yet */
};

static bool fits(struct search *s, int64_t columns)
{
    cuda_slice(s->plan, columns);
    return place(s->plan, s->begin) <= s->end;
}

static double block_seconds(const struct search *s, int64_t block)
{
    const int64_t columns = s->plan->columns;
    if (!s->own)
        return lce_block_seconds(s->shape, block, columns);
    return s->plan->pass == DINPUT_PASS    ? lce_own_dinput_seconds(s->own, block, columns)
           : s->plan->pass == DWEIGHT_PASS ? lce_own_dweight_seconds(s->own, block, columns)
                                           : lce_own_block_seconds(s->own, block, columns);
}

static void consider(struct search *s, int64_t columns)
{
    struct cuda_plan *p = s->plan;
    if (columns <= 0 || (s->own && columns >= p->base.problem.vocab) || !fits(s, columns))
        return;
    const int64_t tokens = p->rows - p->from, tail = tokens % p->chunk;
    const double seconds = (double)(tokens / p->chunk) * block_seconds(s, p->chunk) +
                           (tail ? block_seconds(s, tail) : 0),
                 each = seconds / (double)tokens;
    if (s->each >= 0 && each >= s->each)
        return;
    s->best = (struct cuda_segment){p->from, p->rows,      p->chunk,   p->columns,
                                    p->pass, p->logits_in, p->sums_in, p->rows_in};
    s->seconds = seconds;
    s->each = each;
}

/* Considers slabs of at most MOST classes whose logits are whole rounds of our product's tiles.  Those that
 * were considered for this block before, with its parts in other places, would take the same time. */
static void consider_rounds(struct search *s, int64_t most)
{
    const int64_t clusters = cuda_of(s->plan)->processors / 2, height = 2 * LCE_TILE_M,
                  rows = (s->plan->chunk + height - 1) / height;
    for (; (s->rounds + clusters) / rows * LCE_TILE_CLASSES <= most; s->rounds += clusters)
        consider(s, (s->rounds + clusters) / rows * LCE_TILE_CLASSES);
}

/* Considers the widest slab for the plan's block, and slabs of equal width.  Those of ours are narrower than
 * the vocabulary. */
static void consider_widths(struct search *s)
{
    const int64_t unit = LCE_SLAB_UNIT, vocab = s->plan->base.problem.vocab;
    int64_t low = 0, high = s->own ? (vocab - 1) / unit : (vocab + unit - 1) / unit;
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
    consider(s, lce_next_below(most) / unit * unit);
    if (s->own)
        consider_rounds(s, most);
}

/* The next block below that of N tokens: of ours whole tiles, as far as there are some. */
static int64_t next_block(const struct search *s, int64_t n)
{
    const int64_t height = 2 * LCE_TILE_M;
    if (!s->own || n <= height)
        return lce_next_below(n);
    return (n - 1) / height * height;
}

/* Finds the fastest segment for the tokens from FIRST on, before END. */
static void next_segment(struct search *s, int64_t first, int64_t end, int64_t given)
{
    static const enum cuda_place places[4][2] = {{IN_DINPUT, IN_DINPUT},
                                                 {IN_DINPUT, IN_WORKSPACE},
                                                 {IN_WORKSPACE, IN_WORKSPACE},
                                                 {IN_WORKSPACE, IN_DINPUT}};
    const int64_t left = end - first,
                  most = given && (!s->own || given < LCE_MOST_BLOCK) ? given : LCE_MOST_BLOCK;
    s->each = -1;
    s->plan->pass = s->plan->two_passes ? DINPUT_PASS : BOTH_GRADIENTS;
    s->plan->rows_in = s->own ? IN_DINPUT : IN_WORKSPACE;
    for (int64_t n = left < most ? left : most; n >= 1; n = next_block(s, n)) {
        const int64_t many = 1 + left / SHARE / n, blocks = many < left / n ? many : left / n;
        s->rounds = 0;
        for (int i = 0; i < 4; i++) {
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

/* Finds the fastest segment that makes the dweight of the tokens from FIRST to END. */
static void next_dweight(struct search *s, int64_t first, int64_t end, int64_t given)
{
    static const enum cuda_place places[4][2] = {{IN_DINPUT, IN_WORKSPACE},
                                                 {IN_DINPUT, IN_DINPUT},
                                                 {IN_WORKSPACE, IN_DINPUT},
                                                 {IN_WORKSPACE, IN_WORKSPACE}};
    s->each = -1;
    s->plan->pass = DWEIGHT_PASS;
    s->plan->from = first;
    s->plan->rows = end;
    for (int64_t n = given ? given : end - first; n >= 1; n = next_block(s, n)) {
        s->rounds = 0;
        for (int i = 0; i < 4; i++) {
            s->plan->chunk = s->plan->last = n;
            s->plan->rows_in = places[i][0];
            s->plan->logits_in = places[i][1];
            consider_widths(s);
        }
        if (given || n == 1 || (s->each >= 0 && 2 * n < s->best.block))
            break;
    }
}

/* Adds the segment that was found to the plan; returns its seconds, or a negative number if there was none,
 * or has no room. */
static double add(struct cuda_plan *plan, struct search *s)
{
    if (s->each < 0 || plan->segment_count == LCE_MOST_SEGMENTS)
        return -1;
    plan->segments[plan->segment_count++] = s->best;
    cuda_segment(plan, plan->segment_count - 1, s->plan);
    const size_t size = place(s->plan, s->begin) - s->begin;
    plan->rest_size = size > plan->rest_size ? size : plan->rest_size;
    return s->seconds;
}

/* Adds segments for the tokens from FIRST to END, with odds: several that make dinput, then one that makes
 * the dweight of all these tokens, so that dweight is read and written less often.  Returns their seconds, or
 * a negative number.
 *
 *     dinput:  | done | dinput of these blocks ... | later tokens: odds ............. | sums of dinput |
 *              | done | done ..................... | later tokens: x of these blocks, gathered again | g | */
static double add_group(struct cuda_plan *plan, struct search *s, int64_t first, int64_t end, int64_t given)
{
    double all = 0, one;
    for (int64_t at = first; at < end; at = s->best.end) {
        next_segment(s, at, end, given);
        one = add(plan, s);
        if (one < 0)
            return -1;
        all += one;
    }
    if (!s->own->grad_element)
        return all;
    next_dweight(s, first, end, given);
    one = add(plan, s);
    return one < 0 ? -1 : all + one;
}

/* Adds a group of the tokens from FIRST on, as many as take the least time for a token. */
static double add_best_group(struct cuda_plan *plan, struct search *s, int64_t first)
{
    enum { MOST_PARTS = 4 };
    const int64_t left = s->shape->tokens - first;
    struct cuda_plan best;
    double seconds = -1, least = 0;
    for (int64_t parts = 1; parts <= MOST_PARTS; parts++) {
        struct cuda_plan trial = *plan;
        const int64_t some = cuda_round_up((left + parts - 1) / parts, 2 * LCE_TILE_M),
                      tokens = some < left ? some : left;
        const double all = add_group(&trial, s, first, first + tokens, 0), each = all / (double)tokens;
        if (all >= 0 && (seconds < 0 || each < least)) {
            best = trial;
            seconds = all;
            least = each;
        }
    }
    if (seconds >= 0)
        *plan = best;
    return seconds;
}

/* Sets the segments, or in two passes groups of them, with all tokens in one group if ALL_IN_ONE; returns
 * their seconds, or a negative number if there are none. */
static double choose(struct cuda_plan *plan, struct search *s, int64_t given, bool all_in_one)
{
    const int64_t tokens = s->shape->tokens;
    double seconds = 0, one;
    plan->segment_count = 0;
    plan->rest_size = 0;
    for (int64_t first = 0; first < tokens; first = plan->segments[plan->segment_count - 1].end) {
        if (plan->two_passes) {
            one = all_in_one ? add_group(plan, s, first, tokens, given) : add_best_group(plan, s, first);
        } else {
            next_segment(s, first, tokens, given);
            one = add(plan, s);
        }
        if (one < 0)
            return -1;
        seconds += one;
    }
    return seconds;
}

/* Makes TRIAL a plan of segments, whose parts of the workspace S gets.  Whether these have any room. */
static bool begin_search(struct search *s, struct cuda_plan *trial, int64_t chunk, bool given,
                         uint64_t budget)
{
    const uint32_t proposals = (uint32_t)trial->base.problem.proposals;
    trial->in_place = s->own != NULL;
    trial->two_passes = trial->lends_odds;
    trial->segment_count = 1; /* what belongs to a block is not in the size */
    trial->rest_size = 0;
    s->plan = trial;
    s->begin = cuda_size_with(trial, 1);
    s->end = budget;
    s->forced = (int64_t)(proposals >> 16) * LCE_SLAB_UNIT;
    if (proposals >> 15 & 1 && !s->forced) { /* for tests: as much in dinput as can be */
        trial->chunk = given ? chunk : 64;
        trial->logits_in = trial->sums_in = trial->rows_in = IN_WORKSPACE;
        cuda_slice(trial, LCE_SLAB_UNIT);
        s->end = place(trial, s->begin);
        const size_t dweight = trial->two_passes ? place_dweight(trial, s->begin) : 0;
        s->end = dweight > s->end ? dweight : s->end;
    }
    trial->segment_count = 0;
    return s->begin < budget;
}

/* Sets the segments, if they are faster than BEFORE; returns their seconds, otherwise a negative number. */
static double try_segments(struct cuda_plan *plan, struct search *s, int64_t chunk, bool given,
                           uint64_t budget, double before)
{
    struct cuda_plan trial = *plan;
    if (!begin_search(s, &trial, chunk, given, budget))
        return -1;
    plan->in_place = trial.in_place;
    plan->two_passes = trial.two_passes;
    plan->rest_seconds = choose(plan, s, given ? chunk : 0, given);
    if (plan->rest_seconds < 0 && plan->two_passes && !given) /* many groups may have too many segments */
        plan->rest_seconds = choose(plan, s, 0, true);
    if (plan->rest_seconds < 0)
        return -1;
    return plan->rest_seconds < before ? plan->rest_seconds : -1;
}

/* As in borrow.c: gradients are more exact with odds than with logits, so these may take so much longer. */
static const double odds_worth = 1.03;

/* Sets the segments, with odds or without; whether there are any that are faster than BEFORE. */
static bool choose_kind(struct cuda_plan *plan, struct search *s, int64_t chunk, bool given, uint64_t budget,
                        double before)
{
    plan->lends_odds = false;
    const double seconds = try_segments(plan, s, chunk, given, budget, before);
    if (!s->own || !plan->odds)
        return seconds >= 0;
    const double most = seconds < 0 ? before : seconds * odds_worth;
    plan->lends_odds = true;
    plan->lends_odds = try_segments(plan, s, chunk, given, budget, most) >= 0;
    if (!plan->lends_odds && seconds >= 0)
        try_segments(plan, s, chunk, given, budget, before);
    return plan->lends_odds || seconds >= 0;
}

bool cuda_segments_choose(struct cuda_plan *plan, const struct lce_slab_shape *shape,
                          const struct lce_chunk_shape *own, int64_t *chunk, bool given, uint64_t budget,
                          double before)
{
    struct search s = {.shape = shape, .own = own};
    if (!choose_kind(plan, &s, *chunk, given, budget, before)) {
        plan->segment_count = 0;
        plan->in_place = plan->two_passes = false;
        return false;
    }
    *chunk = plan->segments[0].block;
    cuda_slice(plan, plan->segments[0].columns);
    return true;
}

int32_t cuda_segment_blocks(const struct cuda_plan *plan)
{
    int64_t blocks = 0;
    for (int i = 0; i < plan->segment_count; i++)
        if (plan->segments[i].pass != DWEIGHT_PASS)
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
    segment->rows_in = s->rows_in;
    segment->pass = s->pass;
    segment->rest = NULL;
    cuda_slice(segment, s->columns);
    place(segment, plan->layout.rest_logits);
}
