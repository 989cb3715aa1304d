/*
 * nccl.h - a NCCL whose communicators have any number of ranks, of which this process is the only one there
 * is.  The types are NCCL's public ones; its header is not there where this is built.
 */
#ifndef DRY_NCCL_NCCL_H
#define DRY_NCCL_NCCL_H

#include "facts.h"

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { OK = 0, CUDA_ERROR = 1, SYSTEM_ERROR = 2, BAD_ARGUMENT = 4, BAD_USAGE = 5 } result;
enum { SUM = 0 };                       /* ncclRedOp_t */
enum { NO_COLOR = -1, ANY_COLOR = -2 }; /* of ncclCommSplit; of ours */
enum { UNSET = INT32_MIN };             /* an integer of ncclConfig_t that was not set */

/* The head of ncclConfig_t, which has only grown at its end since 2.14. */
struct config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
};

struct comm {
    int ranks, rank, device;
    int channels;    /* 0: as many as NCCL takes by itself */
    bool connected;  /* a collective was called, so its buffers are there */
    bool suspended;  /* no physical memory is mapped */
    uint64_t *peers; /* two bits a rank: sent to, received from */
    struct piece *pieces;
};

/* The memory of C's rings; taken by the first collective, as NCCL connects since 2.22. */
result take_rings(struct comm *c);
/* The buffers of sends to PEER (RECEIVE: of what comes from it), taken once. */
result take_peer(struct comm *c, int peer, bool receive);
/* Gives back all that C has taken. */
void give_back(struct comm *c);

/* A second exported name of a function, as NCCL has of each for profilers. */
#define BOTH(name) extern __typeof__(name) p##name DRY_API __attribute__((alias(#name)))

#endif
