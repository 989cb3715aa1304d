/* test_edit_types.c - changes of programs whose element types are known. */
#include "made.h"

enum { F32 = ELEMENT_FLOAT32, BF16 = ELEMENT_BFLOAT16, I32 = 4, I64 = 5 };

/* w, its gradient g and a are wide; i are indices, k a workspace. */
static const struct known fp32[] = {
    {'w', MIB(8), KIND_PARAMETER, NOWHERE}, {'a', MIB(50), KIND_SAVED, UNIT0},
    {'i', MIB(16), KIND_SAVED, UNIT0},      {'k', MIB(32), KIND_OTHER, NOWHERE},
    {'g', MIB(8), KIND_GRADIENT, NODE0},    {0}};
static const struct element fp32_elements[] = {{'w', F32, 1, false}, {'a', F32, 2, false},
                                               {'i', I64, 2, false}, {'k', 0, 0, true},
                                               {'g', F32, 1, false}, {0}};

static void whole_numbers_and_workspaces_keep_their_bytes_in_bf16(void **state)
{
    (void)state;
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

static void a_program_in_bf16_has_nothing_to_change(void **state)
{
    (void)state;
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

static void without_autocast_copies_of_weights_go_and_those_of_data_may(void **state)
{
    (void)state;
    TYPED(m, ".+w f+x f+d f+c f+y b+h b+g b-h b-y b-c b-d b-x .-g |", autocast);
    struct peaks p = edited(&m, "types=bf16");
    /* the least is w, x, y, g; the most d and h too, and 1/25 for workspaces */
    assert_in_range(p.low, MIB(4 + 19 + 20 + 4), MIB(4 + 20 + 20 + 4));
    assert_in_range(p.high, MIB(4 + 20 + 20 + 20 + 4 + 4), MIB(4 + 20 + 20 + 20 + 4 + 4 + 4));
}

/* z has w's shape too: one copy of w is there already. */
static void data_in_a_weights_shape_are_no_second_copy_of_it(void **state)
{
    (void)state;
    TYPED(m, ".+w f+x f+c f+z b-z b-c b-x |", autocast);
    struct peaks p = edited(&m, "types=bf16");
    assert_in_range(p.low, MIB(4 + 19 + 4), MIB(4 + 20 + 4));
}

static void states_have_the_elements_of_their_type(void **state)
{
    (void)state;
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
static void whole_numbers_are_no_floats_to_be_narrowed(void **state)
{
    (void)state;
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

static void a_copy_of_attentions_output_may_be_none_in_bf16(void **state)
{
    (void)state;
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
static void squares_with_a_mask_of_their_own_are_fused_in_bf16(void **state)
{
    (void)state;
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
static void masks_without_a_byte_are_no_masks(void **state)
{
    (void)state;
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
static void blocks_of_two_lengths_grow_with_the_square_however_small_they_are(void **state)
{
    (void)state;
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

/* A mask k that is made in the first forward and kept, weights a that are kept for the next step, and a mask
 * d that comes with the data: 300 x 300; a table t of 300 x 640 that is kept. */
static void squares_that_outlive_their_step_may_grow_with_the_square(void **state)
{
    (void)state;
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

/* Logits l of the output layer; their loss's copy m is made where the code is known to compute in fp32, or
 * nowhere. */
static void whether_a_loss_makes_fp32_is_said_to_be_unknown_where_it_is(void **state)
{
    (void)state;
    static const struct known losses[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                          {'l', MIB(50), KIND_LOGITS, HEAD},
                                          {'m', MIB(50), KIND_LOGITS, NORM},
                                          {0}};
    static const struct element losses_elements[] = {
        {'w', F32, 1, false}, {'l', F32, 2, false}, {'m', F32, 2, false}, {0}};
    static const char *const texts[] = {".+w l+l b-l |", ".+w l+l l+m b-m b-l |"};
    struct edit e;
    char *why = NULL;
    assert_true(edit_parse("types=bf16", &e, &why));
    for (int known = 0; known < 2; known++) {
        TYPED(m, texts[known], losses);
        struct edit_result r = edit_apply(&m.p, &e);
        assert_non_null(r.assumes);
        assert_int_equal(strstr(r.assumes, "as it is not known which") == NULL, known);
        edit_free_result(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_and_workspaces_keep_their_bytes_in_bf16),
        cmocka_unit_test(a_program_in_bf16_has_nothing_to_change),
        cmocka_unit_test(without_autocast_copies_of_weights_go_and_those_of_data_may),
        cmocka_unit_test(data_in_a_weights_shape_are_no_second_copy_of_it),
        cmocka_unit_test(states_have_the_elements_of_their_type),
        cmocka_unit_test(whole_numbers_are_no_floats_to_be_narrowed),
        cmocka_unit_test(a_copy_of_attentions_output_may_be_none_in_bf16),
        cmocka_unit_test(whether_a_loss_makes_fp32_is_said_to_be_unknown_where_it_is),
        cmocka_unit_test(squares_with_a_mask_of_their_own_are_fused_in_bf16),
        cmocka_unit_test(masks_without_a_byte_are_no_masks),
        cmocka_unit_test(blocks_of_two_lengths_grow_with_the_square_however_small_they_are),
        cmocka_unit_test(squares_that_outlive_their_step_may_grow_with_the_square),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
