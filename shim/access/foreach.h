/*
 * foreach.h - the lists of tensors that PyTorch's foreach kernels, and those of torch.cat, get by value, and
 * how much of them counts.
 *
 *      foreach  list 0 [0 .. tensors)  list 1 ...  numel [0 .. tensors)  (scalars, or steps)
 *               block -> tensor  block -> chunk
 *      cat      list 0 [0 .. tensors)  numbers of each: offset, extent, elements, strides
 *
 * Such a structure lies on the stack and is filled only as far as there are tensors; behind them are words
 * that earlier calls left there, often addresses of blocks that this launch does not use.  (A launch may
 * leave them for kernels of other calls, too: nothing is done about those.)
 *
 * A structure is taken apart only where everything agrees: the kernel's name with PyTorch's template and
 * type, the parameter's size with the type's, and the launch's grid with the tables of blocks in it; cat has
 * a row of blocks for each tensor.  Where something does not, all of its words count, as those of any other
 * structure.
 */
#ifndef VS_ACCESS_FOREACH_H
#define VS_ACCESS_FOREACH_H

#include <stdbool.h>
#include <stdint.h>

struct vs_grid { /* blocks of a launch: in a row, and rows */
    uint32_t x, y;
};

static inline struct vs_grid vs_grid(uint32_t x, uint32_t y)
{
    return (struct vs_grid){x, y};
}

struct vs_foreach {
    uint8_t lists;     /* 0: it is no such kernel */
    uint8_t param : 1; /* the number of the parameter: 0, of cat 1 */
    uint8_t wide : 1;  /* it is of the larger form */
    uint8_t torch : 1; /* PyTorch's own, which a contract is about */
    uint16_t tensors;  /* room in each list */
    uint16_t steps;    /* bytes from the begin to one more list of addresses; 0: none */
    uint16_t blocks; /* bytes from the begin to the tables of blocks; 0: a row of the grid for each tensor */
};

/* What the kernel of this mangled NAME gets, whose first two parameters have FIRST and SECOND bytes. */
struct vs_foreach vs_foreach_of(const char *name, uint32_t first, uint32_t second);

/* Whether the third parameter, of SIZE bytes, of the kernel of this mangled NAME is an array of addresses,
 * all of them in use: those of PyTorch's elementwise kernels without offsets. */
bool vs_foreach_is_array(const char *name, uint32_t size);

/* How many tensors a launch over GRID has in the structure at PARAM; 0: that is not known. */
uint32_t vs_foreach_tensors(const struct vs_foreach *f, const void *param, struct vs_grid grid);

#endif
