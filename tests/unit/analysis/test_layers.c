/* test_layers.c - the tree of layers: which are one row, and that no byte is told twice or not at all. */

#include "unit/test.h"
#include "analysis/layers.h"
#include "read/living.h"

static struct trace_live live[4096];
static size_t lives;
static char names[4096][64];
static struct layer_row *rows;
static size_t count;
static int64_t rest;

static void hold(int64_t size, const char *type, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(names[lives], sizeof names[lives], format, arguments);
    va_end(arguments);
    live[lives] = (struct trace_live){.size = size, .count = 1, .layer = names[lives], .layer_type = type};
    lives++;
}

/* The rows as text, a line each: depth, name, how many, bytes, least to most. */
static const char *tree(int64_t least, size_t most)
{
    static char text[65536];
    size_t n = 0;
    layers_free(rows, count);
    rows = layers_tree(live, lives, least, most, &count, &rest);
    text[0] = 0;
    for (size_t i = 0; i < count && n < sizeof text - 200; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%*s%s x%d %d (%d..%d)%s%s\n", rows[i].depth, "",
                              rows[i].name, (int)rows[i].layers, (int)rows[i].bytes,
                              (int)(rows[i].layers > 1 ? rows[i].least : 0),
                              (int)(rows[i].layers > 1 ? rows[i].most : 0), rows[i].type ? " " : "",
                              rows[i].type ? rows[i].type : "");
    return text;
}

static int64_t outermost(void)
{
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += rows[i].depth == 0 ? rows[i].bytes : 0;
    return sum;
}

static int clear(void **state)
{
    lives = 0;
    return 0;
}

TEST(layers_by_number_are_one_row_with_what_lies_in_them, clear)
{
    for (int i = 0; i < 32; i++) {
        hold(100, "Attention", "Llama.model.layers.%d.attn", i);
        hold(i == 31 ? 60 : 50, "MLP", "Llama.model.layers.%d.mlp", i);
    }
    hold(500, "Linear", "Llama.head");
    hold(7, "Llama", "Llama");
    assert_string_equal(tree(0, 0), "Llama x1 5317 (0..0) Llama\n"
                                    " model.layers.* x32 4810 (150..160)\n"
                                    "  attn x32 3200 (100..100) Attention\n"
                                    "  mlp x32 1610 (50..60) MLP\n"
                                    " head x1 500 (0..0) Linear\n"
                                    " itself x1 7 (0..0)\n");
    assert_int_equal(outermost(), 5317);
}

TEST(a_number_alone_is_itself, clear)
{
    hold(10, "Linear", "Net.layers.3");
    assert_string_equal(tree(0, 0), "Net.layers.3 x1 10 (0..0) Linear\n");
}

TEST(modules_of_several_classes_in_a_sequence_are_several_rows, clear)
{
    for (int i = 0; i < 6; i += 2) {
        hold(40, "Conv2d", "Net.%d", i);
        hold(20, "ReLU", "Net.%d", i + 1);
    }
    assert_string_equal(tree(0, 0), "Net x1 180 (0..0)\n * x3 120 (40..40) Conv2d\n * x3 60 (20..20) ReLU\n");
}

TEST(ranges_called_by_a_number_at_the_end_are_one_row_where_they_are_many, clear)
{
    for (int i = 0; i < 12; i++)
        hold(10, NULL, "forward/layer %d/self_attn", i);
    for (int i = 1; i <= 4; i++)
        hold(1, NULL, "forward/stage%d", i);
    assert_string_equal(
        tree(0, 0), "forward x1 124 (0..0)\n"
                    " layer */self_attn x12 120 (10..10)\n"
                    " stage1 x1 1 (0..0)\n stage2 x1 1 (0..0)\n stage3 x1 1 (0..0)\n stage4 x1 1 (0..0)\n");
}

TEST(experts_in_layers_are_counted_all_together, clear)
{
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 8; k++)
            hold(3, "Expert", "M.layers.%d.experts.%d", i, k);
    assert_string_equal(tree(0, 0), "M.layers.*.experts x4 96 (24..24)\n * x32 96 (3..3) Expert\n");
}

TEST(a_model_of_a_hundred_layers_fits_on_a_screen, clear)
{
    for (int i = 0; i < 100; i++)
        for (int k = 0; k < 12; k++)
            hold(100 + i, "Linear", "Net.layers.%d.block.part_%c.linear", i, 'a' + k);
    tree(0, 80);
    assert_true(count <= 80);
    assert_true(count > 3);
    for (int i = 0; i < 200; i++) /* and one whose parts have names of their own */
        hold(5, NULL, "Other.m%c%c.inner", 'a' + i % 20, 'a' + i / 20);
    tree(0, 80);
    assert_true(count <= 80);
    int64_t whole = 0;
    for (size_t i = 0; i < lives; i++)
        whole += live[i].size;
    assert_int_equal(outermost(), whole);
}

TEST(small_rows_are_left_out_and_what_has_no_layer_is_the_rest, clear)
{
    hold(1000, NULL, "a");
    hold(1, NULL, "b");
    live[lives++] = (struct trace_live){.size = 17, .count = 2};
    assert_string_equal(tree(10, 0), "a x1 1000 (0..0)\n");
    assert_int_equal(rest, 17);
}
