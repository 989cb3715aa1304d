/*
 * place.c - finds the context and device of an allocation, and the journal's rows for them.
 *
 * The driver is queried for the context of a thread or a stream; the device of a context and its number in
 * the journal are kept in a small table, so the usual case is one driver call and one probe.  The table
 * takes no lock: a key is claimed by compare-and-swap and its value stored after it.  A journal of its own
 * (a fork's child) starts with an empty table.
 */
#include "place.h"
#include "handle_table.h"

#include <string.h>

#include "once.h"
#include "record/record.h"
#include "uncovered.h"

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
        vs_context_ids_begin();
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
    uint8_t id = j != NULL ? vs_context_id(j, context, device) : 0;
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
    return (struct vs_place){VS_DEVICE_UNKNOWN, vs_context_id_of(context)}; /* beyond the table */
}

void vs_place_forget(CUcontext context)
{
    struct slot *s;
    while (context != NULL &&
           (s = probe(context, false)) != NULL) { /* two, where two threads claimed at once */
        atomic_store_explicit(&s->value, 0, memory_order_relaxed);
        atomic_store_explicit(&s->context, VS_HANDLE_GONE, memory_order_relaxed);
    }
    vs_context_id_forget(context);
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
