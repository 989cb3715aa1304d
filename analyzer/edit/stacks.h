/* stacks.h - what call stacks tell of blocks: the unit of the model, and how the optimizer works (stacks.c).
 */
#ifndef VS_EDIT_STACKS_H
#define VS_EDIT_STACKS_H

#include "program.h"

int stacks_read(struct trace *t, struct edit_facts *facts);
/* Numbers the units in the order in which BLOCKS were made in them. */
void stacks_order_units(struct edit_facts *facts, const struct trace_blocks *blocks);

#endif
