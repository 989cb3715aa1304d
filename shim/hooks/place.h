/*
 * place.h - contexts, their devices, and the numbers of both in a recording.
 *
 * Any thread, no lock.
 */
#ifndef VS_HOOKS_PLACE_H
#define VS_HOOKS_PLACE_H

#include "driver.h"
#include "record/record.h"
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

/* The number of CONTEXT on DEVICE in events (context_ids.c), which is its own until it is forgotten. */
uint8_t vs_context_id(struct vs_journal *j, CUcontext context, int device);
uint8_t vs_context_id_of(CUcontext context); /* 0: it has none */
void vs_context_id_forget(CUcontext context);
void vs_context_ids_begin(void); /* another journal: nothing has a number */

#endif
