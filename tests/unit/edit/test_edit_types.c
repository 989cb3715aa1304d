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

TEST(whole_numbers_and_workspaces_keep_their_bytes_in_bf16)
{
    TYPED(m, ".+w f+k f+i f+a b+g b-a b-i .-g |", fp32);
    struct peaks p = edited(&m, "types=bf16");
    assert_int_equal(p.low, MIB(4 + 32 + 16 + 25 + 4));
    assert_in_range(p.high, MIB(4 + 32 + 16 + 25 + 4), MIB(4 + 32 + 16 + 25 + 4 + 3));
}

/* L are the output layer's logits, F the loss's, B their gradient, y another layer's. */
TEST(what_the_loss_computes_in_may_be_said)
{
    static const struct known said[] = {
        {'w', MIB(8), KIND_PARAMETER, NOWHERE}, {'y', MIB(40), KIND_SAVED, NOWHERE},
        {'L', MIB(100), KIND_LOGITS, HEAD},     {'F', MIB(100), KIND_LOGITS, LOSS},
        {'B', MIB(100), KIND_BACKWARD, LOSS},   {0}};
    static const struct element said_elements[] = {{'w', F32, 1, false}, {'y', F32, 3, false},
                                                   {'L', F32, 2, false}, {'F', F32, 2, false},
                                                   {'B', F32, 2, false}, {0}};
    TYPED(m, ".+w f+y l+L l+F b+B b-B b-F b-L b-y |", said);
    struct peaks p = edited(&m, "types=bf16,loss=fp32");
    assert_int_equal(p.low, MIB(4 + 20 + 50 + 100 + 100));
    assert_in_range(p.high, MIB(4 + 40 + 150 + 100 + 100), MIB(4 + 40 + 150 + 100 + 100 + 5));
    p = edited(&m, "types=bf16,loss=bf16");
    assert_int_equal(p.low, MIB(4 + 20 + 50 + 50 + 50));
    assert_in_range(p.high, MIB(4 + 40 + 150 + 50 + 50), MIB(4 + 40 + 150 + 50 + 50 + 5));
    p = edited(&m, "types=bf16");
    assert_int_equal(p.low, MIB(4 + 20 + 50 + 50 + 50));
    assert_in_range(p.high, MIB(4 + 40 + 150 + 100 + 100), MIB(4 + 40 + 150 + 100 + 100 + 5));
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
    struct peaks p = edited(&m, "types=bf16"); /* the least is w, x, y, g; the most d and h too */
    assert_int_equal(p.low, MIB(4 + 20 + 20 + 4));
    assert_in_range(p.high, MIB(4 + 20 + 20 + 20 + 4 + 4), MIB(4 + 20 + 20 + 20 + 4 + 4 + 1));
}

/* z has w's shape too: one copy of w is there already. */
TEST(data_in_a_weights_shape_are_no_second_copy_of_it)
{
    TYPED(m, ".+w f+x f+c f+z b-z b-c b-x |", autocast);
    assert_int_equal(edited(&m, "types=bf16").low, MIB(4 + 20 + 4));
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

/* Units 0 and 1 attend; CALL is a softmax that unit 1 calls in Python, SQUARED the backward of a norm that is
 * written in Python. */
enum { ATTENDS = NODE1 + 1, WRITTEN, CALL, NORMS, SQUARED, RECURRENT, ALL };

static const struct edit_stack attending[ALL] = {
    [NOWHERE] = {.unit = EDIT_NO_UNIT},
    [UNIT0] = {.unit = 0, .layer = 1},
    [HEAD] = {.unit = EDIT_NO_UNIT, .layer = 3},
    [LOSS] = {.unit = EDIT_NO_UNIT, .layer = 4},
    [ATTENDS] = {.unit = 0, .layer = 6, .attends = true},
    [WRITTEN] = {.unit = 1, .layer = 7, .attends = true},
    [CALL] = {.unit = 1, .layer = 8, .attends = true, .softmax = true},
    [NORMS] = {.unit = 0, .layer = 5, .norm = true},
    [SQUARED] = {.unit = 0, .layer = 5, .norm = true, .squares = true},
    [RECURRENT] = {.unit = 0, .layer = 9, .recurrent = true},
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

/* Queries, keys, values, the output and perhaps a copy of it, in 16 bits or one of them wide. */
TEST(fused_attention_copies_its_output_or_does_not)
{
    static const struct known fused[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                         {'o', MIB(40), KIND_SAVED, ATTENDS},
                                         {'y', MIB(40), KIND_SAVED, UNIT0},
                                         {0}};
    static const struct element fused_elements[] = {
        {'w', F32, 1, false}, {'o', F32, 2, false}, {'y', F32, 3, false}, {0}};
    struct peaks p = attends(".+w f+o f+o f+o f+y b-y b-o b-o b-o |", fused, fused_elements);
    assert_in_range(p.low, MIB(4 + 2 * 20 + 20), MIB(4 + 2 * 20 + 21));
    assert_in_range(p.high, MIB(4 + 3 * 30 + 20), MIB(4 + 3 * 30 + 22));
}

/* q is kept for the squares s, of which the mask m is; d is what a dropout kept, of a softmax in Python. */
TEST(squares_go_if_16_bits_are_fused_or_stay_with_their_copies)
{
    static const struct known squares[] = {
        {'w', MIB(8), KIND_PARAMETER, NOWHERE}, {'q', MIB(40), KIND_SAVED, ATTENDS},
        {'s', MIB(200), KIND_SAVED, ATTENDS},   {'m', MIB(50), KIND_SAVED, ATTENDS},
        {'y', MIB(20), KIND_SAVED, UNIT0},      {'Q', MIB(40), KIND_SAVED, WRITTEN},
        {'S', MIB(40), KIND_SAVED, CALL},       {0}};
    static const struct element squares_elements[] = {
        {'w', F32, 1, false}, {'q', F32, 2, false}, {'s', F32, 3, false}, {'m', ELEMENT_BOOL, 3, false},
        {'y', F32, 4, false}, {'Q', F32, 2, false}, {'S', F32, 4, false}, {0}};
    struct peaks p = attends(".+w f+q f+s f+m f+y b-y b-m b-s b-q |", squares, squares_elements);
    assert_int_equal(p.low, MIB(4 + 10 + 10));
    assert_in_range(p.high, MIB(4 + 50 + 300 + 50 + 10), MIB(4 + 50 + 300 + 50 + 14));
    p = attends(".+w f+Q f+S f+y b-y b-S b-Q |", squares, squares_elements); /* none is that large */
    assert_int_equal(p.low, MIB(4 + 10 + 20 + 10));
    assert_in_range(p.high, MIB(4 + 50 + 60 + 10), MIB(4 + 50 + 60 + 11));
}

TEST(a_norm_in_python_may_keep_its_input_in_fp32)
{
    static const struct known norms[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                         {'p', MIB(40), KIND_SAVED, NORMS},
                                         {'g', MIB(40), KIND_BACKWARD, SQUARED},
                                         {0}};
    static const struct element norms_elements[] = {
        {'w', F32, 1, false}, {'p', F32, 2, false}, {'g', F32, 2, false}, {0}};
    struct peaks p = attends(".+w f+p b+g b-g b-p |", norms, norms_elements);
    assert_int_equal(p.low, MIB(4 + 20 + 20));
    assert_in_range(p.high, MIB(4 + 50 + 40), MIB(4 + 50 + 41));
    p = attends(".+w f+p b-p |", norms, norms_elements); /* one kernel: no square in backward */
    assert_int_equal(p.low, MIB(4 + 20));
    assert_in_range(p.high, p.low, p.low + MIB(1));
}

/* Logits l of the output layer and s of the loss, whose gradient is g. */
TEST(a_loss_may_copy_its_logits_to_fp32)
{
    static const struct known losses[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                          {'l', MIB(40), KIND_LOGITS, HEAD},
                                          {'s', MIB(40), KIND_LOGITS, LOSS},
                                          {'g', MIB(40), KIND_BACKWARD, LOSS},
                                          {0}};
    static const struct element losses_elements[] = {
        {'w', F32, 1, false}, {'l', F32, 2, false}, {'s', F32, 2, false}, {'g', F32, 2, false}, {0}};
    struct peaks p = attends(".+w l+l l+s b+g b-g b-s b-l |", losses, losses_elements);
    assert_int_equal(p.low, MIB(4 + 20 + 20 + 20));
    assert_int_equal(p.high, MIB(4 + 60 + 40 + 40));
    static const struct element cast_elements[] = {
        {'w', F32, 1, false}, {'l', BF16, 1, false}, {'s', F32, 2, false}, {0}};
    p = attends(".+w l+l l+s b-s b-l |", losses, cast_elements); /* l would be a copy of w */
    assert_int_equal(p.low, MIB(4));
}

/* r is what cuDNN keeps of a recurrent layer, u a convolution's workspace. */
TEST(a_librarys_bytes_are_half_to_twice_and_recurrent_layers_are_refused)
{
    static const struct known bytes[] = {{'w', MIB(8), KIND_PARAMETER, NOWHERE},
                                         {'u', MIB(100), KIND_FORWARD, UNIT0},
                                         {'r', MIB(100), KIND_BACKWARD, RECURRENT},
                                         {0}};
    static const struct element bytes_elements[] = {
        {'w', F32, 1, false}, {'u', 0, 0, true}, {'r', ELEMENT_UINT8, 5, false}, {0}};
    struct peaks p = attends(".+w f+u f-u |", bytes, bytes_elements);
    assert_int_equal(p.low, MIB(4 + 50));
    assert_int_equal(p.high, MIB(4 + 200));
    TYPED(m, ".+w b+r b-r |", bytes);
    facts.stacks = (struct edit_stack *)attending;
    facts.stack_count = ALL;
    assert_refused(&m, "types=bf16", "recurrent layers");
    facts.stacks = stacks;
    facts.stack_count = STACKS;
    facts.types = false;
    assert_refused(&m, "types=bf16", "element types are not known");
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
TEST(blocks_of_two_lengths_may_grow_with_the_square_however_small_they_are)
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
    assert_int_equal(edited(&m, "sequence=2").low, MIB(8 + 2 + 20 + 40 + 20 + 2));
    assert_int_equal(edited(&m, "sequence=2").high, MIB(8 + 4 + 40 + 40 + 20 + 2));
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

/* u is a convolution's workspace, v what a recurrent layer's call takes. */
TEST(a_librarys_workspace_grows_with_the_data_or_stays)
{
    static const struct known work[] = {{'w', MIB(2), KIND_PARAMETER, NOWHERE},
                                        {'y', MIB(200), KIND_SAVED, UNIT0},
                                        {'u', MIB(100), KIND_FORWARD, UNIT0},
                                        {'v', MIB(100), KIND_BACKWARD, UNIT0},
                                        {0}};
    static const struct element work_elements[] = {
        {'w', F32, 1, false}, {'y', F32, 2, false}, {'u', 0, 0, true}, {'v', ELEMENT_UINT8, 4, false}, {0}};
    TYPED(m, ".+w f+y f+u f-u b+v b-v b-y |", work);
    struct peaks p = edited(&m, "batch=2");
    assert_int_equal(p.phase[FORWARD], MIB(2 + 400 + 100));
    assert_int_equal(p.phase[BACKWARD], MIB(2 + 400 + 100));
    assert_int_equal(p.high_forward, MIB(2 + 400 + 200));
    assert_int_equal(p.high_backward, MIB(2 + 400 + 200));
}
