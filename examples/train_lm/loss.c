/*
 * loss.c - the naive cross-entropy, as a framework computes it when nothing is fused.
 *
 *      logits = hidden weight^T                [rows, vocab]   freed after the log softmax
 *      log_probability = log softmax(logits)   [rows, vocab]   kept until backward
 *      dlogits                                 [rows, vocab]   lives inside backward
 *
 * Two of the three live at once, in either phase: 2 x 4 x rows x vocab bytes, the spike that the plot shows.
 */
#include "loss.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double mean_of(const struct driver *cu, CUdeviceptr values, int count)
{
    float *host = malloc((size_t)count * sizeof *host);
    if (!host) {
        fprintf(stderr, "train_lm: no host memory for %d losses\n", count);
        exit(1);
    }
    driver_check(cu, cu->copy_out(host, values, (size_t)count * sizeof *host), "reading the losses");
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += host[i];
    free(host);
    return sum / count;
}

static double naive_forward(struct loss_call *c)
{
    size_t elements = (size_t)c->rows * (size_t)c->vocab;
    CUdeviceptr logits = driver_floats(c->cu, elements, "logits");
    c->backend->matmul(&(struct matmul){.out = logits,
                                        .a = c->hidden,
                                        .b = c->weight,
                                        .m = c->rows,
                                        .n = c->vocab,
                                        .k = c->width,
                                        .transpose_b = true});
    c->kept = driver_floats(c->cu, elements, "log probabilities");
    CUdeviceptr losses = driver_floats(c->cu, (size_t)c->rows, "losses");
    c->backend->log_softmax(c->kept, losses, logits, c->targets, c->rows, c->vocab);
    double mean = mean_of(c->cu, losses, c->rows);
    driver_free(c->cu, &losses);
    driver_free(c->cu, &logits);
    return mean;
}

static void naive_backward(struct loss_call *c, CUdeviceptr dhidden, CUdeviceptr dweight)
{
    CUdeviceptr dlogits = driver_floats(c->cu, (size_t)c->rows * (size_t)c->vocab, "gradient of the logits");
    c->backend->log_softmax_backward(dlogits, c->kept, c->targets, c->rows, c->vocab);
    driver_free(c->cu, &c->kept);
    c->backend->matmul(&(struct matmul){
        .out = dhidden, .a = dlogits, .b = c->weight, .m = c->rows, .n = c->width, .k = c->vocab});
    c->backend->matmul(&(struct matmul){.out = dweight,
                                        .a = dlogits,
                                        .b = c->hidden,
                                        .m = c->vocab,
                                        .n = c->width,
                                        .k = c->rows,
                                        .transpose_a = true});
    driver_free(c->cu, &dlogits);
}

static const struct loss loss_naive = {"naive", NULL, naive_forward, naive_backward};
static const struct loss *const losses[] = {&loss_naive, &loss_fused};

const struct loss *loss_named(const char *name)
{
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        if (strcmp(losses[i]->name, name) == 0)
            return losses[i];
    return NULL;
}
