/*
 * chunk.c - estimates the time of chunks with cuBLASLt's products, and chooses their size.
 *
 * Two things make chunks differ.  Where a product's tiles do not fill whole rounds of all multiprocessors,
 * some idle in the last one; that matters most for dinput [chunk, H], which has few tiles.  And dweight [V,
 * H] is read and written once a chunk; a longer chunk hides more of that.
 *
 * Rates are those of an H200 in bf16, fitted to tests/data/cross_entropy_sweep.tsv and three shapes of the
 * unit test; only their proportions matter.
 */
#include "chunk.h"

#include <math.h>

enum { LEAST = 128, FINE = 16, COARSE = 256, MOST = 2048, SPLITS = 8 }; /* MOST: no larger chunk was faster */

static const double flops = 830e12, bytes = 4.0e12, pass_bytes = 2.7e12; /* per second */

static int64_t above(int64_t count, int64_t unit)
{
    return (count + unit - 1) / unit;
}

bool lce_worth_splitting(int64_t m, int64_t n, int processors)
{
    return 3 * above(m, 128) * above(n, 256) <= processors;
}

/* Seconds of all rounds of DOWN by ACROSS tiles of A x B, with the sum over k split.  Small tiles load more
 * for each operation. */
static double tiled(int processors, int64_t down, int64_t across, int64_t k, int64_t split, int a, int b)
{
    const double full = 128.0 * 256 / (128 + 256), load = (double)a * b / (a + b) / full;
    const double rate = flops / processors * (load < 1 ? sqrt(load) : 1);
    const int64_t rounds = above(down * across * split, processors);
    return (double)rounds * 2.0 * a * b * (double)k / (double)split / rate;
}

/* Likewise, with the best of the tiles that matrix libraries have. */
double lce_product_seconds(int processors, int64_t m, int64_t n, int64_t k, uint64_t scratch)
{
    double best = 1e30;
    int64_t across[9], most = lce_worth_splitting(m, n, processors) ? SPLITS : 1;
    for (int b = 64; b <= 256; b += 32)
        across[b / 32] = above(n, b);
    for (int64_t split = 1; split <= most && (split == 1 || 4 * (uint64_t)(m * n * split) <= scratch);
         split++) {
        double fastest = 1e30;
        for (int a = 64; a <= 256; a += 64) {
            const int64_t down = above(m, a);
            for (int b = 64; b <= 256 && a * b <= 192 * 192; b += 32) {
                const double seconds = tiled(processors, down, across[b / 32], k, split, a, b);
                fastest = seconds < fastest ? seconds : fastest;
            }
        }
        if (split > 1) /* partial sums, written and read */
            fastest = fastest * 1.02 + 8.0 * (double)(m * n * split) / bytes;
        best = fastest < best ? fastest : best;
    }
    return best;
}

/* Output that is added to is read and written tile by tile, in short runs, which is slower than BYTES. */
double lce_adding_seconds(double arithmetic, double traffic)
{
    const double moving = traffic / 2.5e12, a = arithmetic * arithmetic * sqrt(arithmetic),
                 b = moving * moving * sqrt(moving);
    return pow(a + b, 1 / 2.5); /* the norm of both, of power 2.5 */
}

/* The time that the last classes, which the matrix library does not process, add to a chunk. */
static double tail_seconds(const struct lce_chunk_shape *s, int64_t n)
{
    return s->tail ? 57e-6 + 5.5e-12 * (double)n * (double)s->hidden : 0;
}

/* Seconds of a chunk; the FIRST one only writes dweight. */
static double one_chunk(const struct lce_chunk_shape *s, int64_t n, bool first, uint64_t scratch)
{
    const double launches = 26e-6, h = (double)s->hidden, v = (double)s->vocab, part = (double)n * v;
    double seconds = launches + 2.0 * part * h / flops + 2.0 * part * s->element / pass_bytes;
    if (s->grad_input)
        seconds += lce_product_seconds(s->processors, n, s->hidden, s->vocab, scratch);
    if (s->grad_element) {
        double arithmetic = 2.0 * part * h / flops, traffic = (first ? 1.0 : 2.0) * v * h * s->grad_element;
        seconds += lce_adding_seconds(arithmetic, traffic);
    }
    return seconds + tail_seconds(s, n);
}

double lce_chunk_seconds(const struct lce_chunk_shape *s, int64_t chunk)
{
    const uint64_t taken = (uint64_t)chunk * s->token, left = s->budget > taken ? s->budget - taken : 0;
    const uint64_t scratch = left < LCE_MOST_SCRATCH ? left : LCE_MOST_SCRATCH;
    const int64_t whole = s->tokens / chunk, tail = s->tokens % chunk;
    double seconds = tail ? one_chunk(s, tail, whole == 0, scratch) : 0;
    if (whole > 0)
        seconds +=
            one_chunk(s, chunk, true, scratch) + (double)(whole - 1) * one_chunk(s, chunk, false, scratch);
    return seconds;
}

/* The largest candidate that is at most MOST (MOST >= LEAST). */
static int64_t round_down(int64_t most)
{
    if (most < COARSE)
        return most / FINE * FINE;
    int64_t power = COARSE;
    while (2 * power <= most)
        power *= 2;
    return power / 2 * 3 <= most ? power / 2 * 3 : power;
}

int64_t lce_chunk_choose(const struct lce_chunk_shape *s, int64_t most)
{
    if (most > s->tokens)
        most = s->tokens;
    if (most <= LEAST)
        return most > 0 ? most : 1;
    most = most < MOST ? most : MOST;
    const int64_t smallest = most < COARSE ? LEAST : COARSE;
    int64_t best = most == s->tokens ? most : round_down(most);
    double least = lce_chunk_seconds(s, best);
    for (int64_t chunk = round_down(most); chunk >= smallest; chunk = round_down(chunk - 1)) {
        double seconds = lce_chunk_seconds(s, chunk);
        if (seconds <= least) {
            least = seconds;
            best = chunk;
        }
    }
    return best;
}
