/* stacks.h - what call stacks tell of blocks: the unit of the model, and how the optimizer works (stacks.c).
 */
#ifndef VS_EDIT_STACKS_H
#define VS_EDIT_STACKS_H

#include "program.h"

int stacks_read(struct trace *t, struct edit_facts *facts);
/* Which unit each stack of P is in, into its FACTS. */
void stacks_find_units(const struct program *p, struct edit_facts *facts);
/* By layer the number of its unit, whose name is the first LENGTHS[layer] bytes of the layer's path, of *N;
 * EDIT_NO_UNIT for 0.  They are numbered in the order in which forward came to them.  The caller frees it. */
uint16_t *stacks_units(const struct program *p, const size_t *lengths, uint16_t *n);

#endif
