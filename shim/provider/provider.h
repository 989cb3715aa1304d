/*
 * provider.h - what may stand in the driver's place, and the one door between it and the hooks.
 *
 *      program ──▶ hook ──▶ provider ──▶ memory of its own
 *                   │  ◀── served or not; struct vs_given: whose the block is, what has changed
 *                   ├──▶ the driver, where the provider does not serve
 *                   └──▶ record
 *
 * A hook asks the provider first and the driver where that does not serve, and records the call as it would
 * without one.  The provider records nothing: what it gives out is said by struct vs_given, what it holds of
 * the driver is there to be asked, and the hooks (hooks/provided.c) put both into the recording, in an order
 * in which no block is ever told before its memory.
 *
 * Any function here may be called by any thread of the program, inside its own call, with no lock of the
 * hooks' but where it says so.  All keep to the rules of the host: no malloc, no exit.
 */
#ifndef VS_PROVIDER_PROVIDER_H
#define VS_PROVIDER_PROVIDER_H

/* cuda.h then declares every variant by its exact symbol, see hooks/driver.h */
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/api.h"
#include "trace/event.h"

/* How one request went. */
struct vs_given {
    CUresult status;   /* of a free that was served: what the program gets */
    uint8_t space;     /* enum vs_space of the block that was given; VS_SPACE_NONE: the driver's word holds */
    CUcontext context; /* with a space: the context that the block is of */
    int device;        /* the device whose holdings the request may have changed; -1: none was looked at */
    uint64_t change;   /* and which change of them it saw last (struct vs_holding) */
};
#define VS_GIVEN_NOTHING                                                                                     \
    {                                                                                                        \
        .device = -1                                                                                         \
    }

/* A block that the provider gave and that lives, or that it opened of another process's. */
struct vs_owned {
    CUdeviceptr address;
    uint64_t size;
};

/* What is held of a device at one moment, in bytes. */
struct vs_holding {
    uint64_t change;   /* grows with every change of what follows, and never comes again; 0: nothing yet */
    uint64_t reserved; /* physical memory */
    uint64_t idle;     /* of it, in no block */
    uint64_t deferred; /* of it, freed blocks that the device may still use */
};

/* A function of the driver's own signature that takes the place of the driver's, for every road into the
 * hook: for calls that give out nothing. */
struct vs_stand_in {
    enum vs_api api;
    void *function;
};

struct vs_provider {
    /* True: *OUT has SIZE bytes of the current device, and G says whose they are.  False: the driver serves,
     * and *OUT is as it was.  In both cases G says what changed. */
    bool (*alloc)(struct vs_given *g, CUdeviceptr *out, size_t size);
    /* The same for HEIGHT rows, *PITCH bytes apart. */
    bool (*alloc_rows)(struct vs_given *g, CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                       unsigned int element);
    /* The same in the order of STREAM (CU_STREAM_PER_THREAD: the calling thread's own), out of POOL; NULL:
     * out of the current one of the stream's device. */
    bool (*alloc_ordered)(struct vs_given *g, CUdeviceptr *out, size_t size, CUstream stream,
                          CUmemoryPool pool);
    /* True: the provider answers for ADDRESS, with G's status.  False: it is the driver's. */
    bool (*free)(struct vs_given *g, CUdeviceptr address);
    bool (*free_ordered)(struct vs_given *g, CUdeviceptr address, CUstream stream);
    /* The driver lacked memory for a call, whichever: whether there is more now, so that it is worth another
     * try. */
    bool (*shortage)(void);

    /* The block that ADDRESS lies in; false: it lies in none of the provider's. */
    bool (*owner)(CUdeviceptr address, struct vs_owned *block);

    /* What it holds.  False: that cannot be asked now (a signal handler that interrupted the provider, a
     * fork's child); then H is as it was.  Called with a lock of the hooks' held. */
    bool (*holds)(int device, struct vs_holding *h);
    /* The figures of trace/event.h; false as above, or where nothing was held yet.  AT_ONCE: nothing may be
     * waited for; false where a lock is held. */
    bool (*figures)(int device, bool at_once, uint64_t figure[VS_FIGURE_END]);
    /* The last figures of what the device had and has lost, its context with it; true once for each. */
    bool (*ended)(int device, uint64_t figure[VS_FIGURE_END]);

    /* Lists, each up to a row without a function; after the last of them NULL. */
    const struct vs_stand_in *const *stand_ins;
};

/* A provider that gives out no memory has `owner` and stand-ins alone; all else is NULL. */

/* P stands in the driver's place from now on.  Once, before the driver is learnt: from the library's
 * constructor. */
void vs_provide(const struct vs_provider *p);

/* What the build has: the arena, SERVES: with the program's memory coming from it; else only with what opens
 * memory of another process's arena.  NULL: this build has none. */
const struct vs_provider *vs_arena_provider(bool serves);

/* ---- roads of the provider's own, which are no functions of the driver's (hooks/provided.c) ---- */

/* A call of the program's that reaches the provider by such a road begins: like a hook, it is the outermost
 * one, and other threads see that memory may move.  False: it is inside a hooked call, or nothing is
 * recorded; the call goes on all the same.  To be called inline, in the frame that is left last. */
bool vs_provided_enter(const void *frame);
/* ... ends: records what changed.  ENTERED: what the former returned. */
void vs_provided_leave(bool entered, const struct vs_given *g);
/* Before that, where such a call got no memory: records that, with what the driver has left. */
void vs_provided_refused(const struct vs_given *g, uint64_t size, CUresult status);

#endif
