/* pathed.h - units of the model that a path names, instead of those that are found by themselves (pathed.c).
 */
#ifndef VS_EDIT_PATHED_H
#define VS_EDIT_PATHED_H

#include "program.h"

struct pathed {
    uint16_t *units; /* by layer, in the order of their first forward; EDIT_NO_UNIT: none */
    uint16_t n;
};

/* The modules with PATH ("Net.layers.*", see unit_names_match).  The caller frees it. */
struct pathed pathed_units(const struct program *p, const char *path);
void pathed_free(struct pathed *u);

#endif
