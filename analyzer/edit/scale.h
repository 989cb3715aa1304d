/* scale.h - what scale.c and types.c know of blocks that grow with a program's data. */
#ifndef VS_EDIT_SCALE_H
#define VS_EDIT_SCALE_H

#include "program.h"

#define SCALE_SURE (UINT64_C(64) << 10) /* a block that is smaller may be of any kind */

/* What the units of the model give to the next ones, N x H: of each the last block that it saves in forward.
 */
struct scale_outputs {
    uint64_t *bytes;      /* by unit */
    struct sizes lengths; /* of sequences, where shapes are known: a pass saves N x length x width */
    struct sizes widths;  /* extents of parameters: what is one of these is no length for sure */
};
/* The caller frees it by scale_free_outputs. */
struct scale_outputs scale_unit_outputs(const struct program *p);
void scale_free_outputs(struct scale_outputs *o);
/* Attention that is not fused makes blocks of the length's square: they are larger than what the unit gives
 * by far, and not of N x width for sure, or their last two extents are lengths, as a mask's. */
bool scale_may_be_square(const struct program *p, const struct edit_block *b, const struct scale_outputs *o);
/* Made by a pass and not gone with it: caches, outputs of which the last ones are kept. */
bool scale_is_kept(const struct program *p, const struct edit_block *b);

#endif
