/* test_edit_types.c - changes of programs whose element types are known. */
#include "made.h"

#include "edit/loss_code.h"
#include "edit/losses.h"
#include "trace/journal/journal.h"
#include "read/stacks.h"

enum { F32 = ELEMENT_FLOAT32, BF16 = ELEMENT_BFLOAT16, I32 = 4, I64 = 5 };

/* w, its gradient g and a are wide; i are indices, k a workspace. */
static const struct known fp32[] = {
    {'w', MIB(8), KIND_PARAMETER, NOWHERE}, {'a', MIB(50), KIND_SAVED, UNIT0},
    {'i', MIB(16), KIND_SAVED, UNIT0},      {'k', MIB(32), KIND_OTHER, NOWHERE},
    {'g', MIB(8), KIND_GRADIENT, NODE0},    {0}};
static const struct element fp32_elements[] = {{'w', F32, 1, false}, {'a', F32, 2, false},
                                               {'i', I64, 2, false}, {'k', 0, 0, true},
                                               {'g', F32, 1, false}, {0}};

TEST(whole_numbers_and_workspaces_keep_their_bytes_in_bf16)
{
    TYPED(m, ".+w f+k f+i f+a b+g b-a b-i .-g |", fp32);
    struct peaks p = edited(&m, "types=bf16");
    assert_int_equal(p.low, MIB(4 + 32 + 16 + 25 + 4));
    assert_in_range(p.high, MIB(4 + 32 + 16 + 25 + 4), MIB(4 + 32 + 16 + 25 + 4 + 3));
}

static const struct known bf16[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                    {'a', MIB(50), KIND_SAVED, UNIT0},
                                    {'s', MIB(16), KIND_STATE, FOREACH},
                                    {0}};
static const struct element bf16_elements[] = {
    {'w', BF16, 1, false}, {'a', BF16, 2, false}, {'s', F32, 1, false}, {0}};

TEST(a_program_in_bf16_has_nothing_to_change)
{
    TYPED(m, ".+w f+a b-a o+s |", bf16);
    assert_refused(&m, "types=bf16", "no parameter is float32 or float64");
}

/* Under autocast: w is copied as c, the input x as d for the layer that gives y; v and its gradient h before
 * it is made as wide, g. */
static const struct known autocast[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                        {'x', MIB(40), KIND_SAVED, UNIT0},
                                        {'d', MIB(20), KIND_SAVED, UNIT1},
                                        {'c', MIB(4), KIND_SAVED, UNIT1},
                                        {'y', MIB(20), KIND_SAVED, UNIT1},
                                        {'z', MIB(4), KIND_SAVED, NODE0},
                                        {'h', MIB(4), KIND_BACKWARD, NODE1},
                                        {'g', MIB(8), KIND_GRADIENT, NODE1},
                                        {0}};
static const struct element autocast_elements[] = {
    {'w', F32, 1, false},  {'x', F32, 2, false},  {'d', BF16, 2, false},
    {'c', BF16, 1, false}, {'y', BF16, 3, false}, {'z', BF16, 1, false},
    {'h', BF16, 1, false}, {'g', F32, 1, false},  {0}};

TEST(without_autocast_copies_of_weights_go_and_those_of_data_may)
{
    TYPED(m, ".+w f+x f+d f+c f+y b+h b+g b-h b-y b-c b-d b-x .-g |", autocast);
    struct peaks p = edited(&m, "types=bf16");
    /* the least is w, x, y, g; the most d and h too, and 1/25 for workspaces */
    assert_in_range(p.low, MIB(4 + 19 + 20 + 4), MIB(4 + 20 + 20 + 4));
    assert_in_range(p.high, MIB(4 + 20 + 20 + 20 + 4 + 4), MIB(4 + 20 + 20 + 20 + 4 + 4 + 4));
}

/* z has w's shape too: one copy of w is there already. */
TEST(data_in_a_weights_shape_are_no_second_copy_of_it)
{
    TYPED(m, ".+w f+x f+c f+z b-z b-c b-x |", autocast);
    struct peaks p = edited(&m, "types=bf16");
    assert_in_range(p.low, MIB(4 + 19 + 4), MIB(4 + 20 + 4));
}

TEST(states_have_the_elements_of_their_type)
{
    static const struct known states[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                          {'s', MIB(8), KIND_STATE, FOREACH},
                                          {'t', MIB(4), KIND_STATE, FOREACH},
                                          {0}};
    static const struct element states_elements[] = {
        {'w', F32, 1, false}, {'s', F32, 1, false}, {'t', BF16, 1, false}, {0}};
    TYPED(m, ".+w o+s o+t |", states);
    assert_int_equal(edited(&m, "states=bf16").low, MIB(8 + 4 + 4));
    /* 2 Mi elements each, and a scale of 4 bytes for 256 */
    assert_int_equal(edited(&m, "states=8bit").low, MIB(8 + 2 + 2) + 2 * KIB(32));
    TYPED(half, ".+w o+t |", states);
    assert_refused(&half, "states=bf16", "no state of the optimizer is of a wider floating-point type");
}

/* Weights packed into whole numbers, and a count of steps that is one. */
TEST(whole_numbers_are_no_floats_to_be_narrowed)
{
    static const struct known packed[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                          {'a', MIB(50), KIND_SAVED, UNIT0},
                                          {'s', MIB(8), KIND_STATE, FOREACH},
                                          {0}};
    static const struct element packed_elements[] = {
        {'w', I32, 1, false}, {'a', F32, 2, false}, {'s', I64, 1, false}, {0}};
    TYPED(m, ".+w f+a b-a o+s |", packed);
    assert_refused(&m, "types=bf16", "no parameter is float32 or float64");
    assert_refused(&m, "states=bf16", "no state of the optimizer is of a wider floating-point type");
    assert_refused(&m, "states=8bit", "no state of the optimizer is of a wider floating-point type");
    assert_int_equal(edited(&m, "states=host").low, MIB(8 + 50));
}

/* In unit 0 attention's line ATTENDS makes q (saved before it), the output o and the sums s; c is o in
 * another order, by the line behind. */
enum { ATTENDS = NORM + 1, BEHIND, NODE, ALL };

static const struct edit_stack attending[ALL] = {
    [NOWHERE] = {.unit = EDIT_NO_UNIT},
    [UNIT0] = {.unit = 0, .layer = 1},
    [ATTENDS] = {.unit = 0, .layer = 6, .attends = true},
    [BEHIND] = {.unit = 0, .layer = 6, .attends = true},
    [NODE] = {.unit = 0, .layer = 6, .attends = true, .parts = true},
};

static struct peaks attends(const char *text, const struct known *table, const struct element *of)
{
    struct made m = typed(text, table, of);
    m.p.blocks = m.blocks;
    m.p.events = m.events;
    facts.stacks = (struct edit_stack *)attending;
    facts.stack_count = ALL;
    struct peaks p = edited(&m, "types=bf16");
    facts.stacks = stacks;
    facts.stack_count = STACKS;
    return p;
}

TEST(a_copy_of_attentions_output_may_be_none_in_bf16)
{
    static const struct known copied[] = {
        {'w', MIB(8), KIND_PARAMETER, NOWHERE}, {'o', MIB(40), KIND_SAVED, ATTENDS},
        {'s', MIB(1), KIND_SAVED, ATTENDS},     {'c', MIB(40), KIND_SAVED, BEHIND},
        {'y', MIB(40), KIND_SAVED, UNIT0},      {0}};
    static const struct element copied_elements[] = {{'w', F32, 1, false}, {'o', F32, 2, false},
                                                     {'s', F32, 3, false}, {'c', F32, 4, false},
                                                     {'y', F32, 2, false}, {0}};
    struct peaks p = attends(".+w f+o f+s f+c f+y b-y b-c b-s b-o |", copied, copied_elements);
    assert_in_range(p.low, MIB(4 + 20 + 20), MIB(4 + 20 + 1 + 20));
    assert_true(p.high >= MIB(4 + 20 + 20 + 20));
    /* without the sums it is no attention's output, and what has its size no copy */
    p = attends(".+w f+o f+c f+y b-y b-c b-o |", copied, copied_elements);
    assert_int_equal(p.low, MIB(4 + 20 + 20 + 20));
}

/* Q, K are queries and keys made for the squares S; m and n the mask of bool that PyTorch makes itself; y the
 * unit's output. */
TEST(squares_with_a_mask_of_their_own_are_fused_in_bf16)
{
    static const struct known squares[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                           {'m', MIB(1), KIND_FORWARD, ATTENDS},
                                           {'n', MIB(1), KIND_FORWARD, ATTENDS},
                                           {'Q', MIB(10), KIND_SAVED, ATTENDS},
                                           {'K', MIB(10), KIND_SAVED, ATTENDS},
                                           {'S', MIB(200), KIND_SAVED, ATTENDS},
                                           {'y', MIB(10), KIND_SAVED, UNIT0},
                                           {'b', MIB(2), KIND_BACKWARD, NODE},
                                           {0}};
    static const struct element squares_elements[] = {
        {'w', F32, 1, false}, {'m', ELEMENT_BOOL, 2, false}, {'n', ELEMENT_BOOL, 2, false},
        {'Q', F32, 3, false}, {'K', F32, 3, false},          {'S', F32, 4, false},
        {'y', F32, 3, false}, {'b', F32, 5, false},          {0}};
    struct peaks own =
        attends(".+w f+m f+n f-m f-n f+Q f+K f+S f+y b-y b+b b-b b-S b-K b-Q |", squares, squares_elements);
    assert_int_equal(own.low, MIB(4 + 5 + 5)); /* one of Q and K stays */
    assert_in_range(own.high, MIB(4 + 15), MIB(4 + 15 + 10));
    struct peaks given =
        attends(".+w f+m f-m f+Q f+K f+S f+y b-y b+b b-b b-S b-K b-Q |", squares, squares_elements);
    assert_int_equal(given.low, MIB(4 + 5 + 5));
    assert_true(given.high >= MIB(4 + 15 + 100)); /* a mask that the program gives may forbid it */
    struct peaks models =
        attends(".+w f+m f+n f-m f-n f+Q f+K f+S f+y b-y b-S b-K b-Q |", squares, squares_elements);
    assert_true(models.high >= MIB(4 + 15 + 100)); /* no node of PyTorch's attention: code of the model's */
}

/* Of a damaged file: masks of no bytes divide nothing. */
TEST(masks_without_a_byte_are_no_masks)
{
    static const struct known squares[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                           {'m', 0, KIND_FORWARD, ATTENDS},
                                           {'Q', MIB(10), KIND_SAVED, ATTENDS},
                                           {'S', MIB(200), KIND_SAVED, ATTENDS},
                                           {'y', MIB(10), KIND_SAVED, UNIT0},
                                           {'b', MIB(2), KIND_BACKWARD, NODE},
                                           {0}};
    static const struct element squares_elements[] = {{'w', F32, 1, false},
                                                      {'m', ELEMENT_BOOL, 2, false},
                                                      {'Q', F32, 3, false},
                                                      {'S', F32, 4, false},
                                                      {'y', F32, 3, false},
                                                      {'b', F32, 5, false},
                                                      {0}};
    struct peaks p =
        attends(".+w f+m f-m f+m f-m f+Q f+S f+y b-y b+b b-b b-S b-Q |", squares, squares_elements);
    assert_true(p.high >= MIB(4 + 5 + 100));
}

/* The blocks in WHICH have RANK extents, the last two of which are OUTER x INNER. */
static void extents(const char *which, uint8_t rank, uint64_t outer, uint64_t inner)
{
    for (; *which; which++) {
        struct asked *a = &asked_for[(int)*which];
        a->rank = rank, a->inner[0] = inner, a->inner[1] = outer;
    }
}

/* S and the mask m are 300 x 300 and no larger than the output y of 300 x 640; z is as large, and no square.
 */
TEST(blocks_of_two_lengths_grow_with_the_square_however_small_they_are)
{
    static const struct known sizes[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                         {'m', MIB(1), KIND_FORWARD, NOWHERE},
                                         {'S', MIB(10), KIND_SAVED, UNIT0},
                                         {'z', MIB(20), KIND_SAVED, UNIT0},
                                         {'y', MIB(10), KIND_SAVED, UNIT0},
                                         {'l', MIB(1), KIND_LOGITS, HEAD},
                                         {0}};
    static const struct element sizes_elements[] = {{'w', F32, 1, false}, {'m', F32, 2, false},
                                                    {'S', F32, 2, false}, {'z', F32, 3, false},
                                                    {'y', F32, 3, false}, {0}};
    TYPED(m, ".+w f+m f+S f+z f+y l+l l-l b-y b-z b-S b-m |", sizes);
    assert_int_equal(edited(&m, "sequence=2").high, MIB(8 + 2 + 20 + 40 + 20 + 2)); /* no shapes are known */
    extents("w", 2, 640, 640);
    extents("mS", 4, 300, 300);
    extents("zy", 2, 300, 640); /* tokens of all samples: no length */
    assert_int_equal(edited(&m, "sequence=2").high, MIB(8 + 2 + 20 + 40 + 20 + 2));
    extents("zy", 3, 300, 640);
    assert_int_equal(edited(&m, "sequence=2").low, MIB(8 + 4 + 40 + 40 + 20 + 2));
    assert_int_equal(edited(&m, "sequence=2").high, MIB(8 + 4 + 40 + 40 + 20 + 2));
    extents("w", 2, 640, 300); /* so that 300 may be a width */
    assert_int_equal(edited(&m, "sequence=2").high, MIB(8 + 2 + 20 + 40 + 20 + 2));
    m.blocks[2].size = MIB(11); /* and where it is more than the layer gives */
    assert_int_equal(edited(&m, "sequence=2").low, MIB(8 + 2 + 22 + 40 + 20 + 2));
    assert_int_equal(edited(&m, "sequence=2").high, MIB(8 + 2 + 44 + 40 + 20 + 2));
}

/* What a unit gives is an adapter's, 300 x 16, so that values z of 300 x 640 are larger by far: no square for
 * sure; of v, which has four extents, and of a shape that nobody knows the one end grows with the length and
 * the other with its square. */
TEST(what_adapters_give_makes_no_squares_of_what_is_larger)
{
    static const struct known sizes[] = {
        {'w', MIB(8), KIND_PARAMETER, NOWHERE}, {'z', MIB(20), KIND_SAVED, ATTENDS},
        {'v', MIB(10), KIND_SAVED, ATTENDS},    {'y', MIB(1), KIND_SAVED, UNIT0},
        {'l', MIB(1), KIND_LOGITS, HEAD},       {0}};
    static const struct element sizes_elements[] = {
        {'w', F32, 1, false}, {'z', F32, 2, false}, {'v', F32, 3, false}, {'y', F32, 4, false}, {0}};
    TYPED(m, ".+w f+z f+v f+y l+l l-l b-y b-v b-z |", sizes);
    facts.stacks = (struct edit_stack *)attending;
    facts.stack_count = ALL;
    extents("w", 2, 640, 640);
    extents("z", 3, 300, 640);
    extents("y", 3, 300, 16);
    extents("v", 4, 20, 8);
    struct peaks p = edited(&m, "sequence=2");
    facts.stacks = stacks;
    facts.stack_count = STACKS;
    assert_int_equal(p.low, MIB(8 + 2 * (20 + 10 + 1 + 1)));
    assert_int_equal(p.high, MIB(8 + 2 * (20 + 1 + 1) + 4 * 10));
}

/* c has the shape of the parameter w, as autocast's copy of it has, and r is raw, a library's own: at the low
 * end neither grows with the samples. */
TEST(a_copy_of_a_weight_and_a_librarys_bytes_may_stay)
{
    static const struct known sizes[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                         {'c', MIB(4), KIND_SAVED, UNIT0},
                                         {'y', MIB(10), KIND_SAVED, UNIT0},
                                         {'r', MIB(6), KIND_BACKWARD, UNIT0},
                                         {0}};
    static const struct element sizes_elements[] = {
        {'w', F32, 1, false}, {'c', BF16, 1, false}, {'y', BF16, 2, false}, {'r', 0, 0, true}, {0}};
    TYPED(m, ".+w f+c f+y b+r b-r b-y b-c |", sizes);
    assert_int_equal(edited(&m, "batch=2").low, MIB(8 + 4 + 20 + 6));
    assert_int_equal(edited(&m, "batch=2").high, MIB(8 + 8 + 20 + 12));
    assert_int_equal(edited(&m, "batch=0.5").high,
                     MIB(8 + 4 + 5 + 6)); /* where data shrink the other way round */
}

/* A mask k that is made in the first forward and kept, weights a that are kept for the next step, and a mask
 * d that comes with the data: 300 x 300; a table t of 300 x 640 that is kept. */
TEST(squares_that_outlive_their_step_may_grow_with_the_square)
{
    static const struct known sizes[] = {
        {'w', MIB(8), KIND_PARAMETER, NOWHERE}, {'k', MIB(3), KIND_OTHER, UNIT0},
        {'a', MIB(5), KIND_OTHER, UNIT0},       {'d', MIB(7), KIND_OTHER, NOWHERE},
        {'t', MIB(1), KIND_OTHER, UNIT0},       {'y', MIB(10), KIND_SAVED, UNIT0},
        {'l', MIB(1), KIND_LOGITS, HEAD},       {0}};
    static const struct element sizes_elements[] = {{'w', F32, 1, false},
                                                    {'k', F32, 2, false},
                                                    {'a', F32, 3, false},
                                                    {'d', F32, 4, false},
                                                    {'t', F32, 5, false},
                                                    {'y', F32, 6, false},
                                                    {0}};
    TYPED(m, ".+w .+d f+k f+t f+a f+y l+l l-l b-y .-d | .-a", sizes);
    assert_int_equal(edited(&m, "sequence=2").high,
                     MIB(8 + 2 * (3 + 5 + 7 + 1 + 10 + 1))); /* no shapes are known */
    extents("w", 2, 640, 640);
    extents("kad", 4, 300, 300);
    extents("ty", 3, 300, 640);
    assert_int_equal(edited(&m, "sequence=2").high, MIB(8 + 4 * (3 + 5 + 7) + 2 * (1 + 10 + 1)));
    assert_int_equal(edited(&m, "sequence=2").low, MIB(8 + 3 + 5 + 7 + 1 + 2 * (10 + 1))); /* or they stay */
    assert_int_equal(edited(&m, "batch=2").high, MIB(8 + 2 * (3 + 5 + 7 + 1 + 10 + 1)));
    assert_int_equal(edited(&m, "sequence=0.5").low, MIB(8) + MIB(3 + 5 + 7) / 4 + MIB(1 + 10 + 1) / 2);
}

/* Logits L of 8192 tokens x 16384 words, of a layer W whose input is D, 1024 wide. */
TEST(a_fused_loss_has_its_kernels_chunk_where_shapes_are_known)
{
    static const struct known fused[] = {{'w', MIB(64), KIND_PARAMETER, NOWHERE},
                                         {'L', MIB(512), KIND_LOGITS, HEAD},
                                         {'W', MIB(64), KIND_GRADIENT, HEAD},
                                         {'D', MIB(32), KIND_BACKWARD, HEAD},
                                         {0}};
    static const struct element fused_elements[] = {
        {'w', F32, 1, false}, {'L', F32, 2, false}, {'W', F32, 1, false}, {'D', F32, 3, false}, {0}};
    TYPED(m, ".+w l+L b+W b+D b-L b-D o-W |", fused);
    extents("L", 2, 8192, 16384);
    struct peaks p = edited(&m, "loss=fused");
    /* 2048 tokens, as the kernel's own code says; and what a plan needs beside it */
    assert_int_equal(p.low, MIB(64 + 64 + 32 + 128));
    assert_in_range(p.high, p.low + MIB(1), p.low + MIB(5));
    extents("L", 0, 0, 0);
    assert_int_equal(edited(&m, "loss=fused").low, MIB(64 + 64 + 32 + 64)); /* half of that is the least */
}

/* c and d are autocast's copies of weight and input, V the weight's gradient before it is copied to W. */
TEST(a_fused_loss_under_autocast_has_the_copies_while_it_runs)
{
    static const struct known fused[] = {
        {'w', MIB(64), KIND_PARAMETER, NOWHERE}, {'c', MIB(32), KIND_LOGITS, HEAD},
        {'d', MIB(16), KIND_LOGITS, HEAD},       {'L', MIB(256), KIND_LOGITS, HEAD},
        {'F', MIB(512), KIND_LOGITS, LOSS},      {'V', MIB(32), KIND_BACKWARD, HEAD},
        {'D', MIB(16), KIND_BACKWARD, HEAD},     {'W', MIB(64), KIND_GRADIENT, NODE0},
        {'z', MIB(900), KIND_BACKWARD, UNIT0},   {0}};
    static const struct element fused_elements[] = {{'w', F32, 1, false},  {'c', BF16, 1, false},
                                                    {'d', BF16, 3, false}, {'L', BF16, 2, false},
                                                    {'F', F32, 2, false},  {'V', BF16, 1, false},
                                                    {'D', BF16, 3, false}, {'W', F32, 1, false},
                                                    {'z', F32, 4, false},  {0}};
    stacks[NODE0].layer = stacks[HEAD].layer;
    TYPED(m, ".+w l+c l+d l+L l+F l-F b+V b+D b-L b-d b+W b-V b-c b-D b+z b-z o-W |", fused);
    extents("L", 2, 8192, 16384);
    struct peaks p = edited(&m, "loss=fused");
    assert_int_equal(p.phase[LOGITS],
                     MIB(64 + 32 + 16 + 16 + 64 + 64)); /* w, c, d, D, W at once, and 2048 tokens */
    assert_int_equal(p.low, MIB(64 + 64 + 900));        /* no copy is left in backward */
    stacks[NODE0].layer = stacks[UNIT0].layer;
    extents("L", 0, 0, 0);
}

/* A product's call copies its input x as d, and c, its weight; then it gives y.  Of q it is known no more
 * than that its call makes two blocks. */
TEST(what_a_product_is_given_is_kept_in_the_place_of_autocasts_copies)
{
    static const struct known copies[] = {
        {'w', MIB(8), KIND_PARAMETER, NOWHERE}, {'x', MIB(40), KIND_FORWARD, UNIT0},
        {'d', MIB(20), KIND_SAVED, LINEAR},     {'e', MIB(20), KIND_SAVED, LINEAR},
        {'c', MIB(4), KIND_SAVED, LINEAR},      {'y', MIB(20), KIND_SAVED, LINEAR},
        {'z', MIB(20), KIND_SAVED, LINEAR},     {0}};
    static const struct element copies_elements[] = {
        {'w', F32, 1, false},  {'x', F32, 2, false},  {'d', BF16, 3, false}, {'e', BF16, 3, false},
        {'c', BF16, 1, false}, {'y', BF16, 4, false}, {'z', BF16, 4, false}, {0}};
    /* two layers take x, which dies behind them in forward: in 16 bits it is what both keep */
    TYPED(m, ".+w f+x f+d f+c f+y f+e f+z f-x b-z b-e b-y b-c b-d |", copies);
    struct peaks p = edited(&m, "types=bf16");
    assert_int_equal(p.low, MIB(4 + 20 + 20 + 20));
    assert_in_range(p.high, p.low, p.low + MIB(2));
    /* a copy of what no block is known to be stays as uncertain as it was */
    TYPED(alone, ".+w f+d f+c f+y b-y b-c b-d |", copies);
    p = edited(&alone, "types=bf16");
    assert_int_equal(p.low, MIB(4 + 20));
    assert_true(p.high >= MIB(4 + 20 + 20));
}

/* L are logits, s the log-softmax, g and h the gradients of s and of what was given, w the layer's weight. */
static const struct known losses[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                      {'L', MIB(50), KIND_LOGITS, HEAD},
                                      {'F', MIB(50), KIND_LOGITS, LOSS},
                                      {'s', MIB(50), KIND_LOGITS, LOSSES},
                                      {'t', MIB(50), KIND_LOGITS, LOSSES_HALF},
                                      {'u', MIB(50), KIND_LOGITS, LOSSES_FP32},
                                      {'g', MIB(50), KIND_BACKWARD, LOSSES},
                                      {'h', MIB(50), KIND_BACKWARD, LOSSES},
                                      {'j', MIB(50), KIND_BACKWARD, LOSSES_HALF},
                                      {'k', MIB(50), KIND_BACKWARD, LOSSES_FP32},
                                      {'d', MIB(4), KIND_BACKWARD, HEAD},
                                      {'q', MIB(160), KIND_BACKWARD, UNIT0},
                                      {0}};
static const struct element losses_elements[] = {{'w', F32, 1, false},
                                                 {'L', F32, 2, false},
                                                 {'F', F32, 2, false},
                                                 {'s', F32, 2, false},
                                                 {'t', F32, 2, false},
                                                 {'u', F32, 2, false},
                                                 {'g', F32, 2, false},
                                                 {'h', F32, 2, false},
                                                 {'j', F32, 2, false},
                                                 {'k', F32, 2, false},
                                                 {'d', F32, 3, false},
                                                 {'q', F32, 4, false},
                                                 {0}};

static bool is_open(const struct made *m, struct edit *e, struct edit *other)
{
    char *why = NULL;
    assert_true(edit_parse("types=bf16", e, &why));
    return edit_split(&m->p, e, other);
}

TEST(a_loss_of_unknown_code_has_two_answers)
{
    struct edit half, wide;
    TYPED(m, ".+w l+L l+s l-L b+g b+h b-g b-s b+d b-h b-d |", losses);
    assert_true(is_open(&m, &half, &wide));
    assert_string_equal(half.text, "types=bf16,loss=bf16");
    assert_string_equal(wide.text, "types=bf16,loss=fp32");
    struct peaks p = edited(&m, half.text); /* all is half: s, g and h */
    assert_int_equal(p.low, MIB(4 + 25 + 25 + 25));
    assert_int_equal(p.high, p.low);
    p = edited(&m, wide.text); /* s, g and h stay; what h is copied to is less */
    assert_int_equal(p.low, MIB(4 + 50 + 50 + 50));
    assert_int_equal(p.high, p.low);
    p = edited(&m, "types=bf16"); /* one interval for both, where one is asked for */
    assert_int_equal(p.low, MIB(4 + 75));
    assert_int_equal(p.high, MIB(4 + 150));
}

TEST(a_copy_of_the_logits_goes_with_them_or_takes_their_place)
{
    TYPED(m, ".+w l+L l+s b-s b-L |", losses);
    struct peaks p = edited(&m, "types=bf16,loss=fp32");
    assert_int_equal(p.low, MIB(4 + 50 + 50));       /* the copy alone */
    assert_int_equal(p.high, MIB(4 + 25 + 50 + 50)); /* and what it is a copy of */
}

/* The same code makes both: a function that copies to fp32, or a model that does not. */
TEST(code_that_is_known_to_copy_or_not_has_one_answer)
{
    struct edit half, wide;
    TYPED(given, ".+w l+L l+t l-L b+j b-j b-t |", losses);
    assert_false(is_open(&given, &half, &wide));
    assert_int_equal(edited(&given, "types=bf16").high, MIB(4 + 25 + 25));
    TYPED(copied, ".+w l+L l+u b-u b-L |", losses);
    assert_false(is_open(&copied, &half, &wide));
    struct peaks p = edited(&copied, "types=bf16"); /* the copy is the function's, and ends with it */
    assert_int_equal(p.low, MIB(4 + 25 + 50 + 50));
    assert_int_equal(p.high, p.low);
}

/* A copy back to 16 bits is made before the output layer's gradients, d, and is what they are made of. */
TEST(the_gradient_of_a_copy_is_copied_back)
{
    TYPED(m, ".+w l+L l+u l-L b+k b-u b+d b+w b-k |", losses);
    struct peaks p = edited(&m, "types=bf16");
    assert_int_equal(p.phase[BACKWARD], MIB(4 + 50 + 50)); /* u and k; then k 25, d 2 and w 4 are less */
    TYPED(late, ".+w l+L l+u l-L b+k b-u b+d b+q b-k |", losses); /* q takes the place of what is gone then */
    assert_int_equal(edited(&late, "types=bf16").phase[BACKWARD], MIB(4 + 25 + 2 + 80));
}

/* Under autocast a copy that the loss makes itself is autocast's; one that was made before is the program's.
 */
TEST(without_autocast_a_loss_takes_what_the_program_gives_it)
{
    static const struct element casts_elements[] = {
        {'w', F32, 1, false}, {'L', BF16, 2, false}, {'F', F32, 2, false}, {'s', F32, 2, false}, {0}};
    static const struct known casts[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                         {'L', MIB(25), KIND_LOGITS, HEAD},
                                         {'F', MIB(50), KIND_LOGITS, LOSS},
                                         {'s', MIB(50), KIND_LOGITS, LOSSES},
                                         {0}};
    struct edit half, wide;
    TYPED(own, ".+w l+L l+s l+s b-s b-s b-L |", casts); /* the first s is the copy */
    assert_false(is_open(&own, &half, &wide));
    assert_int_equal(edited(&own, "types=bf16").high, MIB(4 + 25 + 25));
    TYPED(programs, ".+w l+L l+F l+s b-s b-F b-L |", casts);
    assert_false(is_open(&programs, &half, &wide));
    assert_int_equal(edited(&programs, "types=bf16").low, MIB(4 + 25 + 50 + 50));
}

TEST(logits_that_are_next_to_nothing_have_no_two_answers)
{
    static const struct known small[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                         {'a', MIB(900), KIND_SAVED, UNIT0},
                                         {'L', MIB(1), KIND_LOGITS, HEAD},
                                         {'s', MIB(1), KIND_LOGITS, LOSSES},
                                         {0}};
    static const struct element small_elements[] = {
        {'w', F32, 1, false}, {'a', F32, 3, false}, {'L', F32, 2, false}, {'s', F32, 2, false}, {0}};
    struct edit half, wide;
    TYPED(m, ".+w f+a l+L l+s b-s b-L b-a |", small);
    assert_false(is_open(&m, &half, &wide));
    struct peaks p = edited(&m, "types=bf16");
    assert_true(p.low <= MIB(4 + 450 + 1) && p.high >= MIB(4 + 450 + 2)); /* both are in the one */
}

/* Frames as a recording has them, outermost first. */
static struct edit_stack through(const struct trace_frame *frames, size_t n)
{
    struct edit_stack s = {0};
    for (size_t i = 0; i < n; i++) {
        enum loss_giving gives = loss_code_gives(&frames[i]);
        s.loss = s.loss || loss_code_is_loss(&frames[i]);
        s.as_given = gives == GIVES_ON ? s.as_given : gives == GIVES_AS_IT_IS;
    }
    return s;
}
#define PYTHON(function_, file_)                                                                             \
    {                                                                                                        \
        .kind = VS_FRAME_PYTHON, .function = (function_), .file = (file_)                                    \
    }
#define MODELS "/opt/torch/v/site-packages/transformers/models/" /* not in PyTorch for that */
#define TORCH  "/opt/torch/v/site-packages/torch/nn/"

TEST(which_code_gives_its_loss_16_bits_is_known_by_its_name)
{
    struct trace_frame bert = PYTHON("BertForMaskedLM.forward", MODELS "bert/modeling_bert.py"),
                       t5 = PYTHON("T5ForConditionalGeneration.forward", MODELS "t5/modeling_t5.py"),
                       vision =
                           PYTHON("LlavaForConditionalGeneration.forward", MODELS "llava/modeling_llava.py"),
                       decoder = PYTHON("BartForCausalLM.forward", MODELS "bart/modeling_bart.py"),
                       mine = PYTHON("BertForMaskedLM.forward", "/home/me/train.py"),
                       module = PYTHON("CrossEntropyLoss.forward", TORCH "modules/loss.py"),
                       call = PYTHON("cross_entropy", TORCH "functional.py"),
                       other = PYTHON("softmax", TORCH "functional.py"),
                       smooth = PYTHON("LabelSmoother.__call__", "/home/me/loss.py"),
                       node = {.kind = VS_FRAME_NODE, .function = "NllLossBackward0"},
                       product = {.kind = VS_FRAME_NODE, .function = "MmBackward0"};
    struct edit_stack s = through((struct trace_frame[]){bert, module, call}, 3);
    assert_true(s.loss && s.as_given);
    s = through((struct trace_frame[]){bert, module, node}, 3);
    assert_true(s.loss && s.as_given);
    s = through((struct trace_frame[]){t5, call}, 2);
    assert_true(s.loss && s.as_given);
    s = through((struct trace_frame[]){bert, smooth, call}, 3); /* what is between may have copied */
    assert_true(s.loss && !s.as_given);
    s = through((struct trace_frame[]){vision, call}, 2); /* some versions copy */
    assert_true(s.loss && !s.as_given);
    s = through((struct trace_frame[]){decoder, call}, 2);
    assert_true(s.loss && !s.as_given);
    s = through((struct trace_frame[]){mine, call}, 2);
    assert_true(s.loss && !s.as_given);
    s = through((struct trace_frame[]){bert, other}, 2);
    assert_false(s.loss);
    s = through((struct trace_frame[]){bert, product}, 2);
    assert_false(s.loss);
    assert_true(loss_code_upcasts("ForCausalLMLoss") && loss_code_upcasts("ForMaskedLMLoss"));
    assert_false(loss_code_upcasts("ForSequenceClassificationLoss") ||
                 loss_code_upcasts("fixed_cross_entropy"));
}

TEST(what_a_loss_computes_in_can_be_said)
{
    struct edit e;
    char *why = NULL;
    assert_true(edit_parse("types=bf16,loss=fp32", &e, &why));
    assert_int_equal(e.loss, LOSS_FP32);
    assert_true(edit_parse("types=bf16,loss=bf16", &e, &why));
    assert_int_equal(e.loss, LOSS_HALF);
    assert_false(edit_parse("types=bf16,loss=", &e, &why));
    assert_non_null(strstr(why, "loss=fp32"));
    free(why);
}
