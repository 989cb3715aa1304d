/*
 * context.c - contexts, their limits, and the modules in them.
 *
 * The ledger ends what was allocated in a context when it meets its CONTEXT_DESTROY (arg0 = enum
 * vs_context_kind), which is recorded before the real call, like every free.
 */
#include "events.h"

#include <string.h>

#include "graph.h"
#include "once.h"
#include "meminfo.h"
#include "place.h"
#include "record/record.h"

#define DEVICES 64
#define GREENS  32

/* The primary context as last seen active, and as its creation was recorded; NULL: neither.  If retains or
 * releases of several threads meet, one thread changes the word, and that one records.  Relaxed throughout:
 * a handle is complete in itself. */
static _Atomic(CUcontext) primary_of[DEVICES], reported_of[DEVICES];
static struct {
    _Atomic uintptr_t context;
    _Atomic int device;
} green[GREENS];

/* ---- contexts that the program created ---- */

static void created(enum vs_api api, uint64_t handle, enum vs_context_kind kind, struct vs_place place,
                    uint64_t bytes, CUresult status)
{
    vs_event(VS_OP_CONTEXT_CREATE, VS_SPACE_NONE, place, handle, status == CUDA_SUCCESS ? bytes : 0, kind,
             api, status);
}

/* BYTES or, if the device was unknown until now so that nothing could be measured, the whole figure. */
static uint64_t first_or(bool known_device, int device, uint64_t bytes)
{
    return known_device || bytes != VS_BYTES_UNKNOWN ? bytes : vs_cost_first_context(device);
}

void vs_after_context_create(enum vs_api api, CUcontext context, CUdevice device, uint64_t bytes,
                             CUresult status)
{
    struct vs_place place = {device >= 0 && device <= INT8_MAX ? (int8_t)device : VS_DEVICE_UNKNOWN, 0};
    bool known_device = vs_place_announced(device);
    vs_place_prepare(status);
    if (context != NULL) {
        place = vs_place_created(context, device);
        bytes = first_or(known_device, device, bytes);
    }
    created(api, (uint64_t)(uintptr_t)context, VS_CONTEXT_CREATED, place, bytes, status);
}

static uint64_t ends(enum vs_api api, CUcontext context, enum vs_context_kind kind, int device)
{
    struct vs_place place = vs_place_known(context);
    if (place.device == VS_DEVICE_UNKNOWN)
        place.device = (int8_t)device;
    return vs_event(VS_OP_CONTEXT_DESTROY, VS_SPACE_NONE, place, (uint64_t)(uintptr_t)context, 0, kind, api,
                    CUDA_SUCCESS);
}

uint64_t vs_before_context_destroy(enum vs_api api, CUcontext context)
{
    return ends(api, context, VS_CONTEXT_CREATED, VS_DEVICE_UNKNOWN);
}

void vs_after_context_destroy(uint64_t seq, CUcontext context, CUresult status)
{
    if (status == CUDA_SUCCESS) {
        vs_place_forget(context);
        vs_once_forget_all(context);
    }
    vs_after_free(seq, VS_SPACE_NONE, (uint64_t)(uintptr_t)context, status);
}

/* ---- primary contexts ----
 *
 * One is created by the retain that makes it active.  Which release ends it cannot be known beforehand
 * (retains by private interfaces count too), so that end is recorded right after the call; a reset ends it
 * for certain.  The memory of a device's pools and graphs belongs to the device, so the driver is asked for
 * it once the primary context has ended. */

static bool active(CUdevice device)
{
    unsigned flags;
    int is = 0;
    return vs_drv_cuDevicePrimaryCtxGetState(device, &flags, &is) == CUDA_SUCCESS && is;
}

/* Gets the handle of DEVICE's active primary context by one more retain and its release. */
static CUcontext query_primary(CUdevice device)
{
    CUcontext context = NULL;
    CUresult (*release)(CUdevice) = vs_driver_own(VS_API_cuDevicePrimaryCtxRelease_v2);
    if (release == NULL)
        release = vs_driver_own(VS_API_cuDevicePrimaryCtxRelease);
    if (release == NULL || vs_drv_cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return NULL;
    release(device);
    return context;
}

static CUcontext primary(CUdevice device)
{
    CUcontext context = atomic_load_explicit(&primary_of[device], memory_order_relaxed);
    if (context != NULL)
        return context;
    context = query_primary(device);
    atomic_store_explicit(&primary_of[device], context, memory_order_relaxed);
    return context;
}

/* True: this thread has changed WORD. */
static bool become(_Atomic(CUcontext) *word, CUcontext from, CUcontext to)
{
    return atomic_compare_exchange_strong_explicit(word, &from, to, memory_order_relaxed,
                                                   memory_order_relaxed);
}

struct vs_primary vs_primary_look(CUdevice device, bool may_end)
{
    struct vs_primary p = {.device = device, .seq = VS_SEQ_NONE};
    if (device < 0 || device >= DEVICES)
        return p;
    CUcontext seen = atomic_load_explicit(&primary_of[device], memory_order_relaxed);
    CUcontext reported = atomic_load_explicit(&reported_of[device], memory_order_relaxed);
    p.active = active(device);
    if (p.active && may_end)
        p.context = primary(device);
    if (!p.active) { /* the active one has ended, perhaps by a call that we do not see */
        become(&primary_of[device], seen, NULL);
        become(&reported_of[device], reported, NULL);
    }
    return p;
}

static void forget_primary(const struct vs_primary *p)
{
    vs_once_forget_all(p->context);
    vs_place_forget(p->context);
    vs_pools_reset(p->device);
    vs_pools_query(p->device);
    if (!vs_graph_memory_seen())
        return;
    vs_graph_reset(p->device);
    vs_graph_sample(p->device);
}

void vs_after_primary(enum vs_api api, const struct vs_primary *before, uint64_t bytes, CUresult status)
{
    bool now = before->device >= 0 && before->device < DEVICES && active(before->device);
    if (now == before->active)
        return;
    if (!now) {
        if (before->context == NULL || !become(&primary_of[before->device], before->context, NULL))
            return; /* another thread's release has recorded it */
        atomic_store_explicit(&reported_of[before->device], NULL, memory_order_relaxed);
        ends(api, before->context, VS_CONTEXT_PRIMARY, before->device);
        forget_primary(before);
        return;
    }
    CUcontext context = query_primary(before->device);
    if (!become(&reported_of[before->device], NULL, context))
        return; /* another thread's retain has recorded it */
    atomic_store_explicit(&primary_of[before->device], context, memory_order_relaxed);
    bool known_device = vs_place_announced(before->device);
    vs_place_prepare(CUDA_SUCCESS);
    struct vs_place place = vs_place_created(context, before->device);
    created(api, (uint64_t)(uintptr_t)context, VS_CONTEXT_PRIMARY, place,
            first_or(known_device, before->device, bytes), CUDA_SUCCESS);
}

void vs_before_primary_reset(enum vs_api api, struct vs_primary *p)
{
    if (p->active)
        p->seq = ends(api, p->context, VS_CONTEXT_PRIMARY, p->device);
}

void vs_after_primary_reset(const struct vs_primary *p, CUresult status)
{
    if (!p->active)
        return;
    vs_after_free(p->seq, VS_SPACE_NONE, (uint64_t)(uintptr_t)p->context, status);
    if (status == CUDA_SUCCESS) {
        atomic_store_explicit(&primary_of[p->device], NULL, memory_order_relaxed);
        atomic_store_explicit(&reported_of[p->device], NULL, memory_order_relaxed);
        forget_primary(p);
    } else {
        vs_pools_reset(p->device); /* the effect of a failed reset is unknown: record the next figures even if
                                      they are the same */
    }
}

/* ---- green contexts ----
 *
 * One is a partition of its device's primary context, which it retains: its end frees no allocation, unless
 * the primary context ends with it. */

/* Relaxed: creation and end of one handle are in the host's own order; a full table costs the notice that a
 * primary context ended with its last green one. */
static void keep_green(struct CUgreenCtx_st *context, CUdevice device)
{
    for (int i = 0; i < GREENS; i++) {
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong_explicit(&green[i].context, &none, (uintptr_t)context,
                                                     memory_order_relaxed, memory_order_relaxed))
            continue;
        atomic_store_explicit(&green[i].device, device, memory_order_relaxed);
        return;
    }
}

int vs_green_device(struct CUgreenCtx_st *context)
{
    for (int i = 0; context != NULL && i < GREENS; i++)
        if (atomic_load_explicit(&green[i].context, memory_order_relaxed) == (uintptr_t)context)
            return atomic_load_explicit(&green[i].device, memory_order_relaxed);
    return VS_DEVICE_UNKNOWN;
}

void vs_after_green_create(enum vs_api api, struct CUgreenCtx_st *context, const struct vs_primary *before,
                           uint64_t bytes, CUresult status)
{
    struct vs_place place = {(int8_t)before->device, 0}; /* no id: its memory belongs to the primary */
    vs_place_prepare(status);
    vs_after_primary(api, before, VS_BYTES_UNKNOWN, status);
    if (context != NULL)
        keep_green(context, before->device);
    vs_place_announce(before->device);
    created(api, (uint64_t)(uintptr_t)context, VS_CONTEXT_GREEN, place, bytes, status);
}

void vs_after_green_destroy(struct CUgreenCtx_st *context)
{
    for (int i = 0; i < GREENS; i++) {
        uintptr_t key = (uintptr_t)context;
        atomic_compare_exchange_strong_explicit(&green[i].context, &key, 0, memory_order_relaxed,
                                                memory_order_relaxed);
    }
}

/* ---- limits, modules ---- */

void vs_after_limit(enum vs_api api, CUlimit limit, uint64_t value, uint64_t bytes, CUresult status)
{
    vs_event(VS_OP_LIMIT, VS_SPACE_NONE, vs_place_current(), limit, status == CUDA_SUCCESS ? bytes : 0, value,
             api, status);
}

/* The bytes of a cubin (its section table comes last) or of a fat binary; 0: PTX, or unknown. */
static uint64_t image_bytes(const unsigned char *image)
{
    uint32_t magic;
    uint64_t bytes = 0, offset;
    uint16_t entry, count, head;
    memcpy(&magic, image, sizeof(magic));
    if (magic == 0x466243b1) { /* nvcc's wrapper around a fat binary: magic, version, address */
        memcpy(&image, image + 8, sizeof(image));
        memcpy(&magic, image, sizeof(magic));
    }
    if (magic == 0xba55ed50) { /* magic, version, size of the header, size of the rest */
        memcpy(&head, image + 6, sizeof(head));
        memcpy(&bytes, image + 8, sizeof(bytes));
        return bytes + head;
    }
    if (magic != 0x464c457f) /* \177ELF */
        return 0;
    memcpy(&offset, image + 0x28, sizeof(offset));
    memcpy(&entry, image + 0x3a, sizeof(entry));
    memcpy(&count, image + 0x3c, sizeof(count));
    return offset + (uint64_t)entry * count;
}

void vs_after_module_load(enum vs_api api, uint64_t module, const void *image, uint64_t bytes,
                          CUresult status)
{
    bool loaded = status == CUDA_SUCCESS;
    vs_event(VS_OP_MODULE_LOAD, VS_SPACE_NONE, vs_place_current(), module, loaded ? bytes : 0,
             loaded && image != NULL ? image_bytes(image) : 0, api, status);
}
