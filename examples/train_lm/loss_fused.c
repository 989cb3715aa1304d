/*
 * loss_fused.c - the fused linear cross-entropy of kernels/ as the output layer: the logits never exist in
 * full.  Forward and backward compute them in chunks, in one workspace each of about a sixteenth of the
 * logits; nothing is kept between.
 */
#include "loss.h"

#include <stdio.h>
#include <stdlib.h>

#include "linear_cross_entropy.h"

enum { CHUNKS = 16 };

static struct lce *library; /* for as long as the program runs */

static void check(int status)
{
    if (status == LCE_OK)
        return;
    fprintf(stderr, "train_lm: fused loss: %s\n", lce_message());
    exit(1);
}

static int open_library(const struct driver *cu)
{
    return library ? LCE_OK : lce_open(cu->simulated ? LCE_CPU : LCE_CUDA, &library);
}

static bool fused_usable(const struct driver *cu)
{
    if (open_library(cu) == LCE_OK)
        return true;
    fprintf(stderr, "train_lm: fused loss: %s\n", lce_message());
    return false;
}

static struct lce_plan *make_plan(const struct loss_call *c, uint32_t wants)
{
    struct lce_problem problem;
    struct lce_plan *plan;
    int chunk = (c->rows + CHUNKS - 1) / CHUNKS;
    check(open_library(c->cu));
    lce_problem_init(&problem);
    problem.wants = wants;
    problem.dtype = LCE_F32;
    problem.label_dtype = LCE_I32;
    problem.tokens = c->rows;
    problem.hidden = c->width;
    problem.vocab = c->vocab;
    check(lce_plan_create_chunk(library, &problem, LCE_FAST, chunk, 0, &plan));
    return plan;
}

/* Runs once with a workspace of its own. */
static void run(const struct loss_call *c, uint32_t wants, struct lce_buffers *buffers)
{
    struct lce_plan *plan = make_plan(c, wants);
    buffers->workspace_size = lce_plan_info(plan)->workspace_size;
    CUdeviceptr workspace = driver_bytes(c->cu, buffers->workspace_size, "workspace of the fused loss");
    buffers->workspace = (void *)(uintptr_t)workspace;
    buffers->input = (const void *)(uintptr_t)c->hidden;
    buffers->weight = (const void *)(uintptr_t)c->weight;
    buffers->labels = (const void *)(uintptr_t)c->targets;
    check(lce_run(plan, buffers, NULL));
    driver_check(c->cu, c->cu->synchronize(), "the fused loss");
    driver_free(c->cu, &workspace);
    lce_plan_destroy(plan);
}

static double fused_forward(struct loss_call *c)
{
    float value;
    CUdeviceptr loss = driver_floats(c->cu, 1, "the loss");
    struct lce_buffers buffers = {.loss = (float *)(uintptr_t)loss};
    run(c, LCE_WANT_LOSS, &buffers);
    driver_check(c->cu, c->cu->copy_out(&value, loss, sizeof value), "reading the loss");
    driver_free(c->cu, &loss);
    return (double)value;
}

static void fused_backward(struct loss_call *c, CUdeviceptr dhidden, CUdeviceptr dweight)
{
    struct lce_buffers buffers = {.grad_input = (void *)(uintptr_t)dhidden,
                                  .grad_weight = (void *)(uintptr_t)dweight};
    run(c, LCE_WANT_GRAD_INPUT | LCE_WANT_GRAD_WEIGHT, &buffers);
}

const struct loss loss_fused = {"fused", fused_usable, fused_forward, fused_backward};
