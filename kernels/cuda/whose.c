/*
 * whose.c - estimates the time of chunks with our products and with cuBLASLt's, to choose between them.
 *
 * Our products compute whole tiles, of rows that nobody needs, too; and a cluster of two blocks computes one
 * tile after the other, so clusters idle in the last round.  Their times follow from that:
 *
 *     logits    rounds of tiles of 256 tokens x 192 classes, over H
 *     dweight   rounds of tiles of 192 classes x 256 of H, or 256 x 192, over the tokens; and its traffic
 *     dinput    rounds of tiles of 256 tokens x 256 or 192 of H, over the classes; the last round's tiles are
 *               split along the classes (product_split.h)
 *
 * cuBLASLt has many sizes of tiles, so its rates hardly depend on the shape.  Where exponentials are stored
 * (exponents.c) our product makes the logits in either case.
 *
 * Rates are those of an H200 in bf16, fitted to every other shape of tests/data/cross_entropy_whose.tsv and
 * rounded in view of all of them.
 */
#include "chunk.h"
#include "product_split.h"

#include <math.h>

/* What the logits of N tokens take beside their product: the pass over them.  For exponentials, that includes
 * what the product's end takes longer; odds take that, and the passes over matrices of N by H (odds.cuh). */
static double pass_seconds(const struct lce_chunk_shape *s, int64_t n)
{
    if (s->odds)
        return 2.0 * (double)n * s->element * ((double)s->vocab / 13e12 + 6.0 * (double)s->hidden / 3.0e12);
    return 2.0 * (double)n * (double)s->vocab * s->element / (s->exponents ? 3.0e12 : 2.3e12);
}

/* ---- ours ---- */

enum { TOKENS = 256, CLASSES = 192, WIDE = LCE_WIDE, NARROW = LCE_NARROW, STEP = 64 };

static const double tile_flops[3] = {800e12, 770e12, 820e12}; /* of all clusters: logits, dweight, dinput */
/* Dinput in narrow tiles: a guess, by which the faster width was taken at H = 2880 and 2304 on an H200. */
static const double narrow_flops = 800e12;

/* How many times UNIT covers COUNT. */
static int64_t above(int64_t count, int64_t unit)
{
    return (count + unit - 1) / unit;
}

/* STEPS of tiles of M by N, each over 64 of k, at RATE operations a second of all clusters together. */
static double steps_seconds(int processors, double steps, int64_t m, int64_t n, double rate)
{
    return steps * 2.0 * (double)(m * n) * STEP / (rate / (processors / 2));
}

/* Dinput: whole rounds of tiles with WIDTH of H, and the rest, split into parts for which there is ROOM. */
static double split_seconds(int processors, int64_t tiles, int width, int64_t steps, int64_t room)
{
    const int64_t clusters = processors / 2;
    const struct lce_split rest =
        lce_split_tiles((int32_t)(tiles % clusters), (int32_t)clusters, (int32_t)steps,
                        (int32_t)(room < INT32_MAX ? room : INT32_MAX));
    const double last = tiles % clusters ? (double)rest.time / 64 : 0;
    return steps_seconds(processors, (double)(tiles / clusters * steps) + last, TOKENS, width,
                         width == WIDE ? tile_flops[2] : narrow_flops);
}

static double dinput_seconds(const struct lce_chunk_shape *s, int64_t n, int width)
{
    return split_seconds(s->processors, above(n, TOKENS) * above(s->hidden, width), width,
                         above(s->vocab, STEP), s->room ? s->room : INT64_MAX);
}

int lce_dinput_width(const struct lce_chunk_shape *s, int64_t n)
{
    if (s->dinput_width)
        return s->dinput_width;
    return dinput_seconds(s, n, NARROW) < dinput_seconds(s, n, WIDE) ? NARROW : WIDE;
}

int64_t lce_split_room(int processors, int64_t tokens, int64_t hidden, int64_t vocab)
{
    const struct lce_chunk_shape s = {.hidden = hidden, .vocab = vocab, .processors = processors};
    const int width = lce_dinput_width(&s, tokens);
    const int32_t clusters = processors / 2,
                  rest = (int32_t)(above(tokens, TOKENS) * above(hidden, width) % clusters);
    const struct lce_split best = lce_split_tiles(rest, clusters, (int32_t)above(vocab, STEP), INT32_MAX);
    return lce_split_parts(&best);
}

static double own_dinput(const struct lce_chunk_shape *s, int64_t n)
{
    return dinput_seconds(s, n, lce_dinput_width(s, n));
}

/* The bytes of CLASSES of dweight that a chunk moves: the FIRST one only writes them. */
static double dweight_bytes(const struct lce_chunk_shape *s, int64_t classes, bool first)
{
    return (first && !s->adds ? 1.0 : 2.0) * (double)classes * (double)s->hidden * s->grad_element;
}

/* Rounds of tiles of dweight with WIDTH of H: 192 classes by 256 of H, or 256 by 192. */
static int64_t dweight_rounds(const struct lce_chunk_shape *s, int64_t classes, int width)
{
    const int64_t tiles = above(classes, WIDE + NARROW - width) * above(s->hidden, width);
    return above(tiles, s->processors / 2);
}

int lce_dweight_width(const struct lce_chunk_shape *s, int64_t classes)
{
    const int64_t wide = dweight_rounds(s, classes, WIDE), narrow = dweight_rounds(s, classes, NARROW);
    if (s->dweight_width)
        return s->dweight_width;
    return 100 * narrow < 99 * wide ? NARROW : WIDE;
}

/* Our product of CLASSES of dweight, over N tokens.  However few these are, a tile takes as long as its old
 * sums need to come and go, unless they stay in the L2 cache from chunk to chunk. */
static double own_dweight(const struct lce_chunk_shape *s, int64_t n, int64_t classes, bool first)
{
    const double sums = 9e-6, cache = 40e6;
    const int64_t rounds = dweight_rounds(s, classes, lce_dweight_width(s, classes));
    const double steps = (double)(rounds * above(n, STEP)),
                 seconds =
                     lce_adding_seconds(steps_seconds(s->processors, steps, CLASSES, WIDE, tile_flops[1]),
                                        dweight_bytes(s, classes, first)),
                 least = (double)rounds * sums;
    const bool cached = (double)classes * (double)s->hidden * s->grad_element < cache;
    return first || cached || seconds > least ? seconds : least;
}

/* Our product of the logits of N tokens by CLASSES. */
static double own_product(const struct lce_chunk_shape *s, int64_t n, int64_t classes)
{
    const int64_t rounds = above(above(n, TOKENS) * above(classes, CLASSES), s->processors / 2);
    return steps_seconds(s->processors, (double)(rounds * above(s->hidden, STEP)), TOKENS, CLASSES,
                         tile_flops[0]);
}

/* That product, and the pass over the logits. */
static double own_logits(const struct lce_chunk_shape *s, int64_t n)
{
    return pass_seconds(s, n) + own_product(s, n, s->vocab);
}

static double own_chunk(const struct lce_chunk_shape *s, int64_t n, bool first)
{
    double seconds = 60e-6 + own_logits(s, n);
    if (s->grad_element)
        seconds += own_dweight(s, n, s->vocab - s->borrowed, first);
    return seconds + (s->grad_input ? own_dinput(s, n) : 0);
}

/* ---- cuBLASLt's ---- */

static double their_logits(const struct lce_chunk_shape *s, int64_t n, double tiles, double flops)
{
    return pass_seconds(s, n) + 1.08 * 2.0 * tiles * (double)s->hidden / flops;
}

/* The last classes' share of three products, or of two where ours makes the logits. */
static double tail_seconds(const struct lce_chunk_shape *s, int64_t n, double dweight)
{
    const double share = s->grad_element == 4 ? 0.24 : 0.08;
    return (s->exponents ? 0.8 : 1) *
           (15e-6 + 55e-9 * (double)n + 9e-12 * (double)n * (double)s->hidden + share * dweight);
}

static double their_chunk(const struct lce_chunk_shape *s, int64_t n, bool first)
{
    const double flops = 830e12, h = (double)s->hidden, part = (double)n * (double)s->vocab,
                 tiles = (double)(above(n, STEP) * STEP) * (double)s->vocab;
    double dweight = 0,
           seconds = s->exponents ? 57e-6 + own_logits(s, n) : 50e-6 + their_logits(s, n, tiles, flops);
    if (s->grad_element) /* their dweight waits less for memory: as if that were faster */
        dweight = lce_adding_seconds(1.03 * 2.0 * part * h / flops, dweight_bytes(s, s->vocab, first) / 1.12);
    if (s->grad_input)
        seconds += 1.02 * 2.0 * tiles * (double)(above(s->hidden, WIDE / 2) * (WIDE / 2)) / flops;
    return seconds + dweight + (s->tail ? tail_seconds(s, n, dweight) : 0);
}

/* ---- all chunks ---- */

static double sum_chunks(const struct lce_chunk_shape *s, int64_t chunk,
                         double one(const struct lce_chunk_shape *, int64_t, bool))
{
    const int64_t whole = s->tokens / chunk, last = s->tokens % chunk;
    double seconds = last ? one(s, last, whole == 0) : 0;
    if (whole > 0)
        seconds += one(s, chunk, true) + (double)(whole - 1) * one(s, chunk, false);
    return seconds;
}

double lce_own_seconds(const struct lce_chunk_shape *s, int64_t chunk)
{
    return sum_chunks(s, chunk, own_chunk);
}

double lce_their_seconds(const struct lce_chunk_shape *s, int64_t chunk)
{
    return sum_chunks(s, chunk, their_chunk);
}

/* ---- borrowed rows of dweight ---- */

/* N tokens by CLASSES of a stage.  What is small there was measured at two shapes: what begins and ends a
 * product, the passes over rows of x, the launches. */
static double own_again(const struct lce_chunk_shape *s, int64_t n, int64_t classes, bool first)
{
    const double products = 7e-6, launches = 5e-6, passes = s->odds ? 3e-6 : 14e-6,
                 rows = (double)n * (double)s->hidden * 1.8e-12,
                 logits = 2.0 * (double)n * (double)classes * s->element / 3.6e12;
    return products + launches + passes + rows + (s->odds ? 0 : logits) + own_product(s, n, classes) +
           own_dweight(s, n, classes, first);
}

/* All tokens by CLASSES. */
static double own_slab(const struct lce_chunk_shape *s, int64_t block, int64_t classes)
{
    const int64_t whole = s->tokens / block, tail = s->tokens % block;
    double seconds = tail ? own_again(s, tail, classes, whole == 0) : 0;
    if (whole > 0)
        seconds += own_again(s, block, classes, true);
    return seconds + (whole > 1 ? (double)(whole - 1) * own_again(s, block, classes, false) : 0);
}

double lce_own_again_seconds(const struct lce_chunk_shape *s, int64_t block, int64_t classes, int64_t columns)
{
    const int64_t slabs = above(classes, columns);
    const double last = own_slab(s, block, classes - (slabs - 1) * columns);
    return last + (slabs > 1 ? (double)(slabs - 1) * own_slab(s, block, columns) : 0);
}

/* ---- slabs, with rows of dinput as scratch ---- */

/* What is small here was set by the kernels' times of two shapes; segments of five shapes then took what is
 * estimated within 7 %. */
static const double each_product = 7e-6; /* what begins and ends one */

/* Adds N tokens by CLASSES to sums of dinput.  Nothing runs beside the end of a tile; a part of a split one
 * may wait for the other. */
static double sums_dinput(const struct lce_chunk_shape *s, int64_t n, int64_t classes)
{
    enum { END_STEPS = 10 };
    const int64_t tiles = above(n, TOKENS) * above(s->hidden, WIDE), clusters = s->processors / 2,
                  rest = tiles % clusters, ends = tiles / clusters + (rest ? 2 : 0);
    return each_product + split_seconds(s->processors, tiles, WIDE, above(classes, STEP), 2 * rest) +
           steps_seconds(s->processors, (double)(ends * END_STEPS), TOKENS, WIDE, tile_flops[2]);
}

static double dinput_slab(const struct lce_chunk_shape *s, int64_t n, int64_t classes)
{
    const double fold = 5e-6 + (double)n * 2e-9;
    return each_product + own_product(s, n, classes) + fold + sums_dinput(s, n, classes);
}

static double dweight_slab(const struct lce_chunk_shape *s, int64_t n, int64_t classes)
{
    return 2 * each_product + own_product(s, n, classes) + own_dweight(s, n, classes, false);
}

/* Logits twice, and the passes over them: one that reads them, one that also writes them. */
static double both_slab(const struct lce_chunk_shape *s, int64_t n, int64_t classes)
{
    const double passes = 14e-6 + 3.0 * (double)n * (double)classes * s->element / 2.5e12,
                 dweight = s->grad_element ? each_product + own_dweight(s, n, classes, false) : 0;
    return 2 * (each_product + own_product(s, n, classes)) + passes + sums_dinput(s, n, classes) + dweight;
}

/* All slabs of a block, and its gathered rows. */
static double all_slabs(const struct lce_chunk_shape *s, int64_t block, int64_t columns,
                        double (*slab)(const struct lce_chunk_shape *, int64_t, int64_t))
{
    const int64_t slabs = above(s->vocab, columns);
    return 20e-6 + (double)block * (double)s->hidden * 4 / 3e12 +
           (double)(slabs - 1) * slab(s, block, columns) + slab(s, block, s->vocab - (slabs - 1) * columns);
}

double lce_own_block_seconds(const struct lce_chunk_shape *s, int64_t block, int64_t columns)
{
    return all_slabs(s, block, columns, both_slab);
}

double lce_own_dinput_seconds(const struct lce_chunk_shape *s, int64_t block, int64_t columns)
{
    return all_slabs(s, block, columns, dinput_slab);
}

double lce_own_dweight_seconds(const struct lce_chunk_shape *s, int64_t block, int64_t columns)
{
    return all_slabs(s, block, columns, dweight_slab);
}

/* ---- the chunk of ours ---- */

/* The length of chunks of at most MOST tokens that are as few and as even as whole tiles allow. */
static int64_t equal_chunks(const struct lce_chunk_shape *s, int64_t most)
{
    if (most >= s->tokens)
        return s->tokens > 0 ? s->tokens : 1;
    if (most <= TOKENS)
        return most;
    const int64_t chunks = above(s->tokens, most / TOKENS * TOKENS);
    return above(above(s->tokens, chunks), TOKENS) * TOKENS;
}

int64_t lce_own_choose(const struct lce_chunk_shape *s, int64_t most)
{
    enum { SHORT = 2048, LONG = 2560, LONGEST = 4096 };
    const double worth = 0.97; /* of the time, for up to twice the memory */
    const int64_t few = equal_chunks(s, most < LONG ? most : LONG),
                  many = equal_chunks(s, most < SHORT ? most : SHORT),
                  fewest = equal_chunks(s, most < LONGEST ? most : LONGEST),
                  best = lce_own_seconds(s, many) <= lce_own_seconds(s, few) ? many : few;
    return lce_own_seconds(s, fewest) <= worth * lce_own_seconds(s, best) ? fewest : best;
}
