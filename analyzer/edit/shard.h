/* shard.h - what a rank of ZeRO holds of a block (shard.c), and the stages that gather (gather.c). */
#ifndef VS_EDIT_SHARD_H
#define VS_EDIT_SHARD_H

#include "apply.h"

struct shard {
    int64_t ranks, stage;
    int64_t rank;          /* whose program it is, where OWNERS are known */
    struct owners *owners; /* which rank has a parameter's states; NULL: states are shared evenly */
    double most;           /* of states, what the fullest rank has over an even share; 1 or more */
    bool high;
};

/* Bytes of a share of SIZE. */
uint64_t shard_of(const struct shard *s, uint64_t size);
/* Event I as it is on a rank: the birth of what is shared is that of a share. */
void shard_copy(struct build *b, const struct shard *s, size_t i);
/* Stages 2 and 3. */
struct program shard_gathered(const struct program *from, const struct shard *s);

#endif
