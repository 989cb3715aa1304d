/* test_edit_kernels.c - types=bf16 where kernels decide: attention in parts, cuDNN's workspaces, norms by
 * hand. */
#include "made.h"

enum { F32 = ELEMENT_FLOAT32, BOOL = ELEMENT_BOOL, U8 = ELEMENT_UINT8 };
enum {
    CALL = 1,
    CALLED,
    GIVES,
    BACK,
    LSTM,
    LSTM_BACK,
    CONV,
    CONV_BACK,
    NORMS,
    NORMS_BACK,
    QUERIES,
    QUERIES_BACK,
    SOFTMAX,
    SOFTMAX_BACK,
    ALL
};

/* Attention is called at one line of layer 1 (CALL), and what it gives is taken at another (GIVES). */
static struct edit_stack calling[ALL] = {
    [NOWHERE] = {.unit = EDIT_NO_UNIT},
    [CALL] = {.unit = 0, .layer = 1, .line = 7},
    [CALLED] = {.unit = 0, .layer = 1, .line = 8},
    [GIVES] = {.unit = 0, .layer = 2, .line = 9},
    [BACK] = {.unit = 0, .layer = 1, .line = 7, .parts = true},
    [LSTM] = {.unit = 0, .layer = 3, .line = 10},
    [LSTM_BACK] = {.unit = 0, .layer = 3, .line = 10, .recurrent = true},
    [CONV] = {.unit = 0, .layer = 4, .line = 11},
    [CONV_BACK] = {.unit = 0, .layer = 4, .line = 11, .convolves = true},
    [NORMS] = {.unit = 0, .layer = 5, .line = 12, .norm = true, .library = true},
    [NORMS_BACK] = {.unit = 0, .layer = 5, .line = 12, .norm = true, .library = true, .squares = true},
    [QUERIES] = {.unit = 0, .layer = 1, .line = 13, .attends = true},
    [SOFTMAX] = {.unit = 0, .layer = 1, .line = 14, .attends = true, .softmax = true},
    [SOFTMAX_BACK] = {.unit = 0, .layer = 1, .line = 14, .attends = true},
    [QUERIES_BACK] = {.unit = 0, .layer = 1, .line = 13, .attends = true},
};

struct dims { /* of blocks, as far as they matter */
    char name;
    uint8_t rank;
    uint64_t outer, inner;
};
static const struct dims none[] = {{0}};

static struct peaks changed(const char *change, const char *text, const struct known *table,
                            const struct element *of, const struct dims *dims)
{
    struct made m = typed(text, table, of);
    for (; dims->name; dims++) {
        asked_for[(int)dims->name].rank = dims->rank;
        asked_for[(int)dims->name].outer = dims->outer;
        asked_for[(int)dims->name].inner[0] = dims->inner;
    }
    m.p.blocks = m.blocks;
    m.p.events = m.events;
    facts.stacks = calling;
    facts.stack_count = ALL;
    struct peaks p = edited(&m, change);
    facts.stacks = stacks;
    facts.stack_count = STACKS;
    return p;
}

static struct peaks calls(const char *text, const struct known *table, const struct element *of,
                          const struct dims *dims)
{
    return changed("types=bf16", text, table, of, dims);
}

/* Queries q and keys k are scaled; scores s, weights t, the masks m and n of rows, output o, and y of it in
 * another order; backward makes g and h of the squares' size. */
static const struct known parts[] = {
    {'w', MIB(8), KIND_PARAMETER, NOWHERE}, {'q', MIB(10), KIND_SAVED, CALL},
    {'k', MIB(10), KIND_SAVED, CALL},       {'s', MIB(200), KIND_FORWARD, CALL},
    {'t', MIB(200), KIND_SAVED, CALL},      {'m', MIB(50), KIND_FORWARD, CALL},
    {'n', MIB(1), KIND_FORWARD, CALL},      {'o', MIB(10), KIND_FORWARD, CALL},
    {'y', MIB(10), KIND_SAVED, GIVES},      {'g', MIB(200), KIND_BACKWARD, BACK},
    {'h', MIB(200), KIND_BACKWARD, BACK},   {0}};
static const struct element parts_elements[] = {
    {'w', F32, 1, false}, {'q', F32, 2, false},  {'k', F32, 3, false},  {'s', F32, 4, false},
    {'t', F32, 4, false}, {'m', BOOL, 4, false}, {'n', BOOL, 5, false}, {'o', F32, 6, false},
    {'y', F32, 6, false}, {'g', F32, 4, false},  {'h', F32, 4, false},  {0}};
static const struct dims usual[] = {{'k', 4, 0, 0}, {'o', 3, 0, 64}, {0}};
static const struct dims grouped[] = {{'k', 5, 0, 0}, {'o', 3, 0, 64}, {0}};
static const struct dims odd[] = {{'k', 4, 0, 0}, {'o', 3, 0, 66}, {0}};
static const char in_parts[] =
    ".+w f+q f+k f+s f+t f+m f+n f-n f-m f-s f+o f+y f-o b-y b+g b+h b-g b-h b-t b-k "
    "b-q |";

TEST(attention_in_parts_for_its_layout_stays_in_fp32)
{
    struct peaks p = calls(in_parts, parts, parts_elements, usual);
    /* in backward: parameter, the four that are saved (values too), the wide gradient's square and its like
     */
    uint64_t back = MIB(4 + 10 + 10 + 10 + 200 + 200 + 200);
    assert_int_equal(p.low, back);
    assert_in_range(p.high, back, back + MIB(5));
    assert_int_equal(p.phase[FORWARD], MIB(4 + 5 * 10 + 200 + 200 + 50 + 1));
}

TEST(attention_of_grouped_or_odd_heads_may_be_fused_in_16_bits)
{
    struct peaks p = calls(in_parts, parts, parts_elements, grouped);
    assert_true(p.low < MIB(60));
    assert_true(p.high >= MIB(600));
    p = calls(in_parts, parts, parts_elements, odd);
    assert_true(p.low < MIB(60));
    assert_true(p.high >= MIB(600));
}

TEST(without_the_softmaxs_masks_it_is_another_programs_product)
{
    struct peaks p = calls(".+w f+q f+k f+s f+t f-s f+o f+y f-o b-y b+g b+h b-g b-h b-t b-k b-q |", parts,
                           parts_elements, usual);
    assert_true(p.low <= MIB(320));
}

/* Input x, state c of two layers in both directions, workspace u, reserve r; in backward the workspace v and
 * the weights' gradient g in one piece. */
static const struct known recurrent[] = {
    {'w', MIB(20), KIND_PARAMETER, NOWHERE},  {'x', MIB(10), KIND_SAVED, LSTM},
    {'c', MIB(1), KIND_FORWARD, LSTM},        {'u', MIB(132), KIND_FORWARD, LSTM},
    {'r', MIB(100), KIND_SAVED, LSTM},        {'v', MIB(132), KIND_BACKWARD, LSTM_BACK},
    {'g', MIB(20), KIND_GRADIENT, LSTM_BACK}, {0}};
static const struct element recurrent_elements[] = {
    {'w', F32, 1, false}, {'x', F32, 2, false}, {'c', F32, 3, false}, {'u', U8, 4, false},
    {'r', U8, 5, false},  {'v', U8, 4, false},  {'g', F32, 1, false}, {0}};
static const struct dims layers[] = {{'x', 3, 250, 0}, {'c', 3, 4, 0}, {'u', 1, 0, 0}, {'g', 1, 0, 0}, {0}};

TEST(a_recurrent_layers_reserve_is_half_and_its_weights_are_copied)
{
    struct peaks p =
        calls(".+w f+x f+c f+u f+r f-u f-c b+v b+g b-v b-r b-x .-g |", recurrent, recurrent_elements, layers);
    /* the workspace has 8 MiB for each of 4, whatever the type */
    uint64_t work = MIB((132 - 32) / 2 + 32);
    assert_int_equal(p.phase[FORWARD], MIB(10 + 5) + KIB(512) + MIB(10 + 50) + work);
    assert_int_equal(p.low, MIB(10 + 5 + 10 + 50 + 10) + work);
    assert_in_range(p.high, p.low, p.low + MIB(3));
}

TEST(under_autocast_a_recurrent_layers_workspaces_are_those_of_16_bits)
{
    struct element half[8];
    memcpy(half, recurrent_elements, sizeof half);
    half[1].type = half[2].type = ELEMENT_BFLOAT16;
    struct peaks p = calls(".+w f+x f+c f+u f+r f-u f-c b+v b+g b-v b-r b-x .-g |", recurrent, half, layers);
    assert_int_equal(p.low, MIB(10 + 100 + 132 + 10)); /* x may be a copy of its input */
}

TEST(attention_in_parts_under_autocast_has_its_copies_already)
{
    struct element half[12];
    memcpy(half, parts_elements, sizeof half);
    half[8].type = ELEMENT_BFLOAT16;
    struct known given[12];
    memcpy(given, parts, sizeof given);
    given[8].stack = CALL; /* y is the output in 16 bits, at the same line */
    struct peaks p = calls(in_parts, given, half, usual);
    assert_int_equal(p.phase[FORWARD], MIB(4 + 10 + 10 + 200 + 200 + 50 + 1));
}

TEST(a_recurrent_layers_workspace_grows_by_what_is_of_the_data)
{
    struct peaks p = changed("batch=2", ".+w f+x f+c f+u f+r f-u f-c b+v b+g b-v b-r b-x .-g |", recurrent,
                             recurrent_elements, layers);
    /* 8 MiB for each of 4, and the weights' 20, stay */
    assert_int_equal(p.low, MIB(20 + 2 * (10 + 100 + 132 - 32 - 20) + 32 + 20 + 20));
}

TEST(a_convolutions_workspace_grows_with_the_data_or_stays)
{
    static const struct known convolution[] = {{'w', MIB(2), KIND_PARAMETER, NOWHERE},
                                               {'y', MIB(200), KIND_SAVED, CONV},
                                               {'u', MIB(100), KIND_FORWARD, CONV},
                                               {'x', MIB(100), KIND_BACKWARD, CONV_BACK},
                                               {0}};
    static const struct element convolution_elements[] = {
        {'w', F32, 1, false}, {'y', F32, 2, false}, {'u', 0, 0, true}, {'x', F32, 3, false}, {0}};
    struct peaks p =
        changed("batch=2", ".+w f+y f+u f-u b+x b-y b-x |", convolution, convolution_elements, none);
    assert_int_equal(p.phase[FORWARD], MIB(2 + 400 + 100));
    assert_int_equal(p.high_forward, MIB(2 + 400 + 200));
}

TEST(bytes_of_other_layers_stay)
{
    static const struct known others[] = {{'w', MIB(20), KIND_PARAMETER, NOWHERE},
                                          {'r', MIB(100), KIND_SAVED, LSTM},
                                          {'u', MIB(100), KIND_FORWARD, CONV},
                                          {0}};
    static const struct element others_elements[] = {
        {'w', F32, 1, false}, {'r', U8, 5, false}, {'u', 0, 0, true}, {0}};
    struct peaks p = calls(".+w f+r f+u f-u b-r |", others, others_elements, none);
    assert_int_equal(p.low, MIB(10 + 100 + 100));
}

TEST(a_convolutions_workspace_is_half_or_copies_of_both_its_data)
{
    static const struct known convolution[] = {{'w', MIB(2), KIND_PARAMETER, NOWHERE},
                                               {'y', MIB(200), KIND_SAVED, CONV},
                                               {'u', MIB(100), KIND_FORWARD, CONV},
                                               {'x', MIB(100), KIND_BACKWARD, CONV_BACK},
                                               {0}};
    static const struct element convolution_elements[] = {
        {'w', F32, 1, false}, {'y', F32, 2, false}, {'u', 0, 0, true}, {'x', F32, 3, false}, {0}};
    struct peaks p = calls(".+w f+y f+u f-u b+x b-y b-x |", convolution, convolution_elements, none);
    assert_int_equal(p.phase[FORWARD], MIB(1 + 100 + 50));
    assert_in_range(p.high, MIB(1 + 100 + 150), MIB(1 + 100 + 150 + 5));
}

/* COPIES: the norm begins with a copy in fp32, as all that are named RMSNorm. */
static struct peaks norms_of(const char *text, bool copies, bool wide, bool library)
{
    static const struct known norms[] = {{'w', MIB(2), KIND_PARAMETER, NOWHERE},
                                         {'x', MIB(40), KIND_SAVED, GIVES},
                                         {'p', MIB(40), KIND_SAVED, NORMS},
                                         {'y', MIB(40), KIND_SAVED, NORMS},
                                         {'t', MIB(40), KIND_FORWARD, NORMS},
                                         {'g', MIB(1), KIND_BACKWARD, NORMS_BACK},
                                         {0}};
    static const struct element norms_elements[] = {{'w', F32, 1, false},
                                                    {'x', F32, 2, false},
                                                    {'p', F32, 2, false},
                                                    {'y', F32, 2, false},
                                                    {'t', F32, 2, false},
                                                    {'g', F32, 3, false},
                                                    {0}};
    for (int k = NORMS; k <= NORMS_BACK; k++) {
        calling[k].upcast = copies;
        calling[k].wide_norm = wide;
        calling[k].library = library;
    }
    return calls(text, norms, norms_elements, none);
}

/* x is given to a norm in Python that keeps the product p and the output y. */
TEST(a_norm_in_fp32_keeps_its_bytes_and_what_it_was_given_by_its_class)
{
    static const char text[] = ".+w f+x f+p f+y b+g b-g b-y b-p b-x |";
    struct peaks p = norms_of(text, true, false, true); /* the copy is kept, and x is not */
    assert_in_range(p.low, MIB(1 + 80), MIB(1 + 80 + 1));
    assert_in_range(p.high, p.low, MIB(1 + 80 + 3));
    p = norms_of(text, false, false, true); /* T5's multiplies x itself */
    assert_in_range(p.low, MIB(1 + 20 + 80), MIB(1 + 20 + 80 + 1));
    assert_in_range(p.high, p.low, MIB(1 + 20 + 80 + 3));
    p = norms_of(text, true, true, true); /* Gemma's: a product in fp32, too */
    assert_in_range(p.high, MIB(1 + 100), MIB(1 + 100 + 3));
    p = norms_of(text, true, false, false); /* of other code it is not known */
    assert_in_range(p.high, MIB(1 + 20 + 100), MIB(1 + 20 + 100 + 3));
    p = norms_of(".+w f+x f+p f+y b-y b-p b-x |", true, false, true); /* one kernel: no square in backward */
    assert_int_equal(p.low, MIB(1 + 60));
}

/* Of a layer that is computed again: t is made and goes in forward, and x is what it is computed again from.
 */
TEST(what_a_norm_was_given_is_kept_where_the_norm_keeps_nothing)
{
    struct peaks p = norms_of(".+w f+x f+t f-t b+g b-g b-x |", true, false, true);
    assert_in_range(p.low, MIB(1 + 20 + 40), MIB(1 + 20 + 40 + 1));
}

/* Queries q of four extents, put into an order of their own, the fused output o and its sums s; g is what
 * backward makes for q's line, where that computes. */
TEST(attentions_output_is_copied_where_queries_have_an_order_of_their_own)
{
    static const struct known fused[] = {{'w', MIB(2), KIND_PARAMETER, NOWHERE},
                                         {'q', MIB(40), KIND_SAVED, QUERIES},
                                         {'o', MIB(40), KIND_SAVED, QUERIES},
                                         {'s', MIB(1), KIND_SAVED, QUERIES},
                                         {'y', MIB(20), KIND_SAVED, GIVES},
                                         {'g', MIB(40), KIND_BACKWARD, QUERIES_BACK},
                                         {0}};
    static const struct element fused_elements[] = {{'w', F32, 1, false},
                                                    {'q', F32, 2, false},
                                                    {'o', F32, 3, false},
                                                    {'s', F32, 4, false},
                                                    {'y', F32, 5, false},
                                                    {'g', F32, 2, false},
                                                    {0}};
    static const struct dims four[] = {{'q', 4, 3, 64}, {'o', 4, 3, 64}, {'g', 4, 3, 64}, {0}};
    struct peaks p = calls(".+w f+q f+o f+s f+y b-y b-s b-o b-q |", fused, fused_elements, four);
    assert_in_range(p.low, MIB(1 + 20 + 20 + 10), MIB(1 + 20 + 20 + 10 + 1));
    assert_in_range(p.high, MIB(1 + 20 + 20 + 20 + 10), MIB(1 + 20 + 20 + 20 + 10 + 3));
    p = calls(".+w f+q f+o f+s f+y b-y b-s b-o b+g b-g b-q |", fused, fused_elements, four);
    assert_in_range(p.high, p.low, p.low + MIB(3)); /* arithmetic keeps the order */
}

/* Squares s of a softmax that is called in Python, kept in 16 bits, or in fp32 and in 16 bits; d, as large,
 * is a dropout's output, q the queries, y another layer's output; g and h are the gradients behind the
 * softmax and before it. */
static struct peaks written_of(const char *text)
{
    static const struct known written[] = {{'w', MIB(2), KIND_PARAMETER, NOWHERE},
                                           {'q', MIB(40), KIND_SAVED, CALL},
                                           {'s', MIB(400), KIND_SAVED, SOFTMAX},
                                           {'d', MIB(400), KIND_SAVED, CALL},
                                           {'y', MIB(20), KIND_SAVED, GIVES},
                                           {'g', MIB(400), KIND_BACKWARD, CALL},
                                           {'h', MIB(400), KIND_BACKWARD, SOFTMAX_BACK},
                                           {0}};
    static const struct element elements_of[] = {
        {'w', F32, 1, false}, {'q', F32, 4, false}, {'s', F32, 2, false}, {'d', F32, 2, false},
        {'y', F32, 3, false}, {'g', F32, 2, false}, {'h', F32, 2, false}, {0}};
    return calls(text, written, elements_of, none);
}

#define SLACK MIB(9) /* of what is kept: one in 100 */

TEST(a_written_softmax_may_be_kept_in_fp32_and_in_16_bits)
{
    struct peaks p = written_of(".+w f+s f+y b-y b-s |");
    assert_int_equal(p.low, MIB(1 + 200 + 10)); /* a square, and yet no fused kernel makes it */
    assert_in_range(p.high, MIB(1 + 400 + 200 + 10), MIB(1 + 400 + 200 + 10) + SLACK);
    p = written_of(".+w f+q f+s f+y b-y b-s b-q |");
    assert_int_equal(p.low, MIB(1 + 20 + 200 + 10)); /* queries that were made fp32 for it, or not */
    assert_in_range(p.high, MIB(1 + 40 + 400 + 200 + 10), MIB(1 + 40 + 400 + 200 + 10) + SLACK);
    p = written_of(".+w f+s f+d f+y b-y b-d b-s |"); /* the dropout's output is in 16 bits */
    assert_int_equal(p.low, MIB(1 + 200 + 200 + 10));
    assert_in_range(p.high, MIB(1 + 400 + 200 + 200 + 10), MIB(1 + 400 + 200 + 200 + 10) + SLACK);
    p = written_of(".+w f+d f+s f+y b-y b-s b-d |"); /* scores that are kept, too, may be in fp32 */
    assert_int_equal(p.low, MIB(1 + 200 + 200 + 10));
    assert_in_range(p.high, MIB(1 + 400 + 400 + 200 + 10), MIB(1 + 400 + 400 + 200 + 10) + SLACK);
}

/* nn.Softmax(dim=-1)(scores): what is made around it is of the layer that calls it. */
TEST(a_module_that_is_a_softmax_is_of_the_layer_that_calls_it)
{
    static char layer[] = "Net.h.0.attn", module[] = "Net.h.0.attn.(Softmax)", other[] = "Net.h.0.attn2";
    static char *layer_names[] = {NULL, layer, other, module};
    facts.layer_names = layer_names;
    facts.layer_count = 4;
    calling[SOFTMAX].layer = 3;
    assert_in_range(written_of(".+w f+q f+s f+y b-y b-s b-q |").high, MIB(1 + 40 + 400 + 200 + 10),
                    MIB(1 + 40 + 400 + 200 + 10) + SLACK);
    calling[SOFTMAX].layer = 1;
    facts.layer_names = NULL;
    facts.layer_count = 0;
}

/* In fp32: g is copied to fp32, from which h is made. */
TEST(before_a_softmax_its_gradients_may_be_in_fp32)
{
    struct peaks p = written_of(".+w f+s f+y b-y b+g b+h b-g b-s b-h |");
    assert_int_equal(p.phase[BACKWARD], MIB(1 + 200 + 200 + 200));
    assert_true(p.high_backward >= MIB(1 + 400 + 400 + 400)); /* s, and g and h in fp32 */
}
