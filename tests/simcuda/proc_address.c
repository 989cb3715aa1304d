/*
 * proc_address.c - cuGetProcAddress as the driver answers it, names of errors, export tables.
 *
 * A query names the base ("cuMemAlloc"), a CUDA version and flags.  The answer is the newest variant that
 * this version already had: cuMemAlloc at 3020 is cuMemAlloc_v2.  Under
 * CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM a per-thread variant goes before the legacy one.  Where
 * nothing fits the pointer is NULL: v2 succeeds and says why in the optional status, the first ABI returns
 * CUDA_ERROR_NOT_FOUND.
 */
#include "sim.h"

#include <string.h>

struct row {
    const char *base;
    int version;
    bool per_thread;
    void *function;
};
static const struct row rows[] = {
#define FN(base, version, symbol)         {#base, version, false, (void *)symbol},
#define PT(base, version, suffix, symbol) {#base, version, true, (void *)symbol},
#include "functions.def"
#undef FN
#undef PT
};

#define BOTH_STREAMS (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

static const struct row *newest(const char *base, int version, bool per_thread, bool *known)
{
    const struct row *best = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].per_thread != per_thread || strcmp(rows[i].base, base) != 0)
            continue;
        *known = true;
        if (rows[i].version <= version && (!best || rows[i].version > best->version))
            best = &rows[i];
    }
    return best;
}

static CUresult look_up(const char *base, void **out, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status)
{
    bool known = false;
    if (!base || !*base || !out || version < 2000 || version > 13000 || (flags & ~(cuuint64_t)BOTH_STREAMS) ||
        flags == BOTH_STREAMS)
        return CUDA_ERROR_INVALID_VALUE;
    const struct row *row =
        flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? newest(base, version, true, &known) : NULL;
    if (!row)
        row = newest(base, version, false, &known);
    *out = row ? row->function : NULL;
    *status = row     ? CU_GET_PROC_ADDRESS_SUCCESS
              : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **out, int version, cuuint64_t flags)
{
    SIM_CALL(SIM_NOTHING);
    CUdriverProcAddressQueryResult status;
    CUresult result = look_up(symbol, out, version, flags, &status);
    return result == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_ERROR_NOT_FOUND : result;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    SIM_CALL(SIM_NOTHING);
    CUdriverProcAddressQueryResult ignored;
    return look_up(symbol, out, version, flags, status ? status : &ignored);
}

/* Private tables of the runtime and of tools: there are none here. */
CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    SIM_CALL(SIM_NOTHING);
    if (!table || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

/* ---- errors ---- */

static const struct {
    CUresult result;
    const char *name, *text;
} errors[] = {
#define E(name, text)                                                                                        \
    {                                                                                                        \
        name, #name, text                                                                                    \
    }
    E(CUDA_SUCCESS, "no error"),
    E(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    E(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    E(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    E(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    E(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    E(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    E(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    E(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    E(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
    E(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "the provided execution affinity is not supported"),
    E(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    E(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    E(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    E(CUDA_ERROR_NOT_READY, "device not ready"),
    E(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    E(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    E(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    E(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    E(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    E(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
      "part or all of the requested memory range is already mapped"),
    E(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    E(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    E(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    E(CUDA_ERROR_UNKNOWN, "unknown error"),
#undef E
};

static CUresult describe(CUresult error, const char **out, bool name)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].result == error)
            *out = name ? errors[i].name : errors[i].text;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **out)
{
    SIM_CALL(SIM_NOTHING);
    return describe(error, out, true);
}

CUresult cuGetErrorString(CUresult error, const char **out)
{
    SIM_CALL(SIM_NOTHING);
    return describe(error, out, false);
}
