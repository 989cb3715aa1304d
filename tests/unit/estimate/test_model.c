/*
 * test_model.c - parameters are counted as Hugging Face's own classes count theirs, and what cannot be
 * counted is refused.
 *
 * The counts are sum(p.numel() for p in model.parameters()) of transformers 5.23's AutoModelForCausalLM on
 * the device meta.
 */
#include <unistd.h>

#include "unit/test.h"
#include "estimate/model.h"

static char path[] = "/tmp/test_model_XXXXXX", why[512];

static int read_text(struct model *m, const char *text, size_t length)
{
    struct config c;
    FILE *f = fopen(path, "w");
    fwrite(text, 1, length, f);
    fclose(f);
    why[0] = '\0';
    int result = config_read(&c, path, why, sizeof why);
    if (!result)
        result = model_read(m, &c, path, why, sizeof why);
    config_free(&c);
    return result;
}

static int read_config(struct model *m, const char *text)
{
    return read_text(m, text, strlen(text));
}

TEST(counts_are_those_of_transformers)
{
    static const struct {
        const char *name;
        int64_t parameters;
        const char *config;
    } models[] = {
        {"llama3-8b", 8030261248,
         "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
         "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
         "\"vocab_size\": 128256, \"tie_word_embeddings\": false}"},
        {"llama2-7b", 6738415616,
         "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"intermediate_size\": 11008, "
         "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"vocab_size\": 32000}"},
        {"llama3.2-1b", 1235814400,
         "{\"model_type\": \"llama\", \"hidden_size\": 2048, \"intermediate_size\": 8192, "
         "\"num_hidden_layers\": 16, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
         "\"head_dim\": 64, \"vocab_size\": 128256, \"tie_word_embeddings\": true}"},
        {"llama-bias", 106880,
         "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 96, "
         "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
         "\"vocab_size\": 101, \"attention_bias\": true, \"mlp_bias\": true}"},
        {"mistral-7b", 7241732096,
         "{\"model_type\": \"mistral\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
         "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
         "\"vocab_size\": 32000}"},
        {"mistral-nemo", 12247782400,
         "{\"model_type\": \"mistral\", \"hidden_size\": 5120, \"intermediate_size\": 14336, "
         "\"num_hidden_layers\": 40, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
         "\"head_dim\": 128, \"vocab_size\": 131072}"},
        {"qwen2.5-14b", 14770033664,
         "{\"model_type\": \"qwen2\", \"hidden_size\": 5120, \"intermediate_size\": 13824, "
         "\"num_hidden_layers\": 48, \"num_attention_heads\": 40, \"num_key_value_heads\": 8, "
         "\"vocab_size\": 152064, \"tie_word_embeddings\": false}"},
        {"qwen2.5-0.5b", 494032768,
         "{\"model_type\": \"qwen2\", \"hidden_size\": 896, \"intermediate_size\": 4864, "
         "\"num_hidden_layers\": 24, \"num_attention_heads\": 14, \"num_key_value_heads\": 2, "
         "\"vocab_size\": 151936, \"tie_word_embeddings\": true}"},
        {"qwen3-0.6b", 596049920,
         "{\"model_type\": \"qwen3\", \"hidden_size\": 1024, \"intermediate_size\": 3072, "
         "\"num_hidden_layers\": 28, \"num_attention_heads\": 16, \"num_key_value_heads\": 8, "
         "\"head_dim\": 128, \"vocab_size\": 151936, \"tie_word_embeddings\": true}"},
        {"qwen3-8b", 8190735360,
         "{\"model_type\": \"qwen3\", \"hidden_size\": 4096, \"intermediate_size\": 12288, "
         "\"num_hidden_layers\": 36, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
         "\"head_dim\": 128, \"vocab_size\": 151936, \"tie_word_embeddings\": false}"},
        {"gemma-2b", 2506172416,
         "{\"model_type\": \"gemma\", \"hidden_size\": 2048, \"intermediate_size\": 16384, "
         "\"num_hidden_layers\": 18, \"num_attention_heads\": 8, \"num_key_value_heads\": 1, "
         "\"head_dim\": 256, \"vocab_size\": 256000}"},
        {"gemma-7b", 8537680896,
         "{\"model_type\": \"gemma\", \"hidden_size\": 3072, \"intermediate_size\": 24576, "
         "\"num_hidden_layers\": 28, \"num_attention_heads\": 16, \"num_key_value_heads\": 16, "
         "\"head_dim\": 256, \"vocab_size\": 256000}"},
        {"gemma2-2b", 2614341888,
         "{\"model_type\": \"gemma2\", \"hidden_size\": 2304, \"intermediate_size\": 9216, "
         "\"num_hidden_layers\": 26, \"num_attention_heads\": 8, \"num_key_value_heads\": 4, "
         "\"head_dim\": 256, \"vocab_size\": 256000}"},
        {"gemma3-1b", 999885952,
         "{\"model_type\": \"gemma3_text\", \"hidden_size\": 1152, \"intermediate_size\": 6912, "
         "\"num_hidden_layers\": 26, \"num_attention_heads\": 4, \"num_key_value_heads\": 1, "
         "\"head_dim\": 256, \"vocab_size\": 262144}"},
        {"gpt2", 124439808,
         "{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, "
         "\"vocab_size\": 50257, \"n_positions\": 1024}"},
        {"gpt2-xl", 1557611200,
         "{\"model_type\": \"gpt2\", \"n_embd\": 1600, \"n_layer\": 48, \"n_head\": 25, "
         "\"vocab_size\": 50257, \"n_positions\": 1024}"},
        {"gpt2-untied", 71816,
         "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4, "
         "\"vocab_size\": 77, \"n_positions\": 33, \"n_inner\": 100, \"tie_word_embeddings\": false}"},
        {"falcon-7b", 6921720704,
         "{\"model_type\": \"falcon\", \"hidden_size\": 4544, \"num_hidden_layers\": 32, "
         "\"num_attention_heads\": 71, \"vocab_size\": 65024, \"bias\": false, "
         "\"multi_query\": true, \"parallel_attn\": true, \"new_decoder_architecture\": false, "
         "\"alibi\": false}"},
        {"falcon-40b", 41303293952,
         "{\"model_type\": \"falcon\", \"hidden_size\": 8192, \"num_hidden_layers\": 60, "
         "\"num_attention_heads\": 128, \"num_kv_heads\": 8, \"vocab_size\": 65024, "
         "\"bias\": false, \"multi_query\": true, \"parallel_attn\": true, "
         "\"new_decoder_architecture\": true, \"alibi\": false}"},
        {"falcon-rw-1b", 1311625216,
         "{\"model_type\": \"falcon\", \"hidden_size\": 2048, \"num_hidden_layers\": 24, "
         "\"num_attention_heads\": 32, \"vocab_size\": 50304, \"bias\": true, "
         "\"multi_query\": false, \"parallel_attn\": false, \"new_decoder_architecture\": false, "
         "\"alibi\": true}"},
        {"falcon-untied", 94016,
         "{\"model_type\": \"falcon\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
         "\"num_attention_heads\": 4, \"vocab_size\": 50, \"bias\": true, \"multi_query\": true, "
         "\"parallel_attn\": false, \"tie_word_embeddings\": false}"},
        {"falcon-11b", 11102822400,
         "{\"model_type\": \"falcon\", \"hidden_size\": 4096, \"num_hidden_layers\": 60, "
         "\"num_attention_heads\": 32, \"num_kv_heads\": 8, \"vocab_size\": 65024, \"bias\": false, "
         "\"multi_query\": true, \"parallel_attn\": true, \"new_decoder_architecture\": true, "
         "\"num_ln_in_parallel_attn\": 1, \"ffn_hidden_size\": 16384, "
         "\"tie_word_embeddings\": false}"},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct model m;
        if (read_config(&m, models[i].config))
            fail_msg("%s: %s", models[i].name, why);
        if (m.parameters != models[i].parameters)
            fail_msg("%s: %lld instead of %lld", models[i].name, (long long)m.parameters,
                     (long long)models[i].parameters);
    }
}

/* What stands behind the layers is the class's: of each the count of transformers 5.17. */
TEST(the_class_says_what_stands_behind_the_layers)
{
    static const char qwen[] =
        "\"model_type\": \"qwen2\", \"hidden_size\": 3584, \"intermediate_size\": 18944, "
        "\"num_hidden_layers\": 28, \"num_attention_heads\": 28, "
        "\"num_key_value_heads\": 4, \"vocab_size\": 152064",
                      llama[] = "\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 96, "
                                "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, "
                                "\"num_key_value_heads\": 2, \"vocab_size\": 101",
                      gpt2[] = "\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4, "
                               "\"vocab_size\": 77, \"n_positions\": 33",
                      falcon[] = "\"model_type\": \"falcon\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
                                 "\"num_attention_heads\": 4, \"vocab_size\": 50, \"bias\": true, "
                                 "\"parallel_attn\": false",
                      gemma[] =
                          "\"model_type\": \"gemma3_text\", \"hidden_size\": 64, \"intermediate_size\": 96, "
                          "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, "
                          "\"num_key_value_heads\": 2, \"vocab_size\": 101, \"head_dim\": 16",
                      five[] = ", \"id2label\": {\"0\": \"a\", \"1\": \"b\", \"2\": \"c\", \"3\": \"d\", "
                               "\"4\": \"e\"}";
    static const struct {
        const char *sizes, *class, *labels;
        int64_t parameters, outputs;
        bool words;
    } cases[] = {
        {qwen, "Qwen2ForSequenceClassification", ", \"num_labels\": 1", 7070622720, 1, false},
        {qwen, "Qwen2ForCausalLM", "", 7615616512, 152064, true},
        {llama, "LlamaModel", "", 99072, 0, false},
        {llama, "LlamaForSequenceClassification", five, 99392, 5, false},
        {llama, "LlamaForTokenClassification", five, 99397, 5, false},
        {llama, "LlamaForQuestionAnswering", five, 99202, 2, false},
        {gpt2, "GPT2Model", "", 107136, 0, false},
        {gpt2, "GPT2LMHeadModel", "", 107136, 77, true},
        {gpt2, "GPT2ForSequenceClassification", five, 107456, 5, false},
        {falcon, "FalconForTokenClassification", five, 91141, 5, false},
        {falcon, "FalconForSequenceClassification", "", 90816 + 2 * 64, 2, false},
        {gemma, "Gemma3ForCausalLM", "", 99552, 101, true},
        {gemma, "Gemma3TextModel", "", 99552, 0, false},
        {gemma, "Gemma3TextForSequenceClassification", five, 99872, 5, false},
    };
    struct model m;
    char text[1024];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "{%s%s, \"architectures\": [\"%s\"]}", cases[i].sizes, cases[i].labels,
                 cases[i].class);
        if (read_config(&m, text))
            fail_msg("%s: %s", cases[i].class, why);
        if (m.parameters != cases[i].parameters || m.outputs != cases[i].outputs ||
            m.words != cases[i].words || m.unsaid)
            fail_msg("%s: %lld parameters, %lld outputs", cases[i].class, (long long)m.parameters,
                     (long long)m.outputs);
    }
    snprintf(text, sizeof text, "{%s}", llama);
    assert_int_equal(read_config(&m, text), 0);
    assert_true(m.unsaid && m.words);
    static const char *const unknown[] = {"[\"LlamaForCausalLMEagle3\"]", "[\"Qwen2ForCausalLM\"]",
                                          "[\"ForCausalLM\"]"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        snprintf(text, sizeof text, "{%s, \"architectures\": %s}", llama, unknown[i]);
        assert_int_equal(read_config(&m, text), -1);
        assert_non_null(strstr(why, "architectures names a class that is not known here"));
    }
}

static const char models_falcon[] =
    "{\"model_type\": \"falcon\", \"hidden_size\": 4544, \"num_hidden_layers\": 32, \"num_attention_heads\": "
    "71, \"vocab_size\": 65024, "
    "\"bias\": false, \"multi_query\": true, \"parallel_attn\": true, \"new_decoder_architecture\": false, "
    "\"alibi\": false}";

TEST(the_largest_part_is_a_layer_or_the_embedding)
{
    struct model m;
    assert_int_equal(read_config(&m, models_falcon), 0);
    assert_int_equal(m.embedding, 65024 * INT64_C(4544));
    assert_int_equal(model_largest(&m), m.embedding);
    m.layer = m.embedding + 1;
    assert_int_equal(model_largest(&m), m.layer);
    m.layer = m.embedding = UNKNOWN;
    assert_true(model_largest(&m) == UNKNOWN);
}

TEST(a_line_says_what_is_missing)
{
    static const char *const cases[][2] = {
        {"{}", "is not an object"},
        {"[1]", "is not an object"},
        {"{\"hidden_size\": 4}", "model_type is missing"},
        {"{\"model_type\": 7}", "model_type is missing"},
        {"{\"model_type\": \"mamba\"}", "model_type mamba are not known"},
        {"{\"model_type\": \"qwen3_moe\", \"num_experts\": 128}", "qwen3_moe is a mixture of experts"},
        {"{\"model_type\": \"mixtral\", \"num_local_experts\": 8}", "mixtral is a mixture of experts"},
        {"{\"model_type\": \"llama\"}", "hidden_size is missing"},
        {"{\"model_type\": \"llama\", \"hidden_size\": null}", "hidden_size is missing"},
        {"{\"model_type\": \"llama\", \"hidden_size\": -1}", "hidden_size is not a size"},
        {"{\"model_type\": \"llama\", \"hidden_size\": 4.5}", "hidden_size is not a size"},
        {"{\"model_type\": \"llama\", \"hidden_size\": \"4096\"}", "hidden_size is not a size"},
        {"{\"model_type\": \"llama\", \"hidden_size\": [4096]}", "hidden_size is not a size"},
        {"{\"model_type\": \"llama\", \"hidden_size\": 99999999999999999999}", "hidden_size is not a size"},
        {"{\"model_type\": \"llama\", \"hidden_size\": 1e300}", "hidden_size is not a size"},
        {"{\"model_type\": \"llama\", \"hidden_size\": 9223372036854775807}", "hidden_size is not a size"},
        {"{\"model_type\": \"gpt2\", \"n_embd\": 4, \"n_layer\": 1, \"n_head\": 8, \"vocab_size\": 9, "
         "\"n_positions\": 3}",
         "n_head is more than the hidden size"},
        {"{\"model_type\": \"qwen3\", \"hidden_size\": 64, \"num_hidden_layers\": 1, "
         "\"num_attention_heads\": 2, "
         "\"intermediate_size\": 9, \"vocab_size\": 5}",
         "head_dim is missing"},
        {"{\"model_type\": \"llama\", \"quantization_config\": {\"bits\": 4}}",
         "quantization_config is there"},
        {"{\"model_type\": \"llama\", \"hidden_size\": 4096", "is not an object"},
        {"{\"model_type\": \"llama\",}", "is not an object"},
        {"PK\003\004", "is not an object"},
        {"", "is not an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        assert_true(read_config(&m, cases[i][0]) < 0);
        if (!strstr(why, cases[i][1]) || strchr(why, '\n'))
            fail_msg("%s: %s", cases[i][0], why);
    }
}

TEST(hostile_files_are_bounded)
{
    struct model m;
    size_t big = CONFIG_MOST + 1;
    char *text = malloc(big);
    memset(text, ' ', big);
    assert_int_equal(read_text(&m, text, big), -1);
    assert_non_null(strstr(why, "more than 1 MiB"));
    memset(text, '[', big); /* deep */
    assert_int_equal(read_text(&m, text, CONFIG_MOST), -1);
    memset(text, '{', big);
    assert_int_equal(read_text(&m, text, CONFIG_MOST), -1);
    memset(text, 0, big);
    assert_int_equal(read_text(&m, text, 100), -1);
    assert_non_null(strstr(why, "is not JSON"));
    /* many members: those behind the first thousands are not seen, and nothing else happens */
    size_t n = 0;
    text[n++] = '{';
    while (n < CONFIG_MOST - 40)
        n += (size_t)sprintf(text + n, "\"k%zu\":%zu,", n, n);
    n += (size_t)sprintf(text + n, "\"z\":1}");
    assert_int_equal(read_text(&m, text, n), -1);
    assert_non_null(strstr(why, "model_type is missing"));
    free(text);
}

TEST(of_a_name_that_stands_twice_the_last_counts)
{
    struct model m;
    assert_int_equal(
        read_config(&m,
                    "{\"model_type\": \"mamba\", \"model_type\": \"gpt2\", \"n_embd\": 8, \"n_layer\": 1, "
                    "\"n_head\": 2, \"vocab_size\": 9, \"n_positions\": 3}"),
        0);
    assert_int_equal(m.kind, MODEL_GPT2);
}

int main(void)
{
    close(mkstemp(path));
    int failed = run_all_tests(NULL, NULL);
    unlink(path);
    return failed;
}
