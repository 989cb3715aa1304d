/*
 * limit.h - the most that this process gets of each device (VRAMSCOPE_LIMIT).
 *
 *      program ─▶ hook ─▶ (provider, where it serves) ─▶ function of calls.c ─▶ driver
 *                                                           │  vs_limit_ask: would the call pass the limit?
 *                                                           └─ if so CUDA_ERROR_OUT_OF_MEMORY, and no call
 *
 * The functions stand directly before the driver's (vs_put_beneath), so the calls that the provider (the
 * arena) makes itself come there as well.  Without a limit none of the functions is there.
 *
 * What the process has is the driver's own figure, with context and code.  It is asked only where the limit
 * could be passed: between two questions each granted call is counted at its most, and no free is.
 */
#ifndef VS_LIMIT_LIMIT_H
#define VS_LIMIT_LIMIT_H

#include "core/options.h"
#include "hooks/driver.h"

/* Reads the option and, where there is a limit, puts the functions in their place.  Called by the library's
 * constructor. */
void vs_limit_install(void);

/* ---- between the files of this folder ---- */

/* What a function stands for. */
#define VS_BENEATH(symbol) ((__typeof__(&vs_hook_##symbol))vs_real_beneath(VS_API_##symbol))

#define VS_LIMIT_HERE    (-1) /* the current context's device */
#define VS_LIMIT_NOWHERE (-2) /* no device's memory */

/* A question whether a call may be made, until the call has ended. */
struct vs_asked {
    int device; /* below 0: it has no limit */
    uint64_t bytes;
    bool refused;
    bool near; /* what the call took beside its bytes may have passed the limit */
};

/* Whether a call that takes BYTES of DEVICE may be made now; with 0 bytes, whether the limit is kept now. May
 * wait for other threads' calls. */
struct vs_asked vs_limit_ask(int device, uint64_t bytes);
/* The call has returned STATUS.  True: it succeeded, and took so much that the limit is passed; the caller
 * undoes it, and refuses. */
bool vs_limit_passed(const struct vs_asked *asked, CUresult status);

/* DEVICE's limit in bytes; 0: none. */
extern uint64_t vs_limit_bytes[VS_LIMITED_DEVICES];
static inline uint64_t vs_limit_of(int device)
{
    return device >= 0 && device < VS_LIMITED_DEVICES ? vs_limit_bytes[device] : 0;
}
/* What the limit leaves of DEVICE now. */
uint64_t vs_limit_left(int device);

/* What the driver says that this process has of DEVICE (figure.c), context and code included; UINT64_MAX
 * where it says nothing.  Called by one thread at a time for each device. */
uint64_t vs_limit_used(int device);
/* NVML's handle of DEVICE; NULL: none. */
void *vs_limit_nvml_handle(int device);
/* FOUND, NVML's function NAME, or what stands for it; NULL: nothing does. */
void *vs_limit_nvml(const char *name, void *found);
/* Before and after the process makes a context on DEVICE: what the device has in use before the first is
 * others'. */
void vs_limit_before_context(int device);
void vs_limit_context_made(int device);

/* Functions that stand for the driver's: a row without a function is the last. */
struct vs_limited {
    enum vs_api api;
    void *function;
};
extern const struct vs_limited vs_limited_pools[], vs_limited_figures[];

#endif
