/*
 * exchange.c - a run in which ranks exchange partial results chunk by chunk (LCE_EXCHANGE): each chunk's
 * sums, the caller's exchange, for which the stream waits, then its loss and gradients.
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
