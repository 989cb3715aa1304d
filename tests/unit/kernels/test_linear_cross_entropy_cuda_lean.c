/*
 * test_linear_cross_entropy_cuda_lean.c - how lean plans keep to their 128 MiB: short chunks, slabs of
 * classes, logits in rows that are the caller's to overwrite.
 */
#define _GNU_SOURCE
#include "lce_cuda_kit.h"

TEST(fp32_logits_halve_the_chunk_and_keep_to_the_bytes)
{
    const uint64_t mib = 1 << 20;
    struct lce_problem p = problem_of(8192, 4096, 128256, LCE_BF16, 0);
    for (uint32_t flags = 0; flags <= LCE_F32_LOGITS; flags += LCE_F32_LOGITS) {
        const int64_t tokens = flags ? 1024 : 2048;
        p.flags = flags;
        struct lce_plan *plan = plan_of(&p, LCE_FAST, 0);
        assert_int_equal(plan->info.chunk_tokens, tokens);
        assert_int_equal(plan->info.logits_size, 501 * mib);
        assert_true(plan->info.workspace_size < 502 * mib);
        cuda_plan_destroy(plan);
        p.grad_weight_beta = 1; /* no rows of dweight to borrow */
        struct lce_plan *lean = plan_of(&p, LCE_LEAN, 0);
        p.grad_weight_beta = 0;
        assert_int_equal(lean->info.slab_columns < p.vocab, flags != 0); /* 256 whole rows are too few */
        assert_int_equal(flags || lean->info.chunk_tokens == tokens / 4, 1);
        assert_true(lean->info.workspace_size <= 128 * mib);
        cuda_plan_destroy(lean);
    }
}

static const uint64_t lean_size = UINT64_C(128) << 20;

TEST(slabs_are_taken_where_whole_rows_would_be_slow)
{
    static const struct {
        int64_t vocab;
        uint32_t flags;
        bool cut;
        int64_t least_tokens;
    } rows[] = {{128256, 0, false, 512},
                {128256, LCE_F32_LOGITS, true, 512},
                {256000, 0, true, 512},
                {256000, LCE_F32_LOGITS, true, 512},
                {32000, 0, false, 1024}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lce_problem p = problem_of(8192, 4096, rows[i].vocab, LCE_BF16, rows[i].flags);
        p.wants &= ~(uint32_t)(LCE_WANT_GRAD_BIAS | LCE_WANT_GRAD_INPUT); /* no rows of dinput to borrow */
        p.grad_weight_beta = 1; /* dweight is added to: none of its rows either */
        struct lce_plan *plan = plan_of(&p, LCE_LEAN, 0);
        const struct lce_plan_info *info = &plan->info;
        assert_int_equal(info->slab_columns < p.vocab, rows[i].cut);
        assert_true(info->chunk_tokens >= rows[i].least_tokens);
        assert_true(info->workspace_size <= lean_size);
        assert_int_equal(run(plan), LCE_OK);
        const int64_t slabs = (p.vocab + info->slab_columns - 1) / info->slab_columns;
        assert_int_equal(seen.products, (3 * slabs - 1) * info->chunks);
        cuda_plan_destroy(plan);
    }
}

/* The slabs of all stages, by all blocks; the stages follow one another, and none overwrites its own rows. */
static int64_t stages_of(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    int64_t slabs = 0, at = p->vocab - plan->borrowed;
    for (const struct cuda_plan *s = plan->rest; s; s = s->rest) {
        assert_int_equal(s->begin, at);
        assert_true(s->end > s->begin && s->end <= p->vocab);
        assert_int_equal(s->logits_in, s->rest ? IN_DWEIGHT : IN_WORKSPACE); /* only the last lies there */
        const size_t row = (size_t)p->hidden * lce_dtype_size(p->grad_weight_dtype);
        assert_int_equal(s->rows_in, s->logits_in);
        assert_true(!s->rest || s->layout.logits >= (size_t)s->end * row);
        const size_t rows = plan->own ? (size_t)(s->chunk * p->hidden) * 2 : 0; /* behind the logits */
        assert_true(!s->rest || s->layout.rows + rows <= (size_t)p->vocab * row);
        slabs += (s->end - s->begin + s->columns - 1) / s->columns * ((plan->rows + s->chunk - 1) / s->chunk);
        at = s->end;
    }
    assert_int_equal(at, p->vocab);
    return slabs;
}

/* The logits lie in rows of dweight where that is the caller's to overwrite, and where it is faster. */
TEST(rows_of_dweight_are_borrowed)
{
    static const struct {
        int64_t tokens, hidden, vocab, least_tokens;
    } rows[] = {{8192, 4096, 128256, 1024},
                {1000, 3584, 151646, 384},
                {4096, 5120, 152064, 1024},
                {65536, 4096, 128256, 1024}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int why = 0; why < 5; why++) {
            struct lce_problem p = problem_of(rows[i].tokens, rows[i].hidden, rows[i].vocab, LCE_BF16, 0);
            p.wants &= ~(uint32_t)(LCE_WANT_GRAD_BIAS | (why == 3 ? LCE_WANT_GRAD_WEIGHT : 0));
            p.grad_weight_beta = why == 1;
            p.grad_weight_stride += why == 2 ? 8 : 0;
            p.flags = (why == 4 ? LCE_F32_ACCUMULATE : 0) | (why == 0 && i > 1 ? LCE_F32_LOGITS : 0);
            struct lce_plan *base = plan_of(&p, LCE_LEAN, 0);
            const struct cuda_plan *plan = (const struct cuda_plan *)base;
            assert_int_equal(plan->borrowed > 0, why == 0);
            assert_true(why == 4 || base->info.workspace_size <= lean_size); /* the sums alone are more */
            if (why != 2) { /* the buffers here have dense rows */
                if (run(base) != LCE_OK)
                    fail_msg("%s", lce_message());
                assert_ptr_equal(seen.furthest, seen.known[0].begin + base->info.workspace_size);
            }
            if (why == 0) {
                assert_true(base->info.chunk_tokens * (p.flags & LCE_F32_LOGITS ? 2 : 1) >=
                            rows[i].least_tokens);
                assert_int_equal(seen.products, 3 * base->info.chunks + 2 * stages_of(plan));
            }
            cuda_plan_destroy(base);
        }
}

/* Something that lies in a buffer while others do. */
struct part {
    enum cuda_place in;
    size_t begin, size;
};

/* Each lies within FIRST and END of its buffer, and nothing lies twice. */
static void check_apart(const struct part *parts, size_t count, const size_t *first, const size_t *end)
{
    for (size_t i = 0; i < count; i++) {
        if (parts[i].size == 0)
            continue;
        assert_true(parts[i].begin >= first[parts[i].in]);
        assert_true(parts[i].begin + parts[i].size <= end[parts[i].in]);
        for (size_t j = 0; j < i; j++)
            assert_true(parts[i].in != parts[j].in || parts[j].size == 0 ||
                        parts[i].begin >= parts[j].begin + parts[j].size ||
                        parts[j].begin >= parts[i].begin + parts[i].size);
    }
}

/* What a plan of ours keeps in rows of dweight lies behind the rows that its chunks add to; what it keeps in
 * the workspace, behind what lives longer than a chunk; and nothing overlaps. */
static void check_lent(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const size_t row = (size_t)p->hidden * lce_dtype_size(p->grad_weight_dtype), n = (size_t)plan->chunk;
    const struct cuda_layout *l = &plan->layout;
    const size_t beside = plan->lends_odds ? n : 0;
    const struct part parts[] = {
        {plan->logits_in, l->logits, n * (size_t)plan->stride * cuda_logit_size(plan)},
        {plan->rows_in, l->rows, n * (size_t)p->hidden * 2},
        {IN_WORKSPACE, l->parts, cuda_lent_parts(plan, plan->chunk)},
        {plan->rows_in, l->tiles, beside * (size_t)cuda_tiles_of(p->vocab) * sizeof(struct lce_tile_sum)},
        {plan->rows_in, l->targets, beside * sizeof(float)},
        {plan->rows_in, l->references, beside * sizeof(float)},
        {plan->rows_in, l->factors, beside * sizeof(struct lce_odds_factors)}};
    const size_t
        first[] = {[IN_WORKSPACE] = l->rest_logits, [IN_DWEIGHT] = (size_t)(p->vocab - plan->borrowed) * row},
        end[] = {[IN_WORKSPACE] = plan->base.info.workspace_size, [IN_DWEIGHT] = (size_t)p->vocab * row};
    const size_t longer[] = {l->known, l->label_factors, l->slots, l->counts, l->ends,
                             l->items, l->used,          l->state, l->index,  l->loss};
    assert_int_equal(plan->logits_in, IN_DWEIGHT);
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
        assert_true(longer[i] <= l->rest_logits);
    check_apart(parts, sizeof parts / sizeof *parts, first, end);
}

/* With products of ours, too: chunks' of the classes that lend no row, and each stage's.  These are of odds,
 * where the workspace has room for what those need of all tokens and classes; then the labels' share comes
 * last.  What a chunk has beside its logits lies in the workspace. */
TEST(products_of_ours_borrow_rows_of_dweight)
{
    static const struct {
        int64_t tokens, hidden, vocab;
        uint32_t flags;
        int32_t dweight;
        bool odds;
    } rows[] = {{8192, 4096, 128256, 0, LCE_BF16, true},
                {1000, 3584, 151646, 0, LCE_BF16, true},
                {1000, 3584, 151646, LCE_F32_LOGITS, LCE_BF16, false},
                {8192, 2304, 256000, 0, LCE_F32, true},
                {16384, 3072, 128256, 0, LCE_BF16, true}};
    library.images[IMAGE_PRODUCT] = (CUlibrary)1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int why = 0; why < 4; why++) {
            struct lce_problem p =
                problem_of(rows[i].tokens, rows[i].hidden, rows[i].vocab, LCE_BF16, rows[i].flags);
            p.wants &= ~(uint32_t)LCE_WANT_GRAD_BIAS;
            p.grad_weight_dtype = rows[i].dweight;
            p.grad_weight_beta = why == 1;
            p.max_counted = why == 2   ? p.tokens /* all count: cuBLASLt's */
                            : why == 3 ? p.tokens / 2
                                       : 0;
            p.proposals = 1 << 14;
            struct lce_plan *base = plan_of(&p, LCE_LEAN, 0);
            const struct cuda_plan *plan = (const struct cuda_plan *)base;
            assert_int_equal(plan->own,
                             why != 2); /* where dweight is added to, rows of dinput are borrowed */
            assert_int_equal(plan->borrowed > 0, why != 1);
            assert_true(base->info.workspace_size <= lean_size);
            if (run(base) != LCE_OK)
                fail_msg("%s", lce_message());
            assert_in_range(base->info.workspace_size - (size_t)(seen.furthest - seen.known[0].begin), 0,
                            255);
            if (plan->own && plan->borrowed)
                check_lent(plan);
            if (why == 0) {
                assert_int_equal(plan->lends_odds, rows[i].odds);
                assert_int_equal(seen.own, 3 * base->info.chunks + 2 * stages_of(plan));
                assert_int_equal(seen.odds, rows[i].odds ? base->info.chunks : 0);
                assert_int_equal(seen.labels, rows[i].odds ? 3 : 0);
                assert_int_equal(seen.products, 0);
            }
            cuda_plan_destroy(base);
        }
    library.images[IMAGE_PRODUCT] = NULL;
}

/* Unasked, too, where they are not estimated to cost more than 16 %. */
TEST(products_of_ours_are_taken_where_rows_are_borrowed)
{
    static const int64_t shapes[][3] = {
        {8192, 4096, 128256}, {16384, 3072, 128256}, {1000, 3584, 151646}, {8192, 2304, 256000}};
    library.images[IMAGE_PRODUCT] = (CUlibrary)1;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct lce_problem p = problem_of(shapes[i][0], shapes[i][1], shapes[i][2], LCE_BF16, 0);
        p.wants &= ~(uint32_t)LCE_WANT_GRAD_BIAS;
        struct lce_plan *base = plan_of(&p, LCE_LEAN, 0);
        const struct cuda_plan *plan = (const struct cuda_plan *)base;
        assert_true(plan->borrowed > 0 && plan->own);
        cuda_plan_destroy(base);
    }
    library.images[IMAGE_PRODUCT] = NULL;
}

/* The segments follow one another, and nothing lies in rows of dinput that are done or that a product writes.
 */
static void check_segments(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const size_t row = (size_t)p->hidden * 2, all = (size_t)p->tokens * row;
    int64_t at = 0;
    for (const struct cuda_plan *s = plan->rest; s; s = s->rest) {
        const size_t logits = (size_t)(s->chunk * s->stride) * cuda_logit_size(s),
                     sums = (size_t)(s->chunk * p->hidden) * 4, done = (size_t)(s->rows - s->chunk) * row,
                     written = (size_t)s->rows * row;
        const bool summed = cuda_sums_dinput(s), beyond = summed && s->sums_in == IN_DINPUT;
        assert_int_equal(s->from, at);
        assert_int_equal((s->rows - s->from) % s->chunk, 0);
        assert_true(!beyond || (s->layout.dinput >= written && s->layout.dinput + sums <= all));
        if (s->logits_in == IN_DINPUT) {
            assert_true(s->layout.logits >= (summed ? done : written));
            assert_true(s->layout.logits + logits <= (beyond ? s->layout.dinput : all));
        }
        at = s->rows;
    }
    assert_int_equal(at, p->tokens);
}

/* Where rows of dweight cannot be borrowed the logits lie in those of dinput, if that is the caller's rows
 * one after the other, in order. */
TEST(rows_of_dinput_of_later_tokens_are_borrowed)
{
    static const struct {
        int64_t tokens, hidden, vocab;
        bool wide; /* also with fp32 logits */
    } rows[] = {{65536, 4096, 128256, true}, {65536, 4096, 202048, false}, {4096, 7168, 129280, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int why = 0; why < 6; why++) {
            struct lce_problem p = problem_of(rows[i].tokens, rows[i].hidden, rows[i].vocab, LCE_BF16, 0);
            p.wants &= ~(uint32_t)(LCE_WANT_GRAD_BIAS | (why == 3 ? LCE_WANT_GRAD_INPUT : 0));
            p.grad_weight_beta = why != 1;
            p.grad_input_stride += why == 2 ? 8 : 0;
            p.max_counted = why == 4 ? p.tokens / 2 : 0;
            p.flags = why == 5 ? LCE_F32_LOGITS : 0;
            struct lce_plan *base = plan_of(&p, LCE_LEAN, 0);
            const struct cuda_plan *plan = (const struct cuda_plan *)base;
            assert_int_equal(plan->segment_count > 0, why == 0 || (why == 5 && rows[i].wide));
            assert_true(base->info.workspace_size <= lean_size);
            if (plan->segment_count) {
                check_segments(plan);
                if (run(base) != LCE_OK)
                    fail_msg("%s", lce_message());
                assert_ptr_equal(seen.furthest, seen.known[0].begin + base->info.workspace_size);
            }
            cuda_plan_destroy(base);
        }
}

/* Each token has its dinput, and then, with others, its dweight. */
static void check_passes(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const struct cuda_layout *m = &plan->layout;
    const size_t row = (size_t)p->hidden * 2, longer[] = {m->known, m->order, m->counts, m->index},
                 end[] = {
                     [IN_WORKSPACE] = plan->base.info.workspace_size, [IN_DINPUT] = (size_t)p->tokens * row};
    int64_t dinput = 0, dweight = 0;
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
        assert_true(longer[i] <= m->rest_logits);
    for (const struct cuda_plan *s = plan->rest; s; s = s->rest) {
        const struct cuda_layout *l = &s->layout;
        const size_t n = (size_t)s->chunk, logits = n * (size_t)s->stride * 2,
                     first[] = {[IN_WORKSPACE] = m->rest_logits,
                                [IN_DINPUT] = (size_t)s->rows * row}; /* before it, dinput is made or done */
        if (s->pass == DINPUT_PASS) {
            const struct part parts[] = {
                {s->logits_in, l->logits, logits},
                {s->sums_in, l->dinput, n * (size_t)p->hidden * 4},
                {IN_WORKSPACE, l->tiles, n * (size_t)cuda_tiles_of(s->columns) * sizeof(struct lce_tile_sum)},
                {IN_WORKSPACE, l->factors, n * sizeof(struct lce_odds_factors)}};
            check_apart(parts, sizeof parts / sizeof *parts, first, end);
            assert_int_equal(l->rows, (size_t)s->from * row); /* the block's own */
            assert_int_equal(s->from, dinput);
            dinput = s->rows;
        } else {
            const struct part parts[] = {{s->rows_in, l->rows, n * row}, {s->logits_in, l->logits, logits}};
            check_apart(parts, 2, first, end);
            assert_int_equal(s->from, dweight);
            dweight = s->rows;
            assert_int_equal(dinput, dweight);
        }
        assert_true(s->columns < p->vocab);
    }
    assert_int_equal(dinput, plan->rows);
    assert_int_equal(dweight, plan->rows);
}

/* With products of ours, too, which take one gradient after the other, of odds; or, where there are none,
 * both from logits. */
TEST(products_of_ours_borrow_rows_of_dinput)
{
    static const struct {
        int64_t tokens, hidden, vocab, counted;
        uint32_t flags;
        bool own, odds; /* own: unasked */
    } rows[] = {{8192, 4096, 128256, 0, 0, true, true},  {16384, 3072, 128256, 10000, 0, true, true},
                {8192, 2304, 256000, 0, 0, true, true},  {8192, 2304, 256000, 0, LCE_F32_LOGITS, true, false},
                {65536, 4096, 202048, 0, 0, true, true}, {65536, 4096, 128256, 0, 0, false, true}};
    library.images[IMAGE_PRODUCT] = (CUlibrary)1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int asked = 1; asked >= 0; asked--) {
            struct lce_problem p =
                problem_of(rows[i].tokens, rows[i].hidden, rows[i].vocab, LCE_BF16, rows[i].flags);
            p.wants &= ~(uint32_t)LCE_WANT_GRAD_BIAS;
            p.grad_weight_dtype = LCE_F32;
            p.grad_weight_beta = 1;
            p.max_counted = rows[i].counted;
            p.proposals = asked << 14;
            struct lce_plan *base = plan_of(&p, LCE_LEAN, 0);
            const struct cuda_plan *plan = (const struct cuda_plan *)base;
            if (plan->own != (asked || rows[i].own))
                fail_msg("%zu: products of ours are%s taken", i, plan->own ? "" : " not");
            assert_true(base->info.workspace_size <= lean_size);
            if (run(base) != LCE_OK)
                fail_msg("%s", lce_message());
            if (plan->own) {
                assert_true(plan->segment_count > 0 && plan->in_place);
                if (plan->two_passes != rows[i].odds || plan->lends_odds != rows[i].odds)
                    fail_msg("%zu: odds are%s stored", i, plan->lends_odds ? "" : " not");
                if (plan->two_passes)
                    check_passes(plan);
                assert_in_range(base->info.workspace_size - (size_t)(seen.furthest - seen.known[0].begin), 0,
                                255);
            }
            cuda_plan_destroy(base);
        }
    library.images[IMAGE_PRODUCT] = NULL;
}

/* Where dweight has segments of its own, it is summed in fp32 if that is asked for, however few blocks make
 * dinput. If a slab of all classes is asked for, the products are not ours. */
TEST(segments_of_ours_keep_what_was_asked_for)
{
    int in_passes = 0;
    library.images[IMAGE_PRODUCT] = (CUlibrary)1;
    for (int64_t tokens = 600; tokens <= 9000; tokens += 300) {
        struct lce_problem p = problem_of(tokens, 1024, 30000, LCE_BF16, LCE_F32_ACCUMULATE);
        p.wants &= ~(uint32_t)LCE_WANT_GRAD_BIAS;
        p.proposals = 1 << 14;
        struct lce_plan *base = plan_of(&p, LCE_LEAN, 0); /* of which the sums take 117 MiB */
        const struct cuda_plan *plan = (const struct cuda_plan *)base;
        assert_true(plan->accumulates || !plan->two_passes);
        assert_int_equal(run(base), LCE_OK);
        in_passes += plan->two_passes;
        cuda_plan_destroy(base);
    }
    assert_true(in_passes > 0);
    struct lce_problem p = problem_of(700, 64, 300, LCE_BF16, 0);
    p.wants &= ~(uint32_t)LCE_WANT_GRAD_BIAS;
    p.grad_weight_beta = 1;
    p.proposals = 3 << 14 | 5 << 16;
    struct lce_plan *base = plan_of(&p, LCE_LEAN, 64);
    const struct cuda_plan *plan = (const struct cuda_plan *)base;
    assert_false(plan->own && plan->segment_count);
    cuda_plan_destroy(base);
    library.images[IMAGE_PRODUCT] = NULL;
}

/* Slabs: every byte of the workspace is one of these, each rounded up to 256 */
static size_t parts_of(const struct lce_plan *plan)
{
    const struct lce_problem *p = &plan->problem;
    const size_t n = (size_t)plan->info.chunk_tokens, rows = (size_t)p->max_counted;
    const size_t e = lce_dtype_size(p->dtype), wide = p->flags & LCE_F32_LOGITS ? 4 : e;
    const size_t parts[] = {sizeof(struct lce_stats),
                            (size_t)p->tokens,
                            (size_t)p->tokens * 4,
                            rows * 4,
                            rows ? n * (size_t)p->hidden * e : 0,
                            (size_t)p->vocab * 4,
                            n * (size_t)plan->info.slab_columns * wide,
                            n * sizeof(struct lce_slab_row),
                            e == 2 || rows ? n * (size_t)p->hidden * 4 : 0};
    size_t total = plan->info.gemm_size;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        total += (parts[i] + 255) / 256 * 256;
    return total;
}

TEST(slabs_have_an_exact_workspace)
{
    for (int dtype = LCE_F32; dtype <= LCE_BF16; dtype++)
        for (int64_t counted = 0; counted <= 333; counted += 333)
            for (uint32_t flags = 0; flags <= LCE_F32_LOGITS; flags += LCE_F32_LOGITS)
                for (int64_t columns = 64; columns <= 4096; columns *= 8) {
                    struct lce_problem p = problem_of(999, 77, 5001, dtype, flags);
                    p.max_counted = counted;
                    p.proposals = (uint32_t)(columns / 64) << 16;
                    struct lce_plan *plan = plan_of(&p, LCE_FAST, 100);
                    assert_int_equal(plan->info.slab_columns, columns);
                    assert_int_equal(plan->info.logits_size, 100 * columns * (dtype && !flags ? 2 : 4));
                    assert_int_equal(plan->info.workspace_size, parts_of(plan));
                    cuda_plan_destroy(plan);
                }
}

int main(void)
{
    return run_all_tests(read_images, drop_images);
}
