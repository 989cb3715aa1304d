/*
 * compare.h - two runs side by side: matches rows by their names, and devices by their numbers.  What a run
 * lacks is UNKNOWN.
 */
#ifndef VS_ANALYSIS_COMPARE_H
#define VS_ANALYSIS_COMPARE_H

#include "base/base.h"

enum compare_side { SIDE_A, SIDE_B };

struct compared {
    char *name;
    int64_t value[2]; /* by side; UNKNOWN: not there */
};

struct comparison {
    struct compared *rows;
    size_t count;
};

/* Adds VALUE to the row called NAME, which is created if needed. */
void compare_add(struct comparison *c, enum compare_side side, const char *name, int64_t value);
/* The value of SIDE in the row called NAME; UNKNOWN. */
int64_t compare_find(const struct comparison *c, enum compare_side side, const char *name);
/* Sorts by change, the greatest first; a missing value counts as 0. */
void compare_sort(struct comparison *c);
void compare_free(struct comparison *c);

/* b - a; UNKNOWN if one of them is. */
int64_t compare_change(int64_t a, int64_t b);

/* |b - a|; a missing value counts as 0 */
int64_t compare_distance(int64_t a, int64_t b);

/* A pair of devices of A and B: with the same number, or the only ones. */
struct compared_devices {
    int64_t a, b; /* numbers; UNKNOWN: it has none */
};
struct compared_devices *compare_devices(const int64_t *a, size_t a_count, const int64_t *b, size_t b_count,
                                         size_t *count);

#endif
