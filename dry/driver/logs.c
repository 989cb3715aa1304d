/*
 * logs.c - the driver's log of errors: nothing is ever written to it.
 */
#include "sim.h"

static const char nobody; /* whose address is every callback's handle */

CUresult cuLogsRegisterCallback(CUlogsCallback function, void *data, CUlogsCallbackHandle *out)
{
    SIM_CALL(SIM_NOTHING);
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    if (out)
        *out = (CUlogsCallbackHandle)(void *)&nobody;
    return CUDA_SUCCESS;
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback)
{
    SIM_CALL(SIM_NOTHING);
    return CUDA_SUCCESS;
}

CUresult cuLogsCurrent(CUlogIterator *out, unsigned int flags)
{
    SIM_CALL(SIM_NOTHING);
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *out = 0;
    return CUDA_SUCCESS;
}

CUresult cuLogsDumpToMemory(CUlogIterator *from, char *buffer, size_t *size, unsigned int flags)
{
    SIM_CALL(SIM_NOTHING);
    if (!buffer || !size || !*size || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *buffer = 0;
    *size = 0;
    return CUDA_SUCCESS;
}
