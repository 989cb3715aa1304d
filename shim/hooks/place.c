/*
 * place.c - the context and device of an allocation, and their numbers in the recording.
 *
 * The driver is asked for the context of a thread or a stream.  Its device and its number are kept in a small
 * table without a lock, so the usual case is one driver call and one probe.  A journal of its own (a fork's
 * child) starts with an empty table.
 */
#include "place.h"

#include <string.h>

#include "handle_table.h"
#include "once.h"
#include "record/record.h"

/* ---- the numbers of contexts ----
 *
 * A number is one byte: the row of the journal's table that the handle has.  The table is full after 254, and
 * a program that makes contexts in a loop may get another handle each time; from then on a context that is
 * born takes the number of one that has ended, so that its end ends its own memory and nothing else.  If more
 * than 254 live at once the others have none.
 *
 * A number is taken by compare-and-swap.  Relaxed throughout: each word is complete in itself, and birth and
 * end of one context are in the host's own order. */

static _Atomic uintptr_t owner[VS_CONTEXT_UNKNOWN]; /* the living context that has the number; 0: none */
static _Atomic unsigned rows;                       /* of the table, as far as they were seen */

static bool take(uint8_t id, uintptr_t handle)
{
    uintptr_t seen = 0;
    return atomic_compare_exchange_strong_explicit(&owner[id], &seen, handle, memory_order_relaxed,
                                                   memory_order_relaxed) ||
           seen == handle;
}

static uint8_t id_of(CUcontext context)
{
    uintptr_t handle = (uintptr_t)context;
    for (unsigned id = 1; handle != 0 && id < VS_CONTEXT_UNKNOWN; id++)
        if (atomic_load_explicit(&owner[id], memory_order_relaxed) == handle)
            return (uint8_t)id;
    return 0;
}

static uint8_t take_over(CUcontext context)
{
    uint8_t own = id_of(context);
    if (own != 0)
        return own;
    for (unsigned id = 1; id <= atomic_load_explicit(&rows, memory_order_relaxed); id++)
        if (take((uint8_t)id, (uintptr_t)context))
            return (uint8_t)id;
    return VS_CONTEXT_UNKNOWN;
}

static uint8_t id_for(struct vs_journal *j, CUcontext context, int device)
{
    bool full = atomic_load_explicit(&rows, memory_order_relaxed) == VS_CONTEXT_UNKNOWN - 1;
    uint8_t id = full ? take_over(context) : VS_CONTEXT_UNKNOWN;
    if (id != VS_CONTEXT_UNKNOWN)
        return id;
    id = vs_journal_context(j, (uint64_t)(uintptr_t)context, device); /* counts it where there is no room */
    if (id == VS_CONTEXT_UNKNOWN)
        return take_over(context);
    if (id > atomic_load_explicit(&rows, memory_order_relaxed))
        atomic_store_explicit(&rows, id, memory_order_relaxed);
    return take(id, (uintptr_t)context) ? id : take_over(context); /* its row's number was taken over */
}

static void forget_id(CUcontext context)
{
    for (unsigned id = 1; id < VS_CONTEXT_UNKNOWN; id++) {
        uintptr_t seen = (uintptr_t)context;
        atomic_compare_exchange_strong_explicit(&owner[id], &seen, 0, memory_order_relaxed,
                                                memory_order_relaxed);
    }
}

static void begin_ids(void)
{
    for (unsigned id = 0; id < VS_CONTEXT_UNKNOWN; id++)
        atomic_store_explicit(&owner[id], 0, memory_order_relaxed);
    atomic_store_explicit(&rows, 0, memory_order_relaxed);
}

#define SLOTS 64u /* contexts at once; for others the driver is queried each time */

struct slot {
    _Atomic uintptr_t context;
    _Atomic uint32_t value; /* KNOWN | (device + 1) << 8 | journal context id; 0: not yet */
};
#define KNOWN 0x80000000u

static struct slot slots[SLOTS];
static _Atomic uint64_t announced; /* bit per device ordinal */
static _Atomic(struct vs_journal *) filled_for;

const struct vs_place vs_place_nowhere = {VS_DEVICE_UNKNOWN, 0};

/* A new journal (in a fork's child, which has one thread then) has no contexts and devices yet. */
static struct vs_journal *journal(void)
{
    struct vs_journal *j = vs_record_journal();
    if (j == NULL || atomic_load_explicit(&filled_for, memory_order_relaxed) == j)
        return j;
    if (atomic_exchange_explicit(&filled_for, j, memory_order_relaxed) != NULL) {
        memset(slots, 0, sizeof(slots));
        begin_ids();
        vs_once_forget_all(NULL);
        atomic_store_explicit(&announced, 0, memory_order_relaxed);
    }
    return j;
}

/* The value beside the key is one word, and 0 until it is stored. */
static struct slot *probe(CUcontext context, bool claim)
{
    return vs_handle_slot(slots, sizeof *slots, SLOTS, SLOTS, context, claim);
}

static struct slot *slot_of(CUcontext context)
{
    struct slot *s = probe(context, false);
    return __builtin_expect(s != NULL, 1) ? s : probe(context, true);
}

static struct vs_place unpack(uint32_t value)
{
    return (struct vs_place){(int8_t)(int)(((value >> 8) & 0xff) - 1), (uint8_t)value};
}

/* The place of CONTEXT on DEVICE, now known. */
static struct vs_place remember(struct slot *s, CUcontext context, int device)
{
    struct vs_journal *j = journal();
    if (device < 0 || device > INT8_MAX)
        return vs_place_nowhere;
    uint8_t id = j != NULL ? id_for(j, context, device) : 0;
    vs_place_announce(device);
    vs_once_context(context);
    if (s != NULL && id != 0)
        atomic_store_explicit(&s->value, KNOWN | (uint32_t)(device + 1) << 8 | id, memory_order_relaxed);
    return (struct vs_place){(int8_t)device, id};
}

/* The device of CONTEXT, which is current or else the one that ADDRESS was just allocated in. */
static bool query_device(bool is_current, CUdeviceptr address, int *device)
{
    if (is_current)
        return vs_drv_cuCtxGetDevice(device) == CUDA_SUCCESS;
    return address != 0 &&
           vs_drv_cuPointerGetAttribute(device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) == CUDA_SUCCESS;
}

static struct vs_place place_of(CUcontext context, bool is_current, CUdeviceptr address)
{
    struct slot *s = slot_of(context);
    uint32_t value = s != NULL ? atomic_load_explicit(&s->value, memory_order_relaxed) : 0;
    int device;
    if (__builtin_expect(value != 0, 1))
        return unpack(value);
    return query_device(is_current, address, &device) ? remember(s, context, device) : vs_place_nowhere;
}

struct vs_place vs_place_current(void)
{
    CUcontext context = NULL;
    if (vs_drv_cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == NULL)
        return vs_place_nowhere;
    return place_of(context, true, 0);
}

struct vs_place vs_place_stream(CUstream stream, CUdeviceptr address)
{
    CUcontext context = NULL, current = NULL;
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
        vs_drv_cuStreamGetCtx(stream, &context) != CUDA_SUCCESS || context == NULL)
        return vs_place_current();
    bool is_current = vs_drv_cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context;
    return place_of(context, is_current, address);
}

struct vs_place vs_place_created(CUcontext context, int device)
{
    return remember(context != NULL ? slot_of(context) : NULL, context, device);
}

struct vs_place vs_place_known(CUcontext context)
{
    struct slot *s = context != NULL ? probe(context, false) : NULL; /* NULL is a free slot's key */
    uint32_t value = s != NULL ? atomic_load_explicit(&s->value, memory_order_relaxed) : 0;
    if (value != 0)
        return unpack(value);
    return (struct vs_place){VS_DEVICE_UNKNOWN, id_of(context)}; /* beyond the table */
}

void vs_place_forget(CUcontext context)
{
    struct slot *s;
    while (context != NULL &&
           (s = probe(context, false)) != NULL) { /* two, where two threads claimed at once */
        atomic_store_explicit(&s->value, 0, memory_order_relaxed);
        atomic_store_explicit(&s->context, VS_HANDLE_GONE, memory_order_relaxed);
    }
    forget_id(context);
}

static void write_device_row(struct vs_journal *j, int device)
{
    struct vs_device_row row = {.ordinal = device};
    size_t bytes = 0;
    CUuuid uuid;
    vs_drv_cuDeviceGetName(row.name, sizeof(row.name) - 1, device);
    if (vs_drv_cuDeviceTotalMem_v2(&bytes, device) == CUDA_SUCCESS)
        row.total_bytes = bytes;
    if (vs_drv_cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS ||
        vs_drv_cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS)
        memcpy(row.uuid, &uuid, sizeof(row.uuid));
    vs_journal_device(j, &row);
    int (*is_dry)(void) = (int (*)(void))vs_cuda_real("simcuda_dry");
    if (vs_cuda_real("simcuda_version") != NULL)
        vs_record_simulated(is_dry != NULL && is_dry() ? VS_DRIVER_DRY : VS_DRIVER_SIMULATED);
}

bool vs_place_announced(int device)
{
    return journal() != NULL && device >= 0 && device < 64 &&
           atomic_load_explicit(&announced, memory_order_relaxed) >> device & 1;
}

void vs_place_announce(int device)
{
    struct vs_journal *j = journal();
    if (j == NULL || device < 0 || device > 63)
        return;
    uint64_t bit = UINT64_C(1) << device;
    if (atomic_load_explicit(&announced, memory_order_relaxed) & bit)
        return;
    /* relaxed: the bits only decide which thread writes the row */
    if (!(atomic_fetch_or_explicit(&announced, bit, memory_order_relaxed) & bit))
        write_device_row(j, device);
}

/* A refused first allocation for lack of memory starts a recording too, with the request and its caller.
 * Other refusals (no context, a fork's child) do not use the device. */
void vs_place_prepare(CUresult status)
{
    if (journal() == NULL && (status == CUDA_SUCCESS || status == CUDA_ERROR_OUT_OF_MEMORY)) {
        vs_record_start();
        vs_uncovered_to_journal();
    }
}
