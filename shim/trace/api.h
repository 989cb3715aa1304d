/*
 * api.h - enum vs_api: a number for each driver function that an event may name (event.h: `api`), expanded
 * from driver.def.  Needs no header of CUDA.
 */
#ifndef VS_TRACE_API_H
#define VS_TRACE_API_H

#include <stddef.h>
#include <stdint.h>

enum vs_api {
    VS_API_NONE = 0,
#define VS_API(number, symbol, ...) VS_API_##symbol = number,
#include "driver.def"
#undef VS_API
    VS_API_END /* one more than the last row's number: the size of a table indexed by vs_api */
};

/* The exported symbol's name; NULL where no row has the number (a gap, or a newer writer's). */
static inline const char *vs_api_name(uint64_t api)
{
    switch (api) {
#define VS_API(number, symbol, ...)                                                                          \
    case number:                                                                                             \
        return #symbol;
#include "driver.def"
#undef VS_API
    default:
        return NULL;
    }
}

#endif
