/*
 * proc_address.c - cuGetProcAddress as the driver answers it, and export tables.
 *
 * The answer is the newest variant that the given CUDA version already had (cuMemAlloc at 3020 is
 * cuMemAlloc_v2).  Where nothing fits it is NULL: v2 succeeds and says why in the optional status, the first
 * ABI returns CUDA_ERROR_NOT_FOUND.
 */
#include "sim.h"

#include <string.h>

/* Of a driver that is newer than any (tests/e2e/roads/beyond_driver.c): a function of its own. */
extern void *sim_newer(const char *base, int version) __attribute__((weak));

#define NO(base, version, symbol) int sim_no_##symbol(void) __asm__(#symbol);
#include "missing.def"
#undef NO

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
#define NO(base, version, symbol) {#base, version, false, (void *)sim_no_##symbol},
#include "missing.def"
#undef NO
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
    if (sim_newer && base && out && (*out = sim_newer(base, version))) {
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
        return CUDA_SUCCESS;
    }
    if (!base || !*base || !out || version < 2000 || version > SIM_CUDA ||
        (flags & ~(cuuint64_t)BOTH_STREAMS) || flags == BOTH_STREAMS)
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
