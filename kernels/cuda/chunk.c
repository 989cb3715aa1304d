/*
 * chunk.c - estimates the time of a chunk size, and chooses.
 *
 * Three things make chunks differ.  A product's output is cut into tiles, a multiprocessor each: when the
 * tiles do not fill a whole number of rounds over the GPU, the last round idles; dinput [chunk, H] has few
 * tiles and feels it most. dweight [V, H] is read and written once a chunk, whatever the chunk's size, and
 * that shows when the chunk's arithmetic is shorter.  The softmax pass moves the same bytes in any case.
 * Rates are those of an H200 in bf16; only their proportions matter.
 */
#include "chunk.h"

enum { STEP = 128, MOST = 16384 };

static const double flops = 800e12, bytes = 4.0e12; /* per second */

static int64_t above(int64_t count, int64_t unit)
{
    return (count + unit - 1) / unit;
}

/* One product [m, n] over k, with the best of the tiles that matrix libraries have, the sum split where it
 * helps. */
static double product(const struct lce_chunk_shape *s, int64_t m, int64_t n, int64_t k)
{
    static const struct {
        int64_t m, n;
        double efficiency;
    } tiles[] = {{128, 256, 1}, {256, 128, 1}, {128, 128, 0.85}, {64, 256, 0.8}};
    double best = 1e30;
    for (int i = 0; i < 4; i++)
        for (int64_t split = 1; split <= 4; split *= 2) {
            int64_t rounds = above(above(m, tiles[i].m) * above(n, tiles[i].n) * split, s->processors);
            double work = 2.0 * (double)(tiles[i].m * tiles[i].n) * (double)k / (double)split;
            double seconds = (double)rounds * work / (flops / s->processors) / tiles[i].efficiency;
            if (split > 1) /* partial sums are written and read again */
                seconds = seconds * 1.02 + 8.0 * (double)(m * n * split) / bytes;
            best = seconds < best ? seconds : best;
        }
    return best;
}

static double one_chunk(const struct lce_chunk_shape *s, int64_t n)
{
    const double launches = 30e-6, h = (double)s->hidden, v = (double)s->vocab;
    double seconds = launches + product(s, n, s->vocab, s->hidden) + 2.0 * (double)n * v * s->element / bytes;
    if (s->grad_input)
        seconds += product(s, n, s->hidden, s->vocab);
    if (s->grad_element) {
        double arithmetic = product(s, s->vocab, s->hidden, n),
               traffic = 2.0 * v * h * s->grad_element / bytes;
        seconds += arithmetic > traffic ? arithmetic : traffic;
    }
    return seconds;
}

double lce_chunk_seconds(const struct lce_chunk_shape *s, int64_t chunk)
{
    int64_t tail = s->tokens % chunk;
    return (double)(s->tokens / chunk) * one_chunk(s, chunk) + (tail ? one_chunk(s, tail) : 0);
}

int64_t lce_chunk_choose(const struct lce_chunk_shape *s, int64_t most)
{
    if (most > s->tokens)
        most = s->tokens;
    if (most <= STEP)
        return most > 0 ? most : 1;
    int64_t best = most < MOST ? most : MOST;
    double least = lce_chunk_seconds(s, best);
    for (int64_t chunk = best / STEP * STEP; chunk >= STEP; chunk -= STEP) {
        double seconds = lce_chunk_seconds(s, chunk);
        if (seconds <= least) {
            least = seconds;
            best = chunk;
        }
    }
    return best;
}
