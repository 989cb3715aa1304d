/*
 * softmax.h - softmaxes that a line of Python calls, and what goes with them in 16 bits (softmax.c).
 *
 *      softmaxes = softmaxes_read(program, parts)
 *      ... for each event: softmax_bear, or what else it becomes; softmax_ended behind the deaths
 *      softmaxes_free(&softmaxes)
 */
#ifndef VS_EDIT_SOFTMAX_H
#define VS_EDIT_SOFTMAX_H

#include "build.h"

enum softmax_type {
    SOFTMAX_NONE, /* no output of such a call that is kept */
    SOFTMAX_OPEN, /* one that may be in fp32 beside a copy, or in 16 bits */
    SOFTMAX_HALF,
    SOFTMAX_FP32
};

struct softmaxes {
    uint8_t *of;     /* by block, enum softmax_type */
    bool *dropped;   /* by block: what is kept behind it is a dropout's output, not the copy */
    uint32_t *saved; /* by block of backward: the output that it is the gradient before; BLOCK_NEVER */
    uint32_t *given; /* and the gradient of that output; BLOCK_NEVER */
    bool *written;   /* by layer: it has such a call, so that no fused kernel does its work */
    bool *wide;      /* by layer: its scores are in fp32, or may be, and what is made for them, too */
    uint64_t *open;  /* by layer: bytes of the squares of which that is open, which stay as they are; or 0 */
    bool any[SOFTMAX_FP32 + 1];
    uint32_t *copies;            /* by block: that in 16 bits, a block of the new program; BLOCK_NEVER */
    uint32_t narrows, narrow_of; /* when NARROWS dies, NARROW_OF is copied to 16 bits */
};

/* PARTS as attention_parts() has them: squares of such calls are no fused kernel's, and lose their mark. */
struct softmaxes softmaxes_read(const struct program *p, uint8_t *parts);
void softmaxes_free(struct softmaxes *s);

/* Instead of event I, the birth of BLOCK: true if that is done, as it is a softmax's in fp32, or the gradient
 * before one. */
bool softmax_bear(struct softmaxes *s, struct build *b, size_t i, bool high);
/* Before event I, a death: the copy goes with what it is of. */
void softmax_end(struct softmaxes *s, struct build *b, size_t i);
/* Behind event I, a death. */
void softmax_ended(struct softmaxes *s, struct build *b, size_t i);

#endif
