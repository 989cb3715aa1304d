/* model.c - reads a model's config.json and counts its parameters (model.h). */
#include "model.h"

#include <stdlib.h>
#include <string.h>

/* ---- one number of the file ---- */

struct reading {
    const struct config *config;
    const char *path;
    char *why;
    size_t size;
    bool failed; /* the reason is in WHY */
};

static void fail_so(struct reading *r, const char *name, const char *what, const char *end)
{
    if (!r->failed)
        snprintf(r->why, r->size, "%s: %s %s: %s", r->path, name, what, end);
    r->failed = true;
}

static void fail(struct reading *r, const char *name, const char *what)
{
    fail_so(r, name, what, "nothing can be counted without it");
}

/* It is no model that is known here. */
static void fail_beyond(struct reading *r, const char *name, const char *what)
{
    fail_so(r, name, what, "vramscope fit measures it");
}

/* NAME between 1 and MOST; where it is missing OTHERWISE, and if that is UNKNOWN the reading has failed. */
static int64_t size_of(struct reading *r, const char *name, int64_t most, int64_t otherwise)
{
    int64_t n = config_int(r->config, name);
    if (!config_find(r->config, name)) {
        if (otherwise == UNKNOWN)
            fail(r, name, "is missing");
        return otherwise == UNKNOWN ? 1 : otherwise;
    }
    if (n < 1 || n > most) {
        fail(r, name, "is not a size");
        return 1;
    }
    return n;
}

/* No larger model exists by far, and nothing that is computed of these overflows. */
enum { LAYERS = 1 << 12, HEADS = 1 << 12, HEAD = 1 << 12 };
#define WIDTH     (INT64_C(1) << 20)
#define FFN       (INT64_C(1) << 22)
#define VOCAB     (INT64_C(1) << 24)
#define POSITIONS (INT64_C(1) << 40)

/* The size of a head where the hidden size is divided among HEADS. */
static int64_t divided(struct reading *r, const struct model *m, const char *heads)
{
    if (m->hidden < m->heads)
        fail(r, heads, "is more than the hidden size");
    return m->hidden / m->heads;
}

/* Of gemma and qwen3 it is a size of its OWN, and must be there. */
static int64_t head_size(struct reading *r, const struct model *m, bool own)
{
    if (own || config_find(r->config, "head_dim"))
        return size_of(r, "head_dim", HEAD, UNKNOWN);
    return divided(r, m, "num_attention_heads");
}

/* ---- what stands behind the layers ---- */

/* Of NAME, the class, what follows PREFIX; a text model's class of gemma3 has a word more. */
static const char *behind(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0)
        return "";
    return !strncmp(name + n, "Text", 4) ? name + n + 4 : name + n;
}

/* Hugging Face writes the labels' names, and none where there are two. */
static int64_t labels_of(struct reading *r)
{
    int64_t named = config_members(r->config, "id2label");
    return named > 0 ? named : size_of(r, "num_labels", VOCAB, 2);
}

/* Of the classes whose names begin with PREFIX: what they have behind their layers, and its parameters. */
static void read_head(struct model *m, struct reading *r, const char *prefix)
{
    const char *class = config_first(r->config, "architectures"), *kind;
    m->unsaid = !class;
    kind = class ? behind(class, prefix) : "ForCausalLM";
    int64_t labels = !strcmp(kind, "ForQuestionAnswering") ? 2 : labels_of(r), biases = labels;
    if (!strcmp(kind, "ForCausalLM") || !strcmp(kind, "LMHeadModel")) {
        m->words = true;
        m->outputs = m->vocab;
        m->parameters += m->tied ? 0 : m->embedding;
        return;
    }
    m->words = m->tied = false;
    m->outputs = 0;
    if (!strcmp(kind, "Model"))
        return;
    if (!strcmp(kind, "ForSequenceClassification"))
        biases = 0;
    else if (strcmp(kind, "ForTokenClassification") != 0 && strcmp(kind, "ForQuestionAnswering") != 0)
        fail_beyond(r, "architectures", "names a class that is not known here");
    m->outputs = labels;
    m->parameters += m->hidden * labels + biases;
}

/* ---- llama and those that are built like it ---- */

struct like_llama {
    const char *type, *prefix;
    enum model_kind kind;
    bool tied;           /* where the file does not say */
    bool qkv_bias;       /* always, without one of the output */
    bool attention_bias; /* where the file says so, of all four */
    bool mlp_bias;       /* likewise */
    bool own_head;       /* the head's size does not follow from the hidden size */
    bool head_norms;
    int64_t norms;
};

static const struct like_llama likes[] = {
    {"llama", "Llama", MODEL_LLAMA, false, false, true, true, false, false, 2},
    {"mistral", "Mistral", MODEL_LLAMA, false, false, false, false, false, false, 2},
    {"qwen2", "Qwen2", MODEL_LLAMA, false, true, false, false, false, false, 2},
    {"qwen3", "Qwen3", MODEL_QWEN3, false, false, true, false, true, true, 2},
    {"gemma", "Gemma", MODEL_GEMMA, true, false, true, false, true, false, 2},
    {"gemma2", "Gemma2", MODEL_GEMMA2, true, false, true, false, true, false, 4},
    {"gemma3_text", "Gemma3", MODEL_GEMMA3, true, false, true, false, true, true, 4},
};

static const struct like_llama *like_of(const char *type)
{
    for (size_t i = 0; i < sizeof likes / sizeof *likes; i++)
        if (!strcmp(likes[i].type, type))
            return &likes[i];
    return NULL;
}

/* A layer: attention, MLP (gate, up, down), norms, and the biases that the class has.  Positions are
 * computed. */
static void read_like_llama(struct model *m, struct reading *r, const struct like_llama *like)
{
    m->kind = like->kind;
    m->norms = like->norms;
    m->hidden = size_of(r, "hidden_size", WIDTH, UNKNOWN);
    m->layers = size_of(r, "num_hidden_layers", LAYERS, UNKNOWN);
    m->heads = size_of(r, "num_attention_heads", HEADS, UNKNOWN);
    m->kv_heads = size_of(r, "num_key_value_heads", HEADS, m->heads);
    m->ffn = size_of(r, "intermediate_size", FFN, UNKNOWN);
    m->vocab = size_of(r, "vocab_size", VOCAB, UNKNOWN);
    m->head_dim = head_size(r, m, like->own_head);
    if (config_find(r->config, "max_position_embeddings"))
        m->positions = size_of(r, "max_position_embeddings", POSITIONS, UNKNOWN);
    m->tied = config_flag(r->config, "tie_word_embeddings", like->tied);
    int64_t h = m->hidden, q = m->heads * m->head_dim, k = m->kv_heads * m->head_dim, f = m->ffn;
    m->layer = 2 * h * q + 2 * h * k + 3 * h * f + like->norms * h;
    if (like->qkv_bias)
        m->layer += q + 2 * k;
    if (like->attention_bias && config_flag(r->config, "attention_bias", false))
        m->layer += q + 2 * k + h;
    if (like->mlp_bias && config_flag(r->config, "mlp_bias", false))
        m->layer += 2 * f + h;
    if (like->head_norms)
        m->layer += 2 * m->head_dim;
    m->embedding = m->vocab * h;
    m->parameters = m->layers * m->layer + m->embedding + h;
    read_head(m, r, like->prefix);
}

/* ---- gpt2 ---- */

static double probability(const struct config *c, const char *name, double otherwise)
{
    const struct config_value *v = config_find(c, name);
    return v && (v->kind == 'r' || v->kind == 'i') ? strtod(v->text, NULL) : otherwise;
}

/* A layer: attention 4 H^2 + 4 H, MLP 2 H F + F + H, norms 4 H; beside them embedding, positions, last norm.
 */
static void read_gpt2(struct model *m, struct reading *r)
{
    m->kind = MODEL_GPT2;
    m->norms = 2;
    m->hidden = size_of(r, "n_embd", WIDTH, UNKNOWN);
    m->layers = size_of(r, "n_layer", LAYERS, UNKNOWN);
    m->heads = m->kv_heads = size_of(r, "n_head", HEADS, UNKNOWN);
    m->ffn = size_of(r, "n_inner", FFN, 4 * m->hidden);
    m->vocab = size_of(r, "vocab_size", VOCAB, UNKNOWN);
    m->positions = size_of(r, "n_positions", VOCAB, UNKNOWN);
    m->head_dim = divided(r, m, "n_head");
    m->tied = config_flag(r->config, "tie_word_embeddings", true);
    m->dropout = probability(r->config, "resid_pdrop", 0.1);
    if (config_flag(r->config, "add_cross_attention", false))
        fail(r, "add_cross_attention", "is set, and its weights are not known here");
    int64_t h = m->hidden, f = m->ffn;
    m->layer = 4 * h * h + 4 * h + 2 * h * f + f + h + 4 * h;
    m->embedding = m->vocab * h;
    m->parameters = m->layers * m->layer + m->embedding + m->positions * h + 2 * h;
    read_head(m, r, "GPT2");
}

/* ---- falcon ---- */

/* A layer: queries, keys and values, output, MLP, a bias for each where `bias`, norms. */
static void read_falcon(struct model *m, struct reading *r)
{
    const struct config *c = r->config;
    bool later = config_flag(c, "new_decoder_architecture", false),
         parallel = config_flag(c, "parallel_attn", true);
    int64_t bias = config_flag(c, "bias", false);
    m->kind = MODEL_FALCON;
    m->hidden = size_of(r, "hidden_size", WIDTH, UNKNOWN);
    m->layers = size_of(r, "num_hidden_layers", LAYERS, UNKNOWN);
    m->heads = size_of(r, "num_attention_heads", HEADS, UNKNOWN);
    m->ffn = size_of(r, "ffn_hidden_size", FFN, 4 * m->hidden);
    m->vocab = size_of(r, "vocab_size", VOCAB, UNKNOWN);
    m->head_dim = divided(r, m, "num_attention_heads");
    m->kv_heads = later                                 ? size_of(r, "num_kv_heads", HEADS, m->heads)
                  : config_flag(c, "multi_query", true) ? 1
                                                        : m->heads;
    m->norms = later ? size_of(r, "num_ln_in_parallel_attn", 2, 2) : parallel ? 1 : 2;
    m->tied = config_flag(c, "tie_word_embeddings", true);
    int64_t h = m->hidden, f = m->ffn, qkv = m->heads * m->head_dim + 2 * m->kv_heads * m->head_dim;
    m->layer = h * qkv + h * h + 2 * h * f + bias * (qkv + h + f + h) + m->norms * 2 * h;
    m->embedding = m->vocab * h;
    m->parameters = m->layers * m->layer + m->embedding + 2 * h;
    read_head(m, r, "Falcon");
}

/* ---- all ---- */

struct model model_none(void)
{
    return (struct model){.layers = UNKNOWN,
                          .hidden = UNKNOWN,
                          .heads = UNKNOWN,
                          .kv_heads = UNKNOWN,
                          .head_dim = UNKNOWN,
                          .ffn = UNKNOWN,
                          .vocab = UNKNOWN,
                          .outputs = UNKNOWN,
                          .words = true,
                          .positions = UNKNOWN,
                          .parameters = UNKNOWN,
                          .embedding = UNKNOWN,
                          .layer = UNKNOWN};
}

static bool has_experts(const struct config *c)
{
    static const char *const names[] = {"num_experts", "num_local_experts", "n_routed_experts",
                                        "moe_num_experts", "num_experts_per_tok"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (config_int(c, names[i]) > 1)
            return true;
    return false;
}

int model_read(struct model *m, const struct config *c, const char *path, char *why, size_t size)
{
    struct reading r = {c, path, why, size, false};
    const char *type = config_text(c, "model_type");
    const struct like_llama *like = type ? like_of(type) : NULL;
    *m = model_none();
    if (!type) {
        snprintf(why, size, "%s: model_type is missing: give a Hugging Face model's config.json, or --params",
                 path);
        return -1;
    }
    snprintf(m->type, sizeof m->type, "%s", type);
    if (config_find(c, "quantization_config"))
        fail_beyond(&r, "quantization_config", "is there, and what quantized weights take is not known here");
    else if (like)
        read_like_llama(m, &r, like);
    else if (!strcmp(type, "gpt2"))
        read_gpt2(m, &r);
    else if (!strcmp(type, "falcon"))
        read_falcon(m, &r);
    else if (has_experts(c)) {
        snprintf(why, size,
                 "%s: %.40s is a mixture of experts, whose activations no formula here has, and sizes by "
                 "flags are those "
                 "of a dense model: vramscope fit measures it",
                 path, type);
        return -1;
    } else {
        snprintf(why, size,
                 "%s: the weights of model_type %.40s are not known here (llama, mistral, qwen2, qwen3, "
                 "gemma, gemma2, "
                 "gemma3_text, gpt2 and falcon are): give --params and the sizes; vramscope fit measures it",
                 path, type);
        return -1;
    }
    return r.failed ? -1 : 0;
}

int64_t model_largest(const struct model *m)
{
    if (m->layer == UNKNOWN || m->embedding == UNKNOWN)
        return m->layer == UNKNOWN ? m->embedding : m->layer;
    return m->layer > m->embedding ? m->layer : m->embedding;
}
