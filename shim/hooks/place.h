/*
 * place.h - where a call takes memory, and for whom: contexts, their devices, the numbers of both in a
 * recording, and the library that calls.
 *
 * Any thread, no lock.
 */
#ifndef VS_HOOKS_PLACE_H
#define VS_HOOKS_PLACE_H

#include "driver.h"
#include "record/record.h"
#include "trace/event.h"
#include "trace/journal/journal.h"

struct vs_place {
    int8_t device;
    uint8_t context;
};

/* VS_DEVICE_UNKNOWN and 0. */
extern const struct vs_place vs_place_nowhere;
/* The current context and its device; none if the thread has no context. */
struct vs_place vs_place_current(void);
/* The stream's context and its device (ADDRESS: memory just allocated there, 0 = none); the legacy and
 * per-thread streams are the current context's. */
struct vs_place vs_place_stream(CUstream stream, CUdeviceptr address);
/* CONTEXT was created on DEVICE just now. */
struct vs_place vs_place_created(CUcontext context, int device);
/* The place of CONTEXT if it is known, without a query. */
struct vs_place vs_place_known(CUcontext context);
/* CONTEXT has ended: its handle may be reused. */
void vs_place_forget(CUcontext context);
/* Writes the device's row at its first event. */
void vs_place_announce(int device);
/* Whether it had one. */
bool vs_place_announced(int device);
/* Opens the recording if this call is the one that starts it: ids of contexts need the journal. */
void vs_place_prepare(CUresult status);

/* Records an event of which all is said here (trace/event.h); returns its sequence. */
static inline uint64_t vs_event(enum vs_op op, enum vs_space space, struct vs_place place, uint64_t address,
                                uint64_t size, uint64_t arg0, uint64_t arg1, CUresult status)
{
    struct vs_event event = {.op = op,
                             .space = space,
                             .device = place.device,
                             .context = place.context,
                             .status = (uint16_t)status,
                             .address = address,
                             .size = size,
                             .arg0 = arg0,
                             .arg1 = arg1};
    return vs_record(&event);
}

/* ---- who asked (caller.c) ---- */

/* The library that the code at CALLER belongs to, the address that a call returns to.  No lock, no memory;
 * keeps errno. */
enum vs_caller vs_caller_of(const void *caller);
/* To be called when POOL ("JAX", "CuPy") says that it uses memory: is it a library that is known by its file?
 */
void vs_caller_pool(const char *pool);
/* Takes the loader's lock for a moment, so that no later call has to. */
void vs_caller_prepare(void);

#endif
