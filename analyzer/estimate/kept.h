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
 */
#ifndef VS_ESTIMATE_KEPT_H
#define VS_ESTIMATE_KEPT_H

#include "model.h"

/* Bytes a token that layer, or the norm behind the last one, keeps; EACH: bytes of an element.  0 where M's
 * operations are not known. */
double kept_by_layer(const struct model *m, double each);
double kept_by_last_norm(const struct model *m, double each);
/* Bytes a token that a layer's backward has beyond that: the gradients by its MLP's factors and by its
 * output. */
double kept_backward(const struct model *m, double each);

#endif
