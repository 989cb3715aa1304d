/*
 * model.h - the language model: a window of tokens in, scores for the next token out.
 *
 *      window [rows, context] -> embedding -> x [rows, context * hidden]
 *      out0 = gelu(x W0 + b0)                      [rows, hidden]
 *      outl = out(l-1) + gelu(out(l-1) Wl + bl)    [rows, hidden]
 *      loss(out, Wout, targets)                    behind loss.h
 *
 * model_step() is one training iteration.  Weights live for the whole run, AdamW's moments from the first
 * optimizer step on, activations until backward has used them, gradients until the optimizer has applied
 * them.
 */
#ifndef EXAMPLES_TRAIN_LM_MODEL_H
#define EXAMPLES_TRAIN_LM_MODEL_H

#include "backend.h"
#include "loss.h"
#include "text.h"

#define MODEL_MAX_LAYERS 16

struct model_shape {
    int vocab, context, hidden, layers, rows;
};

struct parameter {
    const char *name;
    CUdeviceptr weight, gradient, mean, variance;
    size_t count;
};

struct model {
    struct model_shape shape;
    const struct driver *cu;
    const struct backend *backend;
    const struct loss *loss;
    struct parameter embedding, output, matrix[MODEL_MAX_LAYERS], bias[MODEL_MAX_LAYERS];
    float rate;
    int step;
    /* of the iteration under way */
    CUdeviceptr ids, targets, x, pre[MODEL_MAX_LAYERS], out[MODEL_MAX_LAYERS];
};

void model_init(struct model *m, uint64_t *random);
double model_step(struct model *m, const struct batch *batch); /* returns the loss before the update */
size_t model_parameters(const struct model *m);
void model_free(struct model *m);

#endif
