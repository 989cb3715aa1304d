/*
 * formulas.h - the formulas of training memory that are in use everywhere, each with its source.  In bytes,
 * as double: exact up to 2^53, and without overflow for whatever a user may ask.
 */
#ifndef VS_ESTIMATE_FORMULAS_H
#define VS_ESTIMATE_FORMULAS_H

#include "model.h"

struct bytes_each { /* bytes a parameter */
    double weights, gradients, states;
    double copy; /* of the optimizer's temporary, where it is PyTorch's foreach; 0: none */
};

struct static_bytes {
    double parameters, gradients, states;
};

enum offload { OFFLOAD_NONE, OFFLOAD_OPTIMIZER, OFFLOAD_PARAMETERS };

/*
 * Of P PARAMETERS, STAGE 0 to 3, N GPUS >= 1; W weights, G gradients, O states: bytes a parameter.
 *
 *      none  (W + G + O) P              1  (W + G) P + O P / N
 *      2     W P + (G + O) P / N        3  (W + G + O) P / N
 *
 * Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (arXiv
 * 1910.02054), section 5.  With mixed-precision Adam W = 2, G = 2, O = 12: weights in fp32, two moments.
 * OFFLOAD: Ren et al., "ZeRO-Offload" (arXiv 2101.06840): gradients and states are on the host, and of ZeRO 3
 * W P / N stays.
 */
struct static_bytes formula_static(double parameters, const struct bytes_each *each, int stage, double gpus,
                                   enum offload offload);
/* What DeepSpeed's own estimator says for ZeRO 3 (estimate_zero3_model_states_mem_needs in
 * deepspeed/runtime/zero/stage3.py), which adds the largest layer, L parameters: 4 L + 18 P / N; with the
 * optimizer on the host 4 L + 2 P / N; parameters too 4 L. */
double formula_deepspeed(double parameters, double largest_layer, double gpus, enum offload offload);
/* Of as much of the states as a GPU has: torch/optim/adam.py, _multi_tensor_adam, copies all exp_avg_sq at
 * once by torch._foreach_sqrt. */
double formula_foreach(double parameters, const struct bytes_each *each, int stage, double gpus,
                       enum offload offload);

enum recompute { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };
struct layer_shape {
    double batch, tokens /* a sequence */, hidden, heads, tensor_parallel;
    bool sequence_parallel;
    bool flash; /* the attention's scores are never written: the terms of 5 a s / h are missing */
};
/*
 * Of one layer of GPT's in 2 bytes with dropout: s tokens, batch b, hidden h, a heads, over t GPUs.
 *
 *      none                   s b h (34 + 5 a s / h)
 *      tensor parallel        s b h (10 + 24 / t + 5 a s / (h t))
 *      and sequence parallel  s b h / t (34 + 5 a s / h)
 *      selective recompute    without the terms of 5 a s / h
 *      full recompute         2 s b h
 *
 * Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (arXiv 2205.05198),
 * equations 1 to 6.
 */
double formula_layer(const struct layer_shape *s, enum recompute recompute);

/* Of N tokens, by Hugging Face's loss (transformers/loss/loss_utils.py): logits in the model's type, EACH
 * bytes; in fp32 (.float()), 4; log-softmax, 4.  In backward log-softmax, the gradient by it and the gradient
 * by the fp32 logits: 3 x 4.  Fused: chunk V EACH, and nothing with N V. */
double formula_logits(double n, double vocab, double each); /* one copy */
double formula_loss_forward(double n, double vocab, double each);
double formula_loss_backward(double n, double vocab);
double formula_loss_fused(double chunk, double vocab, double each);

/*
 * What one layer of a Hugging Face model keeps from forward to backward, counted over its
 * operations.
 *
 * Not a rule of thumb: each term is a tensor that autograd saves when the model's class runs eagerly in one
 * type of E bytes (2 or 4), with scaled_dot_product_attention that writes no scores, and without
 * checkpointing.  For a token, with H hidden, Q heads and K key and value heads times the head size, F
 * feed-forward, a heads:
 *
 *      RMSNorm (llama)   its input in fp32 4 H, 1 / rms 4, the normalized input E H, its output E H
 *      RMSNorm (gemma)   the input in fp32, 1 / rms, the normalized input in fp32 4 H, the output E H
 *      LayerNorm         the input E H, mean and 1 / deviation 8, the output E H
 *      attention         queries E Q, keys and values 2 E K, the output E Q, its log-sum-exp 4 a
 *      norms of heads    (4 + E) (Q + K) + 4 (a + key heads)
 *      gated MLP         gate, its activation, up, their product: 4 E F
 *      GPT-2's MLP       the input of gelu_new, its tanh, the two factors of its product, and that: 5 E F
 *      falcon's MLP      the input of gelu, its output: 2 E F
 *      dropout           a byte an element of its mask (GPT-2: twice H)
 *
 * An output that several operations read is kept once.
 *
 * Under autocast to 16 bits, weights in fp32, of a Llama:
 *
 *      residual stream   behind attention and behind the MLP, fp32 8 H
 *      norms             each the normalized input in fp32 4 H, 1 / rms 4
 *      their outputs     cast once for each projection that reads them: queries, keys, values, gate, up 10 H
 *      attention, MLP    as above, E = 2
 *      weights           a copy of each projection's, 2 bytes a parameter: cast once a pass
 */

/* Bytes a token that layer, or the norm behind the last one, keeps; EACH: bytes of an element.  0 where M's
 * operations are not known. */
double kept_by_layer(const struct model *m, double each);
double kept_by_last_norm(const struct model *m, double each);
/* Of a layer under autocast, and what stands beside all layers (the embedding's output, the last norm's
 * normalized input); 0 where M's operations under it are not known. */
double kept_under_autocast(const struct model *m);
double kept_beside_autocast(const struct model *m);
/* Bytes of the weights' copies of one layer, which autocast keeps over forward. */
double kept_casts(const struct model *m);
/* Bytes a token that a layer's backward has beyond that: the gradients by its MLP's factors and by its
 * output. */
double kept_backward(const struct model *m, double each);

#endif
