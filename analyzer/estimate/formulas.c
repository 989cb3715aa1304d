/* formulas.c - see formulas.h. */
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
