/*
 * fit.h - a law of size: what a block takes at batch B and length S, from what it took at some of them.
 *
 *      size = a + b B S + c B S^2 + d B + e S + f S^2, rounded up to 512
 *
 * with as few of these terms as explain all sizes that were recorded.  A recorded size may be more than the
 * request: by what rounding adds, and where PyTorch's native allocator gave a large block whole, by up to 1
 * MiB.
 */
#ifndef VS_LAW_FIT_H
#define VS_LAW_FIT_H

#include "base/base.h"

#define LAW_SAMPLES_MOST 16

enum law_term { TERM_ONE, TERM_TOKENS, TERM_SQUARE, TERM_BATCH, TERM_LENGTH, TERM_LENGTH_SQUARE, TERMS };

enum law_trust {
    LAW_EXACT, /* every recorded size, and at least one more than the law has terms */
    LAW_NEAR,  /* likewise within what a recorded size may be too large by */
    LAW_NONE   /* no law: what follows is a guess, the nearest line by tokens or batch times length^2 */
};

struct law {
    double of[TERMS];
    uint8_t terms, trust;
    double least, most; /* LAW_NONE: what the samples were of the line; of a single one 0 and 1 */
    /* Code that switches: to UPTO tokens the block has the terms BELOW, from FROM on those of OF; what lies
     * between was not recorded.  FROM 0: it is one law for all sizes. */
    double below[TERMS];
    int64_t upto, from;
};

struct law_point {
    int64_t batch, seq;
};

struct law_sample {
    struct law_point at;
    uint64_t size, over; /* as recorded; by how much it may be too large */
};

/* Of N samples, the last the largest.  KNOWN: laws that other blocks have, the most frequent first; where
 * sizes are not certain one of them is believed rather than a new one. */
struct law law_fit(const struct law_sample *samples, size_t n, const struct law *known, size_t known_count);

/* Bytes, not rounded and never below 0; between the two sides of a switch the more of both. */
double law_bytes(const struct law *law, int64_t batch, int64_t seq);
/* Likewise the less of both; elsewhere the same. */
double law_bytes_least(const struct law *law, int64_t batch, int64_t seq);
double law_term(enum law_term term, int64_t batch, int64_t seq);

/* Two terms of those that can't be told apart by runs at POINTS; false: all can. */
bool law_same_terms(const struct law_point *points, size_t n, enum law_term *a, enum law_term *b);

#endif
