/*
 * plugin.c - a library that is loaded later: linked with the driver; or with weak references; or asking for
 * the driver as one whose loader has it.
 */
#define _GNU_SOURCE
#include "work.h"

#include <dlfcn.h>

#ifdef PLUGIN_WEAK
#pragma weak cuInit
#pragma weak cuDevicePrimaryCtxRetain
#pragma weak cuCtxSetCurrent
#pragma weak cuMemAlloc_v2
#pragma weak cuMemFree_v2
#pragma weak cuMemHostAlloc
#pragma weak cuMemFreeHost
#endif

#ifdef PLUGIN_ASKS /* linked with nothing: finds the driver where whoever loaded it brought it */
void plugin_run(void)
{
    struct road r;
#define X(member, symbol, base, version)                                                                     \
    *(void **)&r.member = dlsym(RTLD_DEFAULT, #symbol);                                                      \
    MUST(r.member != NULL);
    ROAD_FUNCTIONS(X)
#undef X
    work(&r);
}
#elif defined(PLUGIN_LOADS) /* linked with the driver and with the library that asks */
void plugin_run(void);
CUresult plugin_keep(void);
CUresult plugin_keep(void)
{
    plugin_run();
    return cuInit(0);
}
#else
static int (*volatile in_data)(unsigned) = (int (*)(unsigned))cuInit;

void plugin_run(void);
const void *plugin_bound(void);
const void *plugin_bound(void) /* what the loader, or somebody after it, has bound a reference to */
{
    return (const void *)cuMemAlloc_v2;
}
void plugin_run(void)
{
    if (cuMemAlloc_v2 == NULL || in_data == NULL) {
        puts("no driver");
        return;
    }
    MUST(in_data(0) == 0);
    struct road r = {
#define X(member, symbol, base, version) symbol,
        ROAD_FUNCTIONS(X)
#undef X
    };
    work(&r); /* by the addresses in the global offset table */
    CUdeviceptr p;
    MUST(cuMemAlloc_v2(&p, 3000) == CUDA_SUCCESS); /* and by calls through the linkage table */
    MUST(cuMemFree_v2(p) == CUDA_SUCCESS);
}
#endif

#ifdef PLUGIN_SLOW
/* The loader, binding this, calls `resolve` and then writes where its answer goes: it is long in the middle
 * of it. */
static int answer(void)
{
    return 0;
}

static int (*resolve(void))(void)
{
    for (volatile int i = 0; i < 300000; i++) {
    }
    return answer;
}

int plugin_slow(void) __attribute__((ifunc("resolve")));
int (*plugin_slow_address)(void) = plugin_slow;
#endif

#ifdef PLUGIN_CHOSEN /* by another library's resolver, while the loader binds this one */
int chosen(void);
int (*plugin_chosen)(void) = chosen;
#endif
