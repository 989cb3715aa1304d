/*
 * foreach.h - the lists of tensors that PyTorch's foreach kernels get by value, and how much of them counts.
 *
 *      list 0 [0 .. tensors)   list 1 ...   numel [0 .. tensors)   (scalars, or steps)   block -> tensor
 * block -> chunk
 *
 * Such a structure lies on the stack and is filled only as far as there are tensors; behind them are words
 * that earlier calls left there, often addresses of blocks that this launch does not use.  (A launch may
 * leave them for kernels of other calls, too: nothing is done about those.)
 *
 * A structure is taken apart only where everything agrees: the kernel's name with PyTorch's template and
 * type, the parameter's size with the type's, and the tables of blocks in it with the launch's grid.  Where
 * something does not, all of its words count, as those of any other structure.
 */
#ifndef VS_ACCESS_FOREACH_H
#define VS_ACCESS_FOREACH_H

#include <stdbool.h>
#include <stdint.h>

struct vs_foreach {
    uint8_t lists;    /* 0: it is no such kernel */
    uint16_t tensors; /* room in each list */
    uint16_t steps;   /* bytes from the begin to one more list of addresses; 0: none */
    uint16_t blocks;  /* bytes from the begin to the tables of blocks */
};

/* What the kernel of this mangled NAME gets as its first parameter, of SIZE bytes. */
struct vs_foreach vs_foreach_of(const char *name, uint32_t size);

/* How many tensors a launch of BLOCKS blocks has in the structure at PARAM; 0: that is not known. */
uint32_t vs_foreach_tensors(const struct vs_foreach *f, const void *param, uint32_t blocks);

#endif
