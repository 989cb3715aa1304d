/*
 * owners.h - which rank has a parameter's states, where each parameter is one rank's as a whole (owners.c).
 */
#ifndef VS_EDIT_OWNERS_H
#define VS_EDIT_OWNERS_H

#include "program.h"

struct owners {
    struct owned {
        uint64_t size;
        int64_t rank;
        size_t next; /* of the first of a size: states, and temporaries, that were seen */
        size_t seen;
    } * at; /* by size, the largest first; of a size in the order of the parameters */
    size_t n;
    size_t states; /* of a parameter */
    int64_t fullest, emptiest;
};

/* For RANKS of them, as ZeroRedundancyOptimizer gives parameters out.  N is 0 where states and parameters do
 * not go together. */
struct owners owners_of(const struct program *p, int64_t ranks);
void owners_free(struct owners *o);

/* Whether the next block, of KIND_STATE or KIND_UPDATE and so large, is that of a parameter of RANK: 1, 0, or
 * -1 where no parameter is as large. */
int owners_next(struct owners *o, uint64_t size, enum edit_kind kind, int64_t rank);

#endif
