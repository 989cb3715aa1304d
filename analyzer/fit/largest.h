/*
 * largest.h - `fit --max batch=1..256`: the largest size that fits.
 *
 *      --max batch=1..256                               all whole numbers from 1 to 256 are in question
 *      --max batch=1..64 --max seq=512,1024,2048        for each length the largest batch
 *
 * The points are those of a sweep (sweep/sweep.h): their folder, table, database and picture.
 */
#ifndef VS_FIT_LARGEST_H
#define VS_FIT_LARGEST_H

#include "attempt.h"
#include "search.h"
#include "sweep/sweep.h"

struct axis { /* whose largest value is looked for */
    const struct grid_axis *of;
    bool whole;    /* all whole numbers from the first value on, and not the list of them */
    int64_t first; /* of them */
    int64_t n;
};

struct row {           /* for one value of the other axis */
    const char *value; /* NULL: there is no other */
    struct found found;
};

struct largest {
    const struct attempt_setup *setup;
    struct sweep sweep;
    struct work work;
    const char *folder;
    struct axis axis;
    struct row *rows;
    size_t n;
    bool json;
};

struct largest_options {
    const struct arg_list *max;
    const struct dry_options *dry;
    const char *output; /* NULL: nowhere */
    int64_t jobs;
    bool json;
};

/* The exit status. */
int largest_find(const struct attempt_setup *s, const struct largest_options *o);

/* The value of index AT as the command gets it; the caller frees it. */
char *largest_value(const struct largest *l, int64_t at);
/* That of point P. */
const char *largest_at(const struct largest *l, const struct point *p);
/* The point of a row at index AT; NULL: it was not tried. */
const struct point *largest_point(const struct largest *l, const struct row *r, int64_t at);
int largest_status(const struct largest *l);
void largest_text(const struct largest *l, FILE *out);
void largest_json(const struct largest *l, FILE *out);

#endif
