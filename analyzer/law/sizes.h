/*
 * sizes.h - the batches and lengths that are asked about, and the largest of them that fit.
 */
#ifndef VS_LAW_SIZES_H
#define VS_LAW_SIZES_H

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

/* Lengths that are looked at: multiples of the largest power of two, 64 at most, that divides those of the
 * runs. */
int64_t law_granule(const struct law_runs *runs);

enum law_found { LAW_FOUND, LAW_NOTHING_FITS, LAW_ALL_FIT };
/* The longest at BATCH between LEAST and MOST that CAPACITY is enough for, in steps of the granule from LEAST
 * on. */
enum law_found law_longest(struct law_model *m, int64_t batch, int64_t least, int64_t most,
                           enum law_policy policy, uint64_t capacity, int64_t *seq, uint64_t *retries);
/* Likewise the largest batch at SEQ, also above MOST: LAW_ALL_FIT where there is no end to it. */
enum law_found law_largest(struct law_model *m, int64_t seq, int64_t least, int64_t most,
                           enum law_policy policy, uint64_t capacity, int64_t *batch, uint64_t *retries);

/* Where the peak of allocated lies, as the length grows at a batch. */
struct law_stretch {
    int64_t from, to; /* lengths; to is the last of the stretch */
    struct law_peak begin, end;
};
struct law_shape {
    struct law_stretch at[8];
    size_t n;
    bool more; /* there are more */
};
struct law_shape law_shape(struct law_model *m, int64_t batch, const struct law_list *seq);

#endif
