/* naive.c - the passes of naive.cu over all the logits, one after the other. */
#include "cuda.h"

int cuda_naive_softmax(const struct cuda_run *r)
{
    const struct cuda_plan *plan = r->plan;
    const struct cuda_kernels *k = &plan->kernels;
    const unsigned int rows = (unsigned int)plan->rows;
    const struct lce_naive_args a = {
        .softmax = cuda_softmax_args(r, 0),
        .upcast = cuda_at(r, plan->layout.upcast),
        .log_probability = cuda_at(r, plan->layout.log_probability),
        .g = cuda_at(r, plan->layout.g),
        .lse = cuda_at(r, plan->layout.lse),
    };
    int status = cuda_launch(r, k->upcast, rows, 512, &a);
    if (!status)
        status = cuda_launch(r, k->log_softmax, rows, 512, &a);
    if (!status && a.softmax.gradients)
        status = cuda_launch(r, k->gradient, rows, 512, &a);
    if (!status && a.softmax.gradients)
        status = cuda_launch(r, k->cast, rows, 512, &a);
    return status;
}
