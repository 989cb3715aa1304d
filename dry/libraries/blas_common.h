/*
 * blas_common.h - what libcublas and libcublasLt have in common: versions, and names of statuses.
 */
#ifndef DRY_LIBRARIES_BLAS_COMMON_H
#define DRY_LIBRARIES_BLAS_COMMON_H

#include "names.h"

enum { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7 };

STANDS_IN int get_property(int which, int *value)
{
    int parts[] = {VERSION / 10000, VERSION / 100 % 100, VERSION % 100};
    if (which < 0 || which > 2 || !value)
        return INVALID_VALUE;
    *value = parts[which];
    return SUCCESS;
}

STANDS_IN size_t runtime_version(void)
{
    return CUDA_MAJOR * 1000;
}

STANDS_IN const char *status_name(int status)
{
    static const char *const names[] = {
        [0] = "CUBLAS_STATUS_SUCCESS",           [1] = "CUBLAS_STATUS_NOT_INITIALIZED",
        [3] = "CUBLAS_STATUS_ALLOC_FAILED",      [7] = "CUBLAS_STATUS_INVALID_VALUE",
        [8] = "CUBLAS_STATUS_ARCH_MISMATCH",     [11] = "CUBLAS_STATUS_MAPPING_ERROR",
        [13] = "CUBLAS_STATUS_EXECUTION_FAILED", [14] = "CUBLAS_STATUS_INTERNAL_ERROR",
        [15] = "CUBLAS_STATUS_NOT_SUPPORTED",    [16] = "CUBLAS_STATUS_LICENSE_ERROR",
    };
    bool known = status >= 0 && status < (int)(sizeof names / sizeof *names) && names[status];
    return known ? names[status] : "<unknown>";
}

#endif
