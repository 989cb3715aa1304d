/* scale.h - what scale.c and types.c know of blocks that grow with a program's data. */
#ifndef VS_EDIT_SCALE_H
#define VS_EDIT_SCALE_H

#include "program.h"

#define SCALE_SURE (UINT64_C(64) << 10) /* a block that is smaller may be of any kind */

/* By unit of the model, the bytes of what it gives to the next one, N x H: the last that it saves in forward.
 * The caller frees it. */
uint64_t *scale_unit_outputs(const struct program *p);
/* Attention that is not fused makes blocks of the length's square, which are larger. */
bool scale_is_square(const struct program *p, const struct edit_block *b, const uint64_t *outputs);
/* Made by a pass and not gone with it: caches, outputs of which the last ones are kept. */
bool scale_is_kept(const struct program *p, const struct edit_block *b);

#endif
