/*
 * exchange.c - a run of one rank's classes in which the ranks exchange the partial results of every chunk
 * (LCE_EXCHANGE).
 *
 * A chunk has two halves: its logits and this rank's sums over them; and, when all ranks' sums are there, its
 * loss and gradients.  Between them the stream waits for the exchange, which is short between GPUs of one
 * host.  The caller's function does what that needs to the stream.
 */
#include "cuda.h"

static int exchange_chunk(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct lce_plan *plan = &r->plan->base;
    int status = cuda_first_half(r, first, rows);
    for (int step = LCE_EXCHANGE_START; !status && step <= LCE_EXCHANGE_FINISH; step++)
        status = lce_tell(plan, r->buffers, step, first, rows, r->stream);
    if (!status)
        status = cuda_second_half(r, first, rows);
    if (status || r->plan->compacts) /* such rows are tokens from anywhere: dinput is complete at the end */
        return status;
    return lce_tell(plan, r->buffers, LCE_EXCHANGE_INPUT, first, rows, r->stream);
}

int cuda_exchanged(const struct cuda_run *r)
{
    const int64_t rows = r->plan->rows, chunk = r->plan->chunk;
    int status = LCE_OK;
    for (int64_t first = 0; !status && first < rows; first += chunk)
        status = exchange_chunk(r, first, rows - first < chunk ? rows - first : chunk);
    return status;
}
