/*
 * workspaces.h - what cuDNN takes beside tensors, and what of it 16 bits take (workspaces.c).
 */
#ifndef VS_EDIT_WORKSPACES_H
#define VS_EDIT_WORKSPACES_H

#include "program.h"

enum workspace {
    WORKSPACE_NONE,
    WORKSPACE_RESERVE,    /* of a recurrent layer: kept for backward */
    WORKSPACE_RECURRENT,  /* of a recurrent layer, for a call */
    WORKSPACE_CONVOLUTION /* of a convolution, for a call */
};

struct workspaces {
    uint8_t *of; /* by block, an enum workspace */
    struct workspace_layer {
        uint64_t weights;       /* bytes of what a recurrent layer's weights are in one piece; 0 */
        uint64_t parts;         /* of a recurrent layer: layers in it, times directions; 0: unknown */
        uint64_t output, input; /* of a convolution, bytes; 0: unknown */
        bool recurrent, convolves;
        bool half; /* it computes in 16 bits already, as under autocast */
    } * layers;    /* by number */
};

struct workspaces workspaces_read(const struct program *p);
void workspaces_free(struct workspaces *w);

/* What a workspace, block B of P in fp32, has in 16 bits: the least bytes, or the most. */
uint64_t workspaces_half(const struct workspaces *w, const struct program *p, uint32_t block, bool high);

/* Bytes of a workspace that stay where data grow; 0 where that is not known. */
uint64_t workspaces_fixed(const struct workspaces *w, const struct program *p, uint32_t block);

#endif
