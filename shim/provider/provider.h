/*
 * provider.h - the interface between the hooks and a provider, which may serve memory in the driver's place.
 *
 *      program ──▶ hook ──▶ provider ──▶ memory of its own
 *                   │  ◀── served or not; struct vs_given: the block's space, context and device
 *                   ├──▶ the driver, where the provider does not serve
 *                   └──▶ record
 *
 * The provider records nothing: the hooks (hooks/provided.c) do.  Any function here may be called by any
 * thread of the program, inside its own call, and without a lock of the hooks' unless it says so.  All follow
 * the rules of code in a host: no malloc, no exit.
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
#include "trace/control.h"
#include "trace/event.h"

/* The outcome of one request. */
struct vs_given {
    CUresult status;   /* of a free that was served: what the program gets */
    uint8_t space;     /* enum vs_space of the block that was given; VS_SPACE_NONE: as the driver decides */
    CUcontext context; /* with a space: the context that the block belongs to */
    int device;        /* the device whose holdings the request may have changed; -1: none was looked at */
    uint64_t change;   /* the last change of the holdings that the request saw (struct vs_holding) */
};
#define VS_GIVEN_NOTHING                                                                                     \
    {                                                                                                        \
        .device = -1                                                                                         \
    }

/* A living block that the provider gave, or one of another process's that it opened. */
struct vs_owned {
    CUdeviceptr address;
    uint64_t size;
};

/* What a provider holds of a device at one moment, in bytes. */
struct vs_holding {
    uint64_t change;   /* grows with every change of the figures below; 0: nothing was held yet */
    uint64_t reserved; /* physical memory */
    uint64_t idle;     /* part of reserved that is in no block */
    uint64_t deferred; /* part of reserved in freed blocks that the device may still use */
    uint64_t away;     /* not in reserved: memory of blocks that is on the host instead */
};

/* A function with the signature of a driver function, which replaces it for all callers of the hook; for
 * calls that give out no memory. */
struct vs_stand_in {
    enum vs_api api;
    void *function;
};

struct vs_provider {
    /* True: *OUT points to SIZE bytes on the current device, and G describes them.  False: the driver must
     * serve, and *OUT is unchanged.  In both cases G has the device whose holdings changed. */
    bool (*alloc)(struct vs_given *g, CUdeviceptr *out, size_t size);
    /* Likewise for HEIGHT rows, *PITCH bytes apart. */
    bool (*alloc_rows)(struct vs_given *g, CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                       unsigned int element);
    /* Likewise in the order of STREAM (CU_STREAM_PER_THREAD: the calling thread's own), from POOL (NULL: the
     * current pool of the stream's device). */
    bool (*alloc_ordered)(struct vs_given *g, CUdeviceptr *out, size_t size, CUstream stream,
                          CUmemoryPool pool);
    /* True: ADDRESS is the provider's, and G has the status of the free.  False: it is the driver's. */
    bool (*free)(struct vs_given *g, CUdeviceptr address);
    bool (*free_ordered)(struct vs_given *g, CUdeviceptr address, CUstream stream);
    /* Called when the driver lacked memory for any call: whether there is more now, so that the call should
     * be repeated. */
    bool (*shortage)(void);

    /* Finds the provider's block that contains ADDRESS; false: there is none. */
    bool (*owner)(CUdeviceptr address, struct vs_owned *block);

    /* Gets what the provider holds.  False: not possible now (in a signal handler that interrupted the
     * provider, or a fork's child), and H is unchanged.  Called with a lock of the hooks' held. */
    bool (*holds)(int device, struct vs_holding *h);
    /* Gets the figures of trace/event.h; false as above, or if nothing was held yet.  AT_ONCE: must not
     * wait; false if a lock is taken. */
    bool (*figures)(int device, bool at_once, uint64_t figure[VS_FIGURE_END]);
    /* Gets the last figures of an arena that ended with its context; true once for each. */
    bool (*ended)(int device, uint64_t figure[VS_FIGURE_END]);

    /* Carries out what another process, or the program, asks of memory that is alive (arena/away/away.h).
     * Called by a thread of our own, or of the program's outside of every hooked call. */
    void (*carry_out)(const struct vs_control_request *request, const struct vs_control_block *blocks,
                      size_t count, bool held, struct vs_control_answer *answer);

    /* A framework says that blocks of ROLE (trace/roles.h) begin at COUNT ADDRESSES.  Outside of every hooked
     * call. */
    void (*told)(const uint64_t *addresses, size_t count, unsigned role);

    /* Lists of stand-ins, each terminated by a row without a function; NULL after the last list. */
    const struct vs_stand_in *const *stand_ins;
};

/* A provider that gives out no memory has only `owner` and stand-ins; the rest is NULL. */

/* Installs P.  Called once, from the library's constructor, before the driver's functions are known. */
void vs_provide(const struct vs_provider *p);

/* The arena as a provider.  SERVES: it serves the program's memory; otherwise it only opens memory of other
 * processes' arenas.  NULL: this build has no arena. */
const struct vs_provider *vs_arena_provider(bool serves);

/* ---- calls that reach the provider without a driver function (hooks/provided.c) ---- */

/* Such a call of the program's begins.  Like a hook, it becomes the thread's outermost call, and other
 * threads see that the device's memory may change.  False: it is inside a hooked call, or nothing is
 * recorded; the call is made all the same.  To be called inline, in the frame that is left last. */
bool vs_provided_enter(const void *frame);
/* The call ends: records what changed.  ENTERED: the result of vs_provided_enter. */
void vs_provided_leave(bool entered, const struct vs_given *g);
/* To be called before that if the call got no memory: records the failure and the driver's free bytes. */
void vs_provided_refused(const struct vs_given *g, uint64_t size, CUresult status);

/* What is held of DEVICE has changed although the program asked for nothing: memory went away or came back.
 * Records it.  Any thread, of the program's or of ours, inside a hooked call or not, but never inside the
 * provider.  If the provider could not say now, the device's next request records the change. */
void vs_provided_changed(int device);
/* Of the block at ADDRESS (0: of all blocks on DEVICE), BYTES are on the host from here on, and so long
 * waited the program for such blocks so far (VS_BYTES_UNKNOWN).  Records it.  Any thread, also inside the
 * provider. */
void vs_provided_moved(int device, CUdeviceptr address, uint64_t bytes, enum vs_away_why why,
                       uint64_t waited_ns);
/* Records a fact: a row of table meta. */
void vs_provided_fact(const char *key, const char *value);

#endif
