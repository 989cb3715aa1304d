/*
 * shaken.h - a program with sizes that differ a little from what they are.
 *
 * Whether a request passes can hang on one block that happens to fit a hole of its size.  Another batch,
 * another version of a library or another GPU has other sizes, and that luck is gone.  What passes with sizes
 * that are drawn anew passes without it.
 */
#ifndef VS_EDIT_SHAKEN_H
#define VS_EDIT_SHAKEN_H

#include "program.h"

#define SHAKEN_DRAWS 8
#define SHAKEN_PART  100 /* a size is up to a 100th of it larger or smaller */

/* Blocks of P, in draw DRAW, as an array of their own.  Equal sizes stay equal; small ones stay as they are.
 */
struct edit_block *shaken_blocks(const struct program *p, unsigned draw);

#endif
