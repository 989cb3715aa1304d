/*
 * attention.h - which blocks of attention another kernel would not make (attention.c).
 *
 * In 16 bits PyTorch may compute attention by another kernel than in fp32.  What attention makes depends on
 * which.
 */
#ifndef VS_EDIT_ATTENTION_H
#define VS_EDIT_ATTENTION_H

#include "program.h"

enum attention_part {
    ATTENTION_NONE,   /* none of attention's, or one that every kernel makes */
    ATTENTION_SQUARE, /* of the length's square: a fused kernel makes none */
    ATTENTION_FUSED,  /* such a one, where nothing but the wide type is known to forbid a fused kernel */
    ATTENTION_BESIDE, /* made for the squares: copies of keys and values, scaled queries */
    ATTENTION_TURNED, /* an output that is not copied, where a kernel that gives it in the queries' order has
                         it copied */
    ATTENTION_COPY /* of the output in another order, which is not made where a kernel gives it in that one */
};

/* Of each block, an enum attention_part; the caller frees it. */
uint8_t *attention_parts(const struct program *p);

#endif
