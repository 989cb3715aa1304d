/* chunk.h - how many tokens to take at a time. */
#ifndef LCE_CHUNK_H
#define LCE_CHUNK_H

#include <stdint.h>

struct lce_chunk_shape {
    int64_t tokens, hidden, vocab;
    int element;      /* bytes of an element of the logits */
    int grad_element; /* bytes of an element of dweight as it is accumulated; 0 where there is none */
    int grad_input;   /* whether dinput is wanted */
    int processors;   /* multiprocessors of the GPU */
};

/* Seconds that all chunks of CHUNK tokens are estimated to take: good for comparing chunks, for nothing else.
 */
double lce_chunk_seconds(const struct lce_chunk_shape *shape, int64_t chunk);

/* The fastest chunk of at most MOST tokens; of equals the smallest. */
int64_t lce_chunk_choose(const struct lce_chunk_shape *shape, int64_t most);

#endif
