/*
 * composition.h - what allocated memory was made of in each column of a picture, at the column's greatest
 * value: by role, or by the phase of the blocks' births.
 *
 * Each event's change of the total goes to the group of its block, so the groups sum to the column's
 * greatest allocated.  Group 0 is the rest, of which nothing is known.
 */
#ifndef VS_ANALYSIS_COMPOSITION_H
#define VS_ANALYSIS_COMPOSITION_H

#include "columns.h"
#include "trace/roles.h"

enum composition_by { COMPOSITION_NONE, COMPOSITION_ROLE, COMPOSITION_PHASE };

struct composition {
    size_t groups; /* 0: none was made */
    int64_t *at;   /* [column * groups + group], bytes */
};

/* An enum vs_role, or where none is told one of COMPOSITION_MADE words for the phase that made it. */
enum { COMPOSITION_MADE = 7, COMPOSITION_ROLES = VS_ROLE_COUNT + COMPOSITION_MADE };
/* "activation", "made in forward"; 0 "not told". */
const char *composition_role(size_t group);

/* NULL, or why T has no composition: what would have to be read is not in the file, or is too much. */
const char *composition_none(const struct trace *t);

/* Fills C for COLUMNS of DEVICE; 0, or -1 with t->why.  BY phase: GROUP_OF_PHASE says the group of each of
 * t->phase_names, below GROUPS. */
int composition_load(struct composition *c, struct trace *t, int64_t device, const struct columns *columns,
                     enum composition_by by, const size_t *group_of_phase, size_t groups);
/* The most that GROUP has in any of COLUMNS columns; 0: it never comes. */
int64_t composition_most(const struct composition *c, size_t columns, size_t group);
void composition_free(struct composition *c);

#endif
