/*
 * answer.h - a question about other sizes, with what its recordings say, and the ways to show the answer.
 */
#ifndef VS_LAW_ANSWER_H
#define VS_LAW_ANSWER_H

#include "base/json.h"
#include "law.h"
#include "model.h"
#include "runs.h"
#include "sizes.h"

struct answer {
    const struct law_request *q;
    struct law_runs runs;
    struct law_model model;
    struct law_list batch, seq; /* the sizes asked about */
};

/* The largest that fits at X of the one axis, along the other. */
enum law_found answer_largest(struct answer *a, bool longest, int64_t x, enum law_policy policy,
                              int64_t *best, uint64_t *retries);
/* By how many bytes LAW grows with a token of length, and with the square of the length. */
double answer_slope(const struct law *law, int64_t batch);
double answer_square(const struct law *law, int64_t batch);

/* How far it can be relied on: the laws against what was recorded, and what has none. */
void answer_print_trust(struct answer *a);
void answer_print_text(struct answer *a);
void answer_print_json(struct answer *a);

#endif
