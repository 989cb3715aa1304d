/*
 * slab.c - estimates the time of blocks of tokens by slabs of classes, and chooses their sizes.
 *
 * With slabs a block needs no room for all of its logits, so it can be large, and dweight is read and written
 * less often.  In return all logits but the last slab's are computed twice, each slab has launches of its
 * own, dinput is moved once a slab, and the weight is read three times a block.
 *
 * Rates are those of chunk.c.  On an H200 estimates met what was measured within 7 % (two shapes, budgets
 * from 0.5 to 256 MiB).
 */
#include "chunk.h"

static const double bytes = 4.0e12, launches = 18e-6; /* per second; for a slab, seconds */

static double most_of(double a, double b)
{
    return a > b ? a : b;
}

static double product(const struct lce_slab_shape *s, int64_t m, int64_t n, int64_t k)
{
    return s->slower * lce_product_seconds(s->processors, m, n, k, 0);
}

/* Seconds for the logits of one slab and the pass that only reads them. */
static double forward(const struct lce_slab_shape *s, int64_t n, int64_t c)
{
    const double weight = (double)c * (double)s->hidden * s->input_element / bytes;
    return most_of(product(s, n, c, s->hidden), weight) + (double)n * (double)c * s->element / bytes;
}

/* Seconds for dweight of C classes; the first block only writes it. */
static double dweight(const struct lce_slab_shape *s, int64_t n, int64_t c)
{
    const double traffic =
        (2 - (double)n / (double)s->tokens) * (double)c * (double)s->hidden * s->grad_element;
    return s->grad_element ? lce_adding_seconds(product(s, c, s->hidden, n), traffic) : 0;
}

static double gradients(const struct lce_slab_shape *s, int64_t n, int64_t c)
{
    const double h = (double)s->hidden, weight = (double)c * h * s->input_element / bytes;
    double seconds = 2.0 * (double)n * (double)c * s->element / bytes;
    if (s->grad_input) {
        double sums = c < s->vocab ? 8.0 * (double)n * h / bytes : 0;
        seconds += most_of(product(s, n, s->hidden, c), weight) + 0.7 * sums;
    }
    return seconds + dweight(s, n, c);
}

static double one_slab(const struct lce_slab_shape *s, int64_t n, int64_t c, bool again)
{
    const double logits = forward(s, n, c);
    return launches + logits + (s->gradients ? gradients(s, n, c) + (again ? logits : 0) : 0);
}

double lce_block_seconds(const struct lce_slab_shape *s, int64_t n, int64_t columns)
{
    const int64_t last = (s->vocab - 1) % columns + 1, others = (s->vocab - last) / columns;
    return (others ? (double)others * one_slab(s, n, columns, true) : 0) + one_slab(s, n, last, false);
}

double lce_slab_seconds(const struct lce_slab_shape *s, int64_t block, int64_t columns)
{
    const int64_t tail = s->tokens % block;
    return (double)(s->tokens / block) * lce_block_seconds(s, block, columns) +
           (tail ? lce_block_seconds(s, tail, columns) : 0);
}

static double one_borrowed(const struct lce_slab_shape *s, int64_t n, int64_t borrowed)
{
    double seconds = launches + forward(s, n, s->vocab) + dweight(s, n, s->vocab - borrowed);
    seconds += 2.0 * (double)n * (double)s->vocab * s->element / bytes;
    if (s->grad_input)
        seconds += product(s, n, s->hidden, s->vocab);
    return seconds;
}

double lce_borrow_seconds(const struct lce_slab_shape *s, int64_t block, int64_t borrowed)
{
    const int64_t tail = s->tokens % block;
    return (double)(s->tokens / block) * one_borrowed(s, block, borrowed) +
           (tail ? one_borrowed(s, tail, borrowed) : 0);
}

/* Seconds of one slab of a stage. */
static double one_again(const struct lce_slab_shape *s, int64_t n, int64_t c)
{
    return launches + forward(s, n, c) + (double)n * (double)c * s->element / bytes + dweight(s, n, c);
}

double lce_again_seconds(const struct lce_slab_shape *s, int64_t block, int64_t classes, int64_t columns)
{
    const int64_t slabs = (classes + columns - 1) / columns, last = classes - (slabs - 1) * columns,
                  tail = s->tokens % block;
    double seconds = 0;
    for (int i = 0; i < 2; i++) { /* for all slabs but the last, for the last */
        const int64_t c = i ? last : columns;
        const double all =
            (double)(s->tokens / block) * one_again(s, block, c) + (tail ? one_again(s, tail, c) : 0);
        seconds += (double)(i ? 1 : slabs - 1) * all;
    }
    return seconds;
}

/* The widest slab for BLOCK tokens that is narrower than the vocabulary; 0: none fits. */
static int64_t widest(const struct lce_slab_shape *s, int64_t block, lce_slab_size *size, void *context,
                      uint64_t budget)
{
    int64_t low = 0, high = (s->vocab - 1) / LCE_SLAB_UNIT;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (size(context, block, middle * LCE_SLAB_UNIT) <= budget)
            low = middle;
        else
            high = middle - 1;
    }
    return low * LCE_SLAB_UNIT;
}

int64_t lce_next_below(int64_t count)
{
    int64_t power = 1;
    while (2 * power < count)
        power *= 2;
    return power > 1 && power / 2 * 3 < count ? power / 2 * 3 : power;
}

static void consider(const struct lce_slab_shape *s, int64_t block, int64_t columns,
                     struct lce_slab_choice *best)
{
    const double seconds = lce_slab_seconds(s, block, columns);
    if (best->block && seconds >= best->seconds)
        return;
    *best = (struct lce_slab_choice){block, columns, seconds};
}

/* Considers slabs of about equal width, and those whose products are fastest. */
static void consider_widths(const struct lce_slab_shape *s, int64_t block, int64_t most,
                            struct lce_slab_choice *best)
{
    const int64_t unit = LCE_SLAB_UNIT, count = (s->vocab + most - 1) / most;
    const int64_t even = (s->vocab + count - 1) / count;
    consider(s, block, most, best);
    consider(s, block, (even + unit - 1) / unit * unit, best); /* at most MOST, which is a multiple of UNIT */
    for (int64_t c = lce_next_below(most); c >= unit; c = lce_next_below(c))
        if (c % unit == 0)
            consider(s, block, c, best);
}

struct lce_slab_choice lce_slab_choose(const struct lce_slab_shape *s, lce_slab_size *size, void *context,
                                       uint64_t budget)
{
    struct lce_slab_choice best = {0, 0, 0};
    for (int64_t n = s->tokens > 0 ? s->tokens : 1; n >= 1; n = lce_next_below(n)) {
        int64_t most = widest(s, n, size, context, budget);
        if (most > 0)
            consider_widths(s, n, most, &best);
        if (n == 1)
            break;
    }
    return best;
}
