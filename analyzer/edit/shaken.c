/* shaken.c - see shaken.h. */
#include "shaken.h"

#include <stdlib.h>
#include <string.h>

#define UNIT  512
#define SMALL (UINT64_C(1) << 20) /* of a pool of their own, and many to a segment */

/* A number that is the same for the same size and draw, and looks like none of its neighbours' (splitmix64).
 */
static uint64_t drawn(uint64_t size, unsigned draw)
{
    uint64_t x = size + (draw + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t shaken(uint64_t size, unsigned draw)
{
    uint64_t most = size / SHAKEN_PART / UNIT;
    if (size <= SMALL || !most)
        return size;
    return size - most * UNIT + drawn(size, draw) % (2 * most + 1) * UNIT;
}

struct edit_block *shaken_blocks(const struct program *p, unsigned draw)
{
    struct edit_block *blocks = xrealloc(NULL, (p->block_count + 1) * sizeof *blocks);
    if (p->block_count)
        memcpy(blocks, p->blocks, p->block_count * sizeof *blocks);
    for (size_t i = 0; i < p->block_count; i++)
        blocks[i].size = shaken(blocks[i].size, draw);
    return blocks;
}
