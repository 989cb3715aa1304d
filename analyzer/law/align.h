/*
 * align.h - two sequences of keys laid beside each other: which element of one is which of the other.
 */
#ifndef VS_LAW_ALIGN_H
#define VS_LAW_ALIGN_H

#include "base/base.h"

#define ALIGN_NONE UINT32_MAX
#define ALIGN_MOST 1500 /* differences; beyond, the sequences are of different programs */

/* OUT[i] gets the index in B of element i of A, or ALIGN_NONE; indices rise.  As many elements as possible
 * find their counterpart.  False: more than ALIGN_MOST elements have none. */
bool align(const uint64_t *a, size_t n, const uint64_t *b, size_t m, uint32_t *out);

#endif
