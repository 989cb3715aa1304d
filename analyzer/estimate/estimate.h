/*
 * estimate.h - the memory of a training step in mid-run, where the states exist, before anything was run:
 * what there is in each phase, by rows.
 *
 *      forward     parameters, optimizer states, activations
 *      output      the same, and the loss's copies of the logits
 *      backward    the highest of four moments: its begin (activations, log-softmax, two fp32 gradients),
 *                  the last layer's backward, the first layer's, and the embedding's (all gradients)
 *      optimizer   parameters, gradients, states, the optimizer's temporaries
 *
 * What no formula gives has no row: the allocator's cache, workspaces of cuBLAS, NCCL's buffers.
 */
#ifndef VS_ESTIMATE_ESTIMATE_H
#define VS_ESTIMATE_ESTIMATE_H

#include "formulas.h"
#include "model.h"

enum estimate_row {
    ROW_PARAMETERS,
    ROW_GRADIENTS,
    ROW_STATES,
    ROW_ACTIVATIONS,
    ROW_LOGITS,
    ROW_LOGITS_GRADIENTS, /* of the fp32 logits and of log-softmax: in backward alone */
    ROW_FOREACH,
    ROW_GATHERED,
    ESTIMATE_ROWS
};
enum estimate_phase { PHASE_FORWARD, PHASE_LOGITS, PHASE_BACKWARD, PHASE_OPTIMIZER, ESTIMATE_PHASES };
extern const char *const estimate_row_names[ESTIMATE_ROWS], *const estimate_phase_names[ESTIMATE_PHASES];
/* What ROW was called until 0.2.0, which JSON has beside it in this version. */
const char *estimate_row_before(const char *row);

struct setup {
    struct model model;
    int64_t batch, tokens; /* a sequence; UNKNOWN: no row that needs them */
    struct bytes_each each;
    double element; /* bytes of an activation's element */
    bool autocast;  /* weights in fp32, computed with in 16 bits */
    int stage;      /* of ZeRO */
    int64_t gpus, tensor_parallel;
    bool sequence_parallel, scores /* attention writes its scores */, fused_loss,
        keep_gradients /* else zero_grad frees them before forward */;
    int64_t chunk; /* tokens of the fused loss */
    enum offload offload;
    enum recompute recompute;
    double gather; /* bytes a gathered parameter */
};

struct estimate {
    int64_t bytes[ESTIMATE_PHASES][ESTIMATE_ROWS]; /* UNKNOWN: a size is missing */
    int64_t total[ESTIMATE_PHASES];                /* of the rows that are known */
    char *from[ESTIMATE_ROWS];   /* the formula in words; NULL: the row is empty in every phase */
    bool least[ESTIMATE_PHASES]; /* there are others: the total is a bound */
    enum estimate_phase peak;    /* of the greatest total */
    bool peak_known;             /* no other phase may be above it */
    bool whole;                  /* no row is unknown */
};

/* Whether M, by sizes alone, has more than four times the parameters of as many dense layers (12 L h^2; the
 * widest public ones have 2.5 times): its experts' activations follow from no formula. */
bool estimate_sparse(const struct model *m);

/* 0; for estimate_free.  -1: figures beyond any memory, or no parameters, with a line in WHY. */
int estimate_make(struct estimate *e, const struct setup *s, char *why, size_t size);
void estimate_free(struct estimate *e);

#endif
