/*
 * lanes.h - slices that may overlap, on as few tracks as they need.
 *
 *      given   A------------A          lane 1   A------------A
 *                 B---B                            B---B
 *                         C------C     lane 2               C------C
 *
 * A slice goes to the first lane in which it lies within what is open there, or in which nothing is open any
 * more.  They come in the order of their begins.
 */
#ifndef VS_EXPORT_LANES_H
#define VS_EXPORT_LANES_H

#include "perfetto.h"

struct lane {
    uint64_t track;
    int64_t *ends; /* of what is open, outermost first */
    size_t n;
    int64_t now; /* the last moment that was written */
};

struct lanes {
    uint64_t parent;
    const char *name;
    bool first_is_parent; /* the first lane is PARENT itself */
    struct lane *at;
    size_t n;
};

/* END INT64_MAX: it is open. */
void lanes_put(struct lanes *l, struct perfetto *w, int64_t begin, int64_t end, const char *name,
               const char *category);
/* Ends what has an end, and frees the lanes. */
void lanes_end(struct lanes *l, struct perfetto *w);

#endif
