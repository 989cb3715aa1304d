/*
 * kept.h - what one layer of a Hugging Face model keeps from forward to backward, counted over its
 * operations.
 *
 * Not a rule of thumb: each term is a tensor that autograd saves when the model's class runs eagerly in one
 * type of E bytes (2 or 4), with scaled_dot_product_attention that writes no scores, and without
 * checkpointing.  For a token, with H hidden, Q and K as in model.h, F feed-forward, a heads:
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
#ifndef VS_ESTIMATE_KEPT_H
#define VS_ESTIMATE_KEPT_H

#include "model.h"

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
