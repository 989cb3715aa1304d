/* test_parts.c - what lived at a peak in a few rows: no byte is told twice or not at all, and numbers in
 * paths are one row. */

#include "unit/test.h"
#include "analysis/layers.h"
#include "read/living.h"

static struct trace_live live[64];
static size_t lives;

static void hold(int64_t size, const char *role, const char *phase, const char *layer)
{
    live[lives++] =
        (struct trace_live){.size = size, .count = 1, .role = role, .phase = phase, .layer = layer};
}

/* "activation|Model.layers.*|3|600" a line. */
static const char *rows(void)
{
    static char text[4096];
    size_t n, at = 0;
    struct part *parts = parts_of(live, lives, &n);
    text[0] = 0;
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s|%s|%d|%d\n", parts[i].what,
                               parts[i].layer ? parts[i].layer : "-", (int)parts[i].layers,
                               (int)parts[i].bytes);
    parts_free(parts, n);
    lives = 0;
    return text;
}

TEST(layers_with_numbers_are_one_row_and_one_alone_keeps_its_own)
{
    for (int i = 0; i < 3; i++)
        hold(100, "activation", "forward",
             i == 0   ? "Model.layers.0.mlp"
             : i == 1 ? "Model.layers.1.attn"
                      : "Model.layers.12");
    hold(70, "activation", "forward", "Model.layers.1.mlp");
    hold(50, "output", "logits", "Model.lm_head");
    hold(20, "gradient", "backward", "Model.layers.7.mlp");
    assert_string_equal(
        rows(), "activation|Model.layers.*|3|370\noutput|Model.lm_head|1|50\ngradient|Model.layers.7|1|20\n");
}

TEST(what_has_no_role_is_told_by_its_phase_and_what_has_no_layer_has_none)
{
    hold(9, NULL, "forward", NULL);
    hold(8, "not told", "forward", NULL); /* no rule fitted: nothing is known of it either */
    hold(7, NULL, "none", NULL);
    hold(6, NULL, NULL, "");
    hold(5, "parameter", "none", NULL);
    hold(3, NULL, "forward", "forward"); /* the marker that is its phase */
    live[lives] = (struct trace_live){.size = 4, .count = 1, .phase = "none", .category = "before recording"};
    lives++;
    assert_string_equal(rows(), "made in forward|-|0|20\nmade outside any "
                                "phase|-|0|13\nparameter|-|0|5\nheld before recording|-|0|4\n");
}

static void layer_is(const char *path, const char *row, size_t length)
{
    size_t own = 0;
    char *got = part_layer(path, &own);
    assert_string_equal(got, row);
    assert_int_equal(own, length);
    free(got);
}

TEST(a_path_ends_at_its_first_number_or_after_four_names)
{
    layer_is("A.b.0.c", "A.b.*", 5);
    layer_is("A.b.c.d.e", "A.b.c.d", 7);
    layer_is("ResNet.layer1.0.conv1", "ResNet.layer1.*", 15);
    layer_is("7", "*", 1);
    layer_is("step 12/forward/attn", "step */forward/attn", 20);
    layer_is("A", "A", 1);
    layer_is("BertForMaskedLM.bert.encoder.layer.7.output", "BertForMaskedLM.bert.encoder.layer.*", 36);
    layer_is("Peft.base_model.model.model.layers.31.mlp", "Peft.base_model.model.model.layers.*", 37);
    layer_is("A.b.c.d.e.f.g.h.0", "A.b.c.d", 7); /* too deep to be the model's layers */
    assert_null(part_layer(NULL, NULL));
    assert_null(part_layer("", NULL));
}

TEST(nothing_has_no_rows)
{
    assert_string_equal(rows(), "");
    assert_false(parts_have_roles(live, 0));
    hold(1, "not told", "forward", NULL);
    assert_false(parts_have_roles(live, 1));
    assert_false(parts_have_layers(live, 1));
}
