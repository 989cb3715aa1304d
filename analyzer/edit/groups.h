/*
 * groups.h - a model's parameters in the groups that are sharded together: each of its units, and the rest
 * (groups.c).
 */
#ifndef VS_EDIT_GROUPS_H
#define VS_EDIT_GROUPS_H

#include "program.h"

struct group {
    uint64_t *sizes; /* of its parameters; owned */
    size_t n;
    uint64_t bytes; /* of all of them */
};

struct groups {
    struct group *at; /* by unit; the last one is the rest */
    size_t n;
};

/* HIGH: parameters whose unit is not known are all in the rest; else no more of them than twice the largest
 * one. */
struct groups groups_of(const struct program *p, bool high);
/* Parameters that have a gradient, alone. */
struct groups groups_of_gradients(const struct program *p);
void groups_free(struct groups *g);

/* What the fullest of N ranks has of all groups' parameters, where each is one rank's as a whole and the
 * largest are given first, over an N-th of them: 1 where they are even. */
double groups_unevenness(const struct groups *g, int64_t n);

#endif
