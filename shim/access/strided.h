/*
 * strided.h - what PyTorch's kernels over tensors of any strides get by value: addresses, and beside them
 * numbers to work out offsets with.
 *
 *      elementwise   calculator of all tensors | addresses of the tensors | the function and its values
 *      reduce        function | configuration | calculators | source, outputs, buffers | numbers
 *
 * A calculator has room for 25 dimensions, of which the first few are written.  The rest, 8 to 16 bytes a
 * dimension, is what earlier calls left on the stack, often addresses of blocks that the launch does not use,
 * and the same ones in every step.  No word of a calculator is an address, so none of it counts.  The
 * addresses beside it are sure.
 *
 * A structure is taken apart only where everything agrees: the kernel's name with PyTorch's template, the
 * parameter's size with its parts, and, at each launch, the number of dimensions with the room for them and
 * the addresses with the pages where blocks lie.  Where something does not, all of its words count.
 */
#ifndef VS_ACCESS_STRIDED_H
#define VS_ACCESS_STRIDED_H

#include <stdbool.h>
#include <stdint.h>

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
