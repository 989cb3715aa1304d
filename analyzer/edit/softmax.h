/*
 * softmax.h - softmaxes that the program calls in Python, which may compute in 16 bits or in fp32
 * (softmax.c).
 */
#ifndef VS_EDIT_SOFTMAX_H
#define VS_EDIT_SOFTMAX_H

#include "program.h"

struct softmaxes {
    bool *of;          /* by block: the output of such a call, kept for backward */
    uint64_t *squares; /* by layer that calls one: bytes of the output; 0: the layer calls none */
    bool any;
};

/* PARTS are attention_parts() of P.  A layer that calls a softmax uses no fused kernel: marks of its squares,
 * and of what is made beside them, are taken away. */
struct softmaxes softmaxes_read(const struct program *p, uint8_t *parts);
void softmaxes_free(struct softmaxes *s);

/* Whether a block is as large in fp32 as it is now, if its layer's softmax computes in fp32. */
bool softmax_widens(const struct softmaxes *s, const struct program *p, const struct edit_block *b);

#endif
