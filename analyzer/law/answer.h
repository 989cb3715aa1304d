/*
 * answer.h - a question about other sizes: the batches and lengths that are asked about, and the largest of
 * them that fit.
 */
#ifndef VS_LAW_ANSWER_H
#define VS_LAW_ANSWER_H

#include "base/json.h"
#include "law.h"
#include "model.h"

#define SIZES_MOST  64 /* of a list */
#define NUMBER_MOST (INT64_C(1) << 24)

struct law_list {
    int64_t at[SIZES_MOST]; /* rising */
    size_t n;
};

/* "1..64": 1, 2, 4 ... 64; "1,2,3"; "4".  False: it is none of these. */
bool law_read_list(const char *text, struct law_list *list);
/* The distinct batches (BATCH) or lengths of the runs. */
void law_own_list(const struct law_runs *runs, bool batch, struct law_list *list);
/* 0, or 2, said, where the runs can't tell what is asked. */
int law_check_design(const struct law_runs *runs, const struct law_list *batch, const struct law_list *seq);

enum law_found { LAW_FOUND, LAW_NOTHING_FITS, LAW_ALL_FIT };
/* The largest that CAPACITY is enough for at X of the one axis: LONGEST, the length at a batch, as far as
 * ALONG goes; else the batch at a length, also above ALONG: LAW_ALL_FIT where there is no end to it. */
enum law_found law_largest(struct law_model *m, bool longest, int64_t x, const struct law_list *along,
                           enum feed_policy policy, uint64_t capacity, int64_t *best, uint64_t *retries);

struct answer {
    const struct law_request *q;
    struct law_runs runs;
    struct law_model model;
    struct law_list batch, seq; /* the sizes asked about */
};

void answer_print_text(struct answer *a);

#endif
