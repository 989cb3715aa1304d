/*
 * exchange.c - a run of one rank's classes in which the ranks exchange the partial results of every chunk
 * (LCE_EXCHANGE).
 *
 * A chunk has two halves: its logits and this rank's sums over them; and, when all ranks' sums are there, its
 * loss and gradients.  With LCE_EXCHANGE_AHEAD the second half of a chunk comes after the first half of the
 * next one:
 *
 *     stream     | logits 0 | logits 1 | gradients 0 | logits 2 | gradients 1 | ... | gradients n |
 *     exchange              | sums 0 ..|             | sums 1 ..|
 *
 * So each exchange has the products of a chunk beside it, and the stream seldom waits for one.  Two chunks'
 * logits, and their gathered rows, exist at a time: cuda_run's `chunk` says whose are meant.  Otherwise one
 * chunk follows the other, and the stream waits for each exchange, which is short between GPUs of one host.
 *
 * The caller's function is called where the diagram has an exchange's begin and end; it does what it needs
 * to the stream.
 */
#include "cuda.h"

static int64_t rows_from(const struct cuda_plan *plan, int64_t first)
{
    const int64_t left = plan->rows - first;
    return left < plan->chunk ? left : plan->chunk;
}

static int tell(const struct cuda_run *r, int step, int64_t first)
{
    return lce_tell(&r->plan->base, r->buffers, step, first, rows_from(r->plan, first), r->stream);
}

static int ask(struct cuda_run *r, int64_t first)
{
    r->chunk = (int)(first / r->plan->chunk % r->plan->kept);
    int status = cuda_first_half(r, first, rows_from(r->plan, first));
    return status ? status : tell(r, LCE_EXCHANGE_START, first);
}

static int answer(struct cuda_run *r, int64_t first)
{
    r->chunk = (int)(first / r->plan->chunk % r->plan->kept);
    int status = tell(r, LCE_EXCHANGE_FINISH, first);
    if (!status)
        status = cuda_second_half(r, first, rows_from(r->plan, first));
    /* compacted rows are tokens from anywhere, so then dinput is complete at the run's end only */
    return status || r->plan->compacts ? status : tell(r, LCE_EXCHANGE_INPUT, first);
}

int cuda_exchanged(const struct cuda_run *run)
{
    const int64_t rows = run->plan->rows, chunk = run->plan->chunk;
    const bool ahead = cuda_exchanges_ahead(run->plan);
    struct cuda_run r = *run;
    int status = ahead && rows > 0 ? ask(&r, 0) : LCE_OK;
    for (int64_t first = 0; !status && first < rows; first += chunk) {
        const int64_t next = ahead ? first + chunk : first;
        if (next < rows)
            status = ask(&r, next);
        if (!status)
            status = answer(&r, first);
    }
    return status;
}
