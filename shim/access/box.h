/*
 * box.h - memory that a copy reads or writes, and the words there that may be addresses.
 */
#ifndef VS_ACCESS_BOX_H
#define VS_ACCESS_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Slices of rows, all of which are copied. */
struct vs_box {
    uint64_t begin; /* 0: the memory has no address here */
    size_t width, rows, slices;
    size_t pitch, height; /* bytes from row to row, rows from slice to slice */
};
#define VS_BOX_FLAT(begin, size) ((struct vs_box){begin, size, 1, 1, 0, 0})

/* How many bytes are looked at: of long copies only the first VS_BOX_MAX, not counting what lies between
 * rows.
 */
#define VS_BOX_MAX (64u << 10)
uint64_t vs_box_bytes(const struct vs_box *b);
/* Where byte number AT lies.  N is set to how many lie there in its row, MOST at most. */
uint64_t vs_box_at(const struct vs_box *b, uint64_t at, uint64_t most, uint64_t *n);
/* Calls SEE for each 8 bytes that may be an address once the rows lie on the device, one behind the other
 * from TO on.  Such words overlap.  False: not all can be read.  May change errno. */
bool vs_box_read(const struct vs_box *b, uint64_t to, void (*see)(void *context, uint64_t word),
                 void *context);

#endif
