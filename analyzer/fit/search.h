/*
 * search.h - which sizes to try next, to find the largest that fits.
 *
 *      index      0     1     2     3     4     5     6
 *                fits        fits   ?     ?    not         the largest is 2, 3 or 4
 *
 * Sizes rise with their index.  What fits at one is taken to fit at all smaller ones.  The end is not taken
 * for granted: a size that fits and the next one, which does not, were both tried.  Where whether one fits
 * lies within what is not known exactly, the first that certainly does not is looked for, too.
 */
#ifndef VS_FIT_SEARCH_H
#define VS_FIT_SEARCH_H

#include "base/base.h"

enum trial_state {
    TRIAL_FITS,
    TRIAL_BETWEEN, /* within what is not known exactly */
    TRIAL_REFUSED,
    TRIAL_STOPPED /* the program failed by itself, or nobody can tell */
};

struct trial {
    int64_t at;
    enum trial_state state;
    double need; /* bytes of the device, of one that fits; NAN: not known */
};

struct search {
    int64_t n;                                       /* sizes */
    double (*size)(const void *context, int64_t at); /* that index AT stands for */
    const void *context;
    double room;             /* bytes of the device; NAN */
    double guess;            /* a size that may be the largest; NAN */
    const struct trial *all; /* that were made, in any order */
    size_t count;
};

struct found {
    int64_t fits, over; /* the largest that fits; the next, which does not (n: all fit); -1: none, 0 */
    int64_t refused;    /* the first that certainly does not; OVER, where nothing is between */
    bool contradicted;  /* a smaller one than FITS does not */
};

/* The sizes to try now, at most MOST of them, into ASK; how many, 0: the end is found. */
size_t search_next(const struct search *s, int64_t *ask, size_t most);
struct found search_found(const struct search *s);

#endif
