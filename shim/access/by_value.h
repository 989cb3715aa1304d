/*
 * by_value.h - structures that PyTorch's kernels get by value, and how much of them counts.
 *
 * Such a structure lies on the stack and is filled only in part; the rest is words that earlier calls left
 * there, often addresses of blocks that this launch does not use, and the same ones in every step.  (Such
 * leftovers lie in other kernels' structures as well; those count as uses.)
 *
 * One is taken apart only where everything agrees.  Where something does not, all of its words count, as
 * those of any other structure.
 */
#ifndef VS_ACCESS_BY_VALUE_H
#define VS_ACCESS_BY_VALUE_H

#include <stdbool.h>
#include <stdint.h>

/* ---- lists of tensors (foreach.c), of the foreach kernels and those of torch.cat ----
 *
 *      foreach  list 0 [0 .. tensors)  list 1 ...  numel [0 .. tensors)  (scalars, or steps)
 *               block -> tensor  block -> chunk
 *      cat      list 0 [0 .. tensors)  numbers of each: offset, extent, elements, strides
 *
 * Only as many tensors as there are count.  What has to agree: the name with PyTorch's template and type, the
 * parameter's size with the type's, and the launch's grid with the tables of blocks in it; cat has a row of
 * blocks for each tensor. */

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

/* ---- tensors of any strides (strided.c): addresses, and numbers to work out offsets with ----
 *
 *      elementwise   calculator of all tensors | addresses of the tensors | the function and its values
 *      reduce        function | configuration | calculators | source, outputs, buffers | numbers
 *
 * A calculator has room for 25 dimensions, of which the first few are written.  No word of it is an address,
 * so none of it counts.  The addresses beside it are sure.  What has to agree: the name with PyTorch's
 * template, the parameter's size with its parts, and, at each launch, the number of dimensions with the room
 * for them and the addresses with the pages where blocks lie. */

struct vs_strided {
    uint8_t param;     /* 1 + its number; 0: it is no such kernel */
    bool reduces;      /* otherwise it is elementwise */
    bool only_numbers; /* its function's values are numbers, or it has none */
    uint8_t addresses; /* of an elementwise one */
    uint16_t at;       /* bytes from its begin to the first address */
    uint16_t size;
};

/* Words of a parameter that count. */
struct vs_words {
    const char *at;
    uint32_t words;
    bool sure; /* they are addresses on purpose */
};
#define VS_STRIDED_PARTS 3u

/* What the kernel of this mangled NAME gets, which has COUNT parameters, the last of SIZE bytes. */
struct vs_strided vs_strided_of(const char *name, uint32_t count, uint32_t size);

/* The parts of the structure at VALUE that count; 0: that is not known. */
uint32_t vs_strided_parts(const struct vs_strided *s, const char *value,
                          struct vs_words parts[VS_STRIDED_PARTS]);

/* How many of the SIZE bytes of a parameter of the kernel of this mangled NAME may have addresses: none of a
 * calculator that is a parameter of its own, the first word of a tensor's description (TensorInfo), and all
 * of anything else. */
uint32_t vs_strided_room(const char *name, uint32_t size);

#endif
