/*
 * property.h - the parts of a library's version, 12, 0 and 4 of 12004; included behind its statuses. cuBLAS's
 * versions are written otherwise (blas_common.h).
 */
#ifndef DRY_LIBRARIES_PROPERTY_H
#define DRY_LIBRARIES_PROPERTY_H

STANDS_IN int get_property(int which, int *value)
{
    const int parts[] = {VERSION / 1000, VERSION / 100 % 10, VERSION % 100};
    if (which < 0 || which > 2 || !value)
        return INVALID_VALUE;
    *value = parts[which];
    return SUCCESS;
}

#endif
