/*
 * host.h - where the contents of memory that is away lie: page-locked memory of the host, or a file.
 *
 * A store is one range of offsets.  Its memory is had from the system at once and given back at once; a kill
 * leaves nothing: a file has no name.  One thread at a time uses a store.
 */
#ifndef VS_ARENA_AWAY_HOST_H
#define VS_ARENA_AWAY_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vs_host_store {
    char *base; /* NULL: there is none */
    uint64_t bytes;
    uint64_t locked; /* of them, from the beginning on */
    uint64_t ns;     /* in which they were had */
};

/* The most that may be had now: 3/4 of what the host and this process's control groups have left. */
uint64_t vs_host_room(void);

/* BYTES for a person. */
void vs_host_amount(char out[32], double bytes);

/* Makes a store of BYTES: page-locked by the driver, with a context current, or where TO is not "" a file in
 * that folder.  Locked are at most 3/4 of what the host and this process's control groups have left.  NULL,
 * or why not (in the caller's WHY): then nothing was taken. */
const char *vs_host_make(struct vs_host_store *h, uint64_t bytes, const char *to, char *why, size_t room);
/* The same step by step, false where there are none: addresses for BYTES; of these MOST more are page-locked.
 */
bool vs_host_reserve(struct vs_host_store *h, uint64_t bytes);
bool vs_host_lock(struct vs_host_store *h, uint64_t most);
/* What is locked behind the first KEEP bytes becomes PART's, as far as it was locked at once.  False: nothing
 * does. */
bool vs_host_part(struct vs_host_store *h, uint64_t keep, struct vs_host_store *part);
/* Gives back what is locked.  The driver waits for kernels that run, which may wait for other threads. */
void vs_host_unlock(struct vs_host_store *part);
/* Of BYTES of a store from OFFSET on, as many as one copy may have: the driver refuses those that cross what
 * was locked at once. */
uint64_t vs_host_together(uint64_t offset, uint64_t bytes);
/* The context that was current when it was made is current, or has ended. */
void vs_host_end(struct vs_host_store *h);

#endif
