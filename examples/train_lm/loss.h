/*
 * loss.h - the output layer, from the last hidden state to the loss (forward(), in the phase `logits`) and
 * back (backward(), in the phase `backward`).  Losses differ in the memory that they keep in between.
 */
#ifndef EXAMPLES_TRAIN_LM_LOSS_H
#define EXAMPLES_TRAIN_LM_LOSS_H

#include "backend.h"

struct loss_call {
    const struct driver *cu;
    const struct backend *backend;
    CUdeviceptr hidden;  /* [rows, width] */
    CUdeviceptr weight;  /* [vocab, width] */
    CUdeviceptr targets; /* [rows] int32 */
    int rows, width, vocab;
    CUdeviceptr kept; /* the loss's own, from forward to backward */
};

struct loss {
    const char *name;
    /* Whether it can compute on this device; if not, says why in one line.  NULL: it always can. */
    bool (*usable)(const struct driver *cu);
    /* The mean loss of the rows, in nats. */
    double (*forward)(struct loss_call *call);
    /* Fills dhidden [rows, width] and dweight [vocab, width], both allocated by the caller; frees what was
     * kept. */
    void (*backward)(struct loss_call *call, CUdeviceptr dhidden, CUdeviceptr dweight);
};

/* NULL where there is none of that name. */
const struct loss *loss_named(const char *name);
#define LOSS_NAMES "naive, fused"

extern const struct loss loss_fused; /* loss_fused.c */

#endif
