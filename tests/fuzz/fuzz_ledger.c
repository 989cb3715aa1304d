/*
 * fuzz_ledger.c - any sequence of events leaves the ledger standing and consistent: rows without gaps, no
 * total below zero, the blocks of a peak add up to it.
 *
 * Ten bytes make an event out of few addresses, sizes, threads and ranges, so that sequences often meet.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trace/ledger/ledger.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t phase_of(void *context, uint32_t name)
{
    return name % 7;
}

static bool is_autograd(void *context, uint16_t thread)
{
    return thread == 3;
}

static struct vs_event event_of(const uint8_t *b, uint64_t t)
{
    static const uint8_t ops[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 20, 21, 22, 30, 31, 32,
                                  33, 34, 40, 50, 99, 20, 13, 14, 15, 14, 15, 16, 17, 18, 19, 23, 24, 53};
    return (struct vs_event){.op = ops[b[0] % sizeof ops],
                             .space = b[1] % 12,
                             .device = (int8_t)(b[1] / 12 % 4 - 1),
                             .address = 0x1000u * (b[2] % 32u),
                             .size = (b[3] % 8) * 0x1000ull + b[3] / 128,
                             .arg0 = b[4] & 128 ? (uint64_t)(b[4] & 3) << 32 : b[4],
                             .arg1 = b[5],
                             .range = b[6] % 12,
                             .context = b[6] / 12 % 4,
                             .thread = b[7] % 5,
                             .status = b[8] > 240,
                             .stack = b[8] % 4,
                             .t_ns = t};
}

static void add_up(void *context, const struct vs_alloc *a)
{
    *(uint64_t *)context += a->size;
}

static void check(const struct vs_ledger *l)
{
    struct vs_peak_info peaks[8];
    size_t n = vs_ledger_peaks(l, peaks, 8);
    for (size_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        vs_ledger_each_at_peak(l, peaks[i].device, add_up, &sum);
        if (sum != peaks[i].bytes)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vs_output out = {0};
    struct vs_ledger *l =
        vs_ledger_new(&(struct vs_ledger_config){.phase_of = phase_of, .is_autograd = is_autograd});
    uint64_t t = 0, ring = 0;
    if (!l)
        return 0;
    for (size_t i = 0; i + 10 <= size; i += 10) {
        struct vs_event e = event_of(data + i, t += data[i + 9] * 100000ull);
        vs_ledger_feed(l, &e, ++ring, &out);
        if (data[i + 9] == 77)
            vs_ledger_end_batch(l, &out);
        if (data[i + 9] == 78)
            vs_ledger_flush(l, &out);
        if (data[i + 9] == 79)
            vs_ledger_track_live(l, true);
    }
    vs_ledger_finish(l, &out);
    for (size_t i = 0; i < out.rows.n; i++) {
        const struct vs_row *r = &out.rows.at[i];
        if (r->seq != i + 1 || r->framework >> 60 || r->direct >> 60 || r->reserved >> 60)
            abort();
    }
    check(l);
    vs_ledger_free(l);
    vs_output_free(&out);
    return 0;
}
