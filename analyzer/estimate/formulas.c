/* formulas.c - the formulas of formulas.h. */
#include "formulas.h"

struct static_bytes formula_static(double parameters, const struct bytes_each *each, int stage, double gpus,
                                   enum offload offload)
{
    return (struct static_bytes){
        .parameters =
            offload == OFFLOAD_PARAMETERS ? 0 : parameters * each->weights / (stage >= 3 ? gpus : 1),
        .gradients = offload != OFFLOAD_NONE ? 0 : parameters * each->gradients / (stage >= 2 ? gpus : 1),
        .states = offload != OFFLOAD_NONE ? 0 : parameters * each->states / (stage >= 1 ? gpus : 1)};
}

double formula_deepspeed(double parameters, double largest_layer, double gpus, enum offload offload)
{
    static const double each[] = {[OFFLOAD_NONE] = 18, [OFFLOAD_OPTIMIZER] = 2, [OFFLOAD_PARAMETERS] = 0};
    return 4 * largest_layer + each[offload] * parameters / gpus;
}

double formula_foreach(double parameters, const struct bytes_each *each, int stage, double gpus,
                       enum offload offload)
{
    return offload != OFFLOAD_NONE ? 0 : parameters * each->copy / (stage >= 1 ? gpus : 1);
}

double formula_layer(const struct layer_shape *s, enum recompute recompute)
{
    double t = s->tensor_parallel, sbh = s->tokens * s->batch * s->hidden;
    bool scores = recompute == RECOMPUTE_NONE && !s->flash;
    double attention = scores ? 5 * s->heads * s->tokens / s->hidden : 0;
    if (recompute == RECOMPUTE_FULL)
        return 2 * sbh;
    if (s->sequence_parallel)
        return sbh / t * (34 + attention);
    return sbh * (10 + 24 / t + attention / t);
}

double formula_logits(double n, double vocab, double each)
{
    return n * vocab * each;
}

double formula_loss_forward(double n, double vocab, double each)
{
    double upcast = each < 4 ? 4 : 0; /* what is fp32 already is not copied */
    return formula_logits(n, vocab, each + upcast + 4);
}

double formula_loss_backward(double n, double vocab)
{
    return 3 * formula_logits(n, vocab, 4);
}

double formula_loss_fused(double chunk, double vocab, double each)
{
    return formula_logits(chunk, vocab, each);
}

/* ---- what a layer keeps ---- */

static double norm(const struct model *m, double each)
{
    double h = (double)m->hidden;
    switch (m->kind) {
    case MODEL_UNKNOWN:
        return 0;
    case MODEL_GPT2:
    case MODEL_FALCON:
        return each * h + 8 + each * h;
    case MODEL_GEMMA:
    case MODEL_GEMMA2:
    case MODEL_GEMMA3:
        return 4 * h + 4 + 4 * h + each * h;
    case MODEL_LLAMA:
    case MODEL_QWEN3:
        break;
    }
    return 4 * h + 4 + each * h + each * h;
}

static double attention(const struct model *m, double each)
{
    double q = (double)(m->heads * m->head_dim), k = (double)(m->kv_heads * m->head_dim),
           heads = (double)m->heads;
    double kept = each * (q + 2 * k) + each * q + 4 * heads;
    if (m->kind == MODEL_QWEN3 || m->kind == MODEL_GEMMA3)
        kept += (4 + each) * (q + k) + 4 * (heads + (double)m->kv_heads);
    return kept;
}

static double mlp(const struct model *m, double each)
{
    static const double of_ffn[] = {
        [MODEL_LLAMA] = 4,  [MODEL_QWEN3] = 4, [MODEL_GEMMA] = 4, [MODEL_GEMMA2] = 4,
        [MODEL_GEMMA3] = 4, [MODEL_GPT2] = 5,  [MODEL_FALCON] = 2};
    return of_ffn[m->kind] * each * (double)m->ffn;
}

double kept_by_layer(const struct model *m, double each)
{
    if (m->kind == MODEL_UNKNOWN)
        return 0;
    double masks = m->dropout > 0 ? 2 * (double)m->hidden : 0;
    return (double)m->norms * norm(m, each) + attention(m, each) + mlp(m, each) + masks;
}

double kept_under_autocast(const struct model *m)
{
    double h = (double)m->hidden;
    if (m->kind != MODEL_LLAMA)
        return 0;
    return 2 * 4 * h + 2 * (4 * h + 4) + 5 * 2 * h + attention(m, 2) + mlp(m, 2);
}

double kept_beside_autocast(const struct model *m)
{
    double h = (double)m->hidden;
    return m->kind == MODEL_LLAMA ? 4 * h + 4 * h + 4 : 0;
}

double kept_casts(const struct model *m)
{
    double h = (double)m->hidden, q = (double)(m->heads * m->head_dim),
           k = (double)(m->kv_heads * m->head_dim);
    return m->kind == MODEL_LLAMA ? 2 * (2 * h * q + 2 * h * k + 3 * h * (double)m->ffn) : 0;
}

double kept_by_last_norm(const struct model *m, double each)
{
    return norm(m, each);
}

double kept_backward(const struct model *m, double each)
{
    return m->kind == MODEL_UNKNOWN ? 0 : each * (double)(m->hidden + 2 * m->ffn);
}
