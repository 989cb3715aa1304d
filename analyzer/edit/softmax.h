/*
 * softmax.h - softmaxes that the program calls in Python, which may compute in 16 bits or in fp32
 * (softmax.c).
 */
#ifndef VS_EDIT_SOFTMAX_H
#define VS_EDIT_SOFTMAX_H

#include "program.h"

enum softmax_block {
    SOFTMAX_NONE,
    SOFTMAX_OUTPUT, /* of such a call, kept for backward */
    SOFTMAX_BEHIND  /* as large, and kept behind it: a dropout's output */
};

struct softmaxes {
    uint8_t *of; /* by block, an enum softmax_block */
    bool *calls; /* by layer: it calls one */
    bool any;
};

/* PARTS are attention_parts() of P.  A layer that calls a softmax uses no fused kernel: marks of its squares,
 * and of what is made beside them, are taken away. */
struct softmaxes softmaxes_read(const struct program *p, uint8_t *parts);
void softmaxes_free(struct softmaxes *s);

/* Whether a block stays in fp32 if its layer's softmax computes in fp32. */
bool softmax_widens(const struct softmaxes *s, const struct program *p, uint32_t block);

#endif
