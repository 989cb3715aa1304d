/* test_unit_names.c - which modules of a model are its layers, by the paths of modules alone. */

#include "unit/test.h"
#include "edit/program.h"

enum { PATHS = 32 };

/* ROWS: a path and, with a bar behind it, where its unit's name ends; "a.b.0|.c", "a.b.c" in none. */
static void assert_units(const char *const *rows)
{
    const char *paths[PATHS] = {NULL};
    size_t n = 0, wanted[PATHS], found[PATHS];
    for (; rows[n]; n++) {
        size_t length = strlen(rows[n]);
        const char *bar = strchr(rows[n], '|');
        char *path = calloc(1, length + 1);
        wanted[n] = bar ? (size_t)(bar - rows[n]) : 0;
        memcpy(path, rows[n], bar ? wanted[n] : length);
        strcat(path, bar ? bar + 1 : "");
        paths[n] = path;
    }
    unit_names_find(paths, n, found);
    for (size_t i = 0; i < n; i++) {
        if (found[i] != wanted[i])
            fail_msg("%s: %zu, not %zu", paths[i], found[i], wanted[i]);
        free((char *)paths[i]);
    }
}

#define UNITS(...) assert_units((const char *const[]){__VA_ARGS__, NULL})

TEST(a_list_of_modules_is_the_models_layers)
{
    UNITS("Llama.model.layers.0|.mlp.up", "Llama.model.layers.1|.mlp.up", "Llama.model.layers.11|.attn",
          "Llama.model.norm", "Llama.head", "Llama");
    UNITS("ViT.encoder.layers.encoder_layer_0|.ln_1", "ViT.encoder.layers.encoder_layer_0|.mlp.0",
          "ViT.encoder.layers.encoder_layer_1|.ln_2", "ViT.heads.head", "ViT.conv_proj");
}

TEST(what_a_layer_has_in_it_is_no_layer)
{
    UNITS("T5.encoder.block.0|.layer.0.Attention.q", "T5.encoder.block.0|.layer.1.ff.wi",
          "T5.encoder.block.1|.layer.0.Attention.q", "T5.decoder.block.0|.layer.2.ff.wi", "T5.shared");
    UNITS("Mixtral.layers.0|.mlp.experts.0.w1", "Mixtral.layers.0|.mlp.experts.1.w1",
          "Mixtral.layers.1|.mlp.experts.1.w1");
}

TEST(of_a_model_with_stages_each_stages_blocks_are_layers)
{
    UNITS("ResNet.conv1", "ResNet.layer1.0|.conv1", "ResNet.layer1.1|.bn1", "ResNet.layer2.0|.downsample.0",
          "ResNet.fc");
    UNITS("RegNet.stem.0", "RegNet.stem.1", "RegNet.trunk_output.block1.block1-0|.proj.0",
          "RegNet.trunk_output.block1.block1-0|.f.a.0", "RegNet.trunk_output.block1.block1-1|.f.se.fc1",
          "RegNet.trunk_output.block2.block2-0|.f.a.0", "RegNet.fc");
    UNITS("UNet.blocks.0.0|.norm", "UNet.blocks.0.0|.in.2", "UNet.blocks.0.1|.qkv", "UNet.blocks.0.1|.norm",
          "UNet.out.0");
}

TEST(a_sequential_of_operations_is_a_layer_beside_stages)
{
    UNITS("ConvNeXt.features.0|.0", "ConvNeXt.features.0|.1", "ConvNeXt.features.1.0|.block.0",
          "ConvNeXt.features.1.0|.block.2", "ConvNeXt.features.1.1|.block.0", "ConvNeXt.features.1.1|",
          "ConvNeXt.features.2|.0", "ConvNeXt.features.2|.1", "ConvNeXt.features.3.0|.block.0",
          "ConvNeXt.classifier.0", "ConvNeXt.classifier.2");
    UNITS("Swin.features.1.0|.attn.qkv", "Swin.features.1.0|.mlp.0", "Swin.features.2|.reduction",
          "Swin.features.2|.norm");
}

TEST(single_operations_are_layers_where_there_are_no_others)
{
    UNITS("VGG.features.0|", "VGG.features.1|", "VGG.classifier.0|");
    UNITS("Sequential.0|", "Sequential.10|");
    UNITS("Tagger.layers.0|", "Tagger.layers.1|", "Tagger.head");
    UNITS("Net.layers.0|.norm", "Net.layers.0|.up", "Net.layers.1|", "Net.time.0", "Net.time.2");
}

TEST(a_number_behind_a_letter_is_one_of_several_modules_without_lists)
{
    UNITS("UNet.inc.double.0", "UNet.down1|.pool.1.double.0", "UNet.down1|.pool.0",
          "UNet.down2|.pool.1.double.0", "UNet.up1|.conv.double.3", "UNet.up2|.up");
    UNITS("Both.encoder1.layers.0|.ff", "Both.encoder1.layers.1|.ff", "Both.encoder2.layers.0|.ff",
          "Both.encoder2.layers.1|.ff");
    UNITS("Net.layers.0|.conv1.norm", "Net.layers.0|.conv2.norm", "Net.layers.1|.conv1.norm");
    UNITS("Net.conv1", "Net.conv2", "Net.fc1");
    UNITS("Net.stem1.norm", "Net.head.norm");
}

TEST(names_that_begin_alike_are_different_modules)
{
    UNITS("M.a", "M.a-0|.x", "M.a.b", "M.a-1|.x", "M.a.c.0|.y", "M.a.c.00|.y", "M.a0", "M.a.c.0|");
    UNITS("M..0|.x", "M..1|.x", "", ".", "0.x", "M.");
}

TEST(a_path_with_stars_is_matched_name_by_name)
{
    static const struct {
        const char *path, *pattern;
        size_t length;
    } rows[] = {{"Net.layers.10.mlp", "Net.layers.*", 13},
                {"Net.layers.10", "Net.layers.*", 13},
                {"Net.layers", "Net.layers.*", 0},
                {"Net.layers.10.mlp", "Net.*", 10},
                {"Net.layers.10.mlp", "Net.layers.1", 0},
                {"Net.layers.10.mlp", "*.l*r*.1*.mlp", 17},
                {"Net.layers.10.mlp", "Net.l*z.*", 0},
                {"Net.block2-10.f", "Net.block*-*", 13},
                {"Net.abab.x", "Net.*ab", 8},
                {"Net.abac.x", "Net.*ab", 0},
                {"Net..x", "Net.*.x", 6},
                {"Net.layers.0", "Net.layers.*.", 0},
                {"Net.layers.0.", "Net.layers.*.*", 13},
                {"", "*", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (unit_names_match(rows[i].path, rows[i].pattern) != rows[i].length)
            fail_msg("%s, %s: %zu", rows[i].path, rows[i].pattern,
                     unit_names_match(rows[i].path, rows[i].pattern));
}

TEST(a_pattern_has_no_numbers_but_the_models)
{
    static const char *const rows[][2] = {
        {"ConvNeXt.features.1.10", "ConvNeXt.features.*.*"},
        {"RegNet.trunk_output.block2.block2-0", "RegNet.trunk_output.block*.block*-*"},
        {"GPT2.h.0", "GPT2.h.*"},
        {"ViT.w2v.encoder_layer_3", "ViT.w2v.encoder_layer_*"},
        {"Net", "Net"},
        {"Net..1", "Net..*"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *pattern = unit_names_pattern(rows[i][0], strlen(rows[i][0]));
        assert_string_equal(pattern, rows[i][1]);
        free(pattern);
    }
}
