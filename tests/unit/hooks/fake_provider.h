/* fake_provider.h - a provider that does as a test says, and what it was asked (fake_provider.c). */
#ifndef TESTS_UNIT_HOOKS_FAKE_PROVIDER_H
#define TESTS_UNIT_HOOKS_FAKE_PROVIDER_H

#include "provider/provider.h"

struct fake_provider {
    bool serves;            /* alloc and free, of whatever kind */
    uint64_t address;       /* that the next alloc gives */
    CUresult status;        /* of frees */
    struct vs_given given;  /* what it says of each request, but for the status */
    struct vs_holding held; /* of device 0 */
    uint64_t last[VS_FIGURE_END];
    bool has_ended;  /* `last` is to be had, once */
    bool gives_back; /* when the driver is short of memory: once */
    int allocs, frees, shortages, stood_in;
};
struct fake_provider *vramscope_test_provider(void);

#endif
