/*
 * roads.c - roads NAME [LIBRARY]: those to the driver that need no CUDA runtime. All end in the work of
 * work.h.
 */
#define _GNU_SOURCE
#include "work.h"

#include <dlfcn.h>
#include <string.h>

static void *must_open(const char *name, int flags)
{
    void *handle = dlopen(name, flags);
    if (handle == NULL)
        fprintf(stderr, "%s\n", dlerror());
    MUST(handle != NULL);
    return handle;
}

static void by_name(void *handle)
{
    struct road r;
#define X(member, symbol, base, version)                                                                     \
    *(void **)&r.member = dlsym(handle, #symbol);                                                            \
    MUST(r.member != NULL);
    ROAD_FUNCTIONS(X)
#undef X
    work(&r);
}

typedef CUresult get1(const char *, void **, int, cuuint64_t);
typedef CUresult get2(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void by_proc(int form, cuuint64_t flags)
{
    struct road r;
    void *driver = must_open("libcuda.so.1", RTLD_NOW);
    get1 *first = (get1 *)dlsym(driver, "cuGetProcAddress");
    get2 *second = (get2 *)dlsym(driver, "cuGetProcAddress_v2");
    MUST(first != NULL && second != NULL);
#define X(member, symbol, base, version)                                                                     \
    MUST((form == 1 ? first(#base, (void **)&r.member, version, flags)                                       \
                    : second(#base, (void **)&r.member, version, flags, NULL)) == CUDA_SUCCESS);             \
    MUST(r.member != NULL);
    ROAD_FUNCTIONS(X)
#undef X
    work(&r);
}

static void by_plugin(const char *library, int flags)
{
    void *plugin = must_open(library, RTLD_NOW | flags);
    void (*run)(void) = (void (*)(void))dlsym(plugin, "plugin_run");
    if (run == NULL || dlsym(plugin, "plugin_keep") != NULL)
        run = (void (*)(void))dlsym(plugin, "plugin_keep");
    MUST(run != NULL);
    run();
}

/* The second copy has a state of its own: what the first one knows, it does not. */
static void second_copy(const char *library)
{
    by_name(must_open("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
    void *copy = must_open(library, RTLD_NOW | RTLD_LOCAL);
    CUresult (*alloc)(CUdeviceptr *, size_t) =
        (CUresult(*)(CUdeviceptr *, size_t))dlsym(copy, "cuMemAlloc_v2");
    CUdeviceptr p;
    MUST(alloc != NULL);
    printf("the copy: %d\n", alloc(&p, 1000));
}

static void start(void)
{
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))dlsym(must_open("libcuda.so.1", RTLD_NOW), "cuInit");
    MUST(init != NULL && init(0) == CUDA_SUCCESS);
}

static int is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

#ifdef LINKED
static void linked(void)
{
    struct road r = {
#define X(member, symbol, base, version) symbol,
        ROAD_FUNCTIONS(X)
#undef X
    };
    work(&r);
}
#else
static void linked(void)
{
    MUST(!"built with -DLINKED");
}
#endif

int main(int argc, char **argv)
{
    const char *road = argc > 1 ? argv[1] : "", *library = argc > 2 ? argv[2] : NULL;
    if (is(road, "linked"))
        linked();
    else if (is(road, "dlsym"))
        by_name(must_open("libcuda.so.1", RTLD_LAZY));
    else if (is(road, "local"))
        by_name(must_open("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
    else if (is(road, "deepbound"))
        by_name(must_open("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
    else if (is(road, "absolute"))
        by_name(must_open(library, RTLD_NOW));
    else if (is(road, "global"))
        by_name((must_open("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), RTLD_DEFAULT));
    else if (is(road, "next"))
        by_name((must_open("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), RTLD_NEXT));
    else if (is(road, "program"))
        by_name((must_open("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), must_open(NULL, RTLD_NOW)));
    else if (is(road, "proc1"))
        by_proc(1, 0);
    else if (is(road, "proc2"))
        by_proc(2, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    else if (is(road, "ptsz"))
        by_proc(2, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    else if (is(road, "plugin"))
        by_plugin(library, RTLD_LOCAL);
    else if (is(road, "deepbind"))
        by_plugin(library, RTLD_DEEPBIND | RTLD_GLOBAL);
    else if (is(road, "deepbind-local"))
        by_plugin(library, RTLD_DEEPBIND | RTLD_LOCAL);
    else if (is(road, "twice"))
        second_copy(library);
    else if (is(road, "start"))
        start();
    else
        return 2;
    return 0;
}
