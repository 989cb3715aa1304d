/*
 * random_contexts.c - contexts, what lives in them, what ends with them; graphs that leave memory.
 *
 *      context HANDLE DEVICE STATUS    destroy HANDLE STATUS    reset DEVICE STATUS
 *      module HANDLE STATUS            unload HANDLE STATUS
 */
#include "random.h"

static const struct {
    unsigned magic;
    unsigned short version, header;
    unsigned long long body;
} image = {0xba55ed50u, 1, 16, 1 * MIB};

void context_use(struct task *t, CUcontext context, int device)
{
    if (device < 0)
        for (device = 0; device < DEVICES - 1 && world.primary[device] != context;)
            device++;
    if (cuCtxSetCurrent(context) != CUDA_SUCCESS)
        fatal("cuCtxSetCurrent");
    t->current = context;
    t->device = device;
}

static void create(struct task *t)
{
    CUcontext context = NULL;
    int device = (int)pick(t, DEVICES);
    if (t->created)
        return;
    CUresult result = cuCtxCreate(&context, NULL, 0, device);
    say(t, "context %llu %d %d", (unsigned long long)(uintptr_t)context, device, result);
    if (result != CUDA_SUCCESS)
        return;
    t->created = context;
    t->created_device = device;
    context_use(t, context, device);
}

static bool ends_with(const struct object *o, uint64_t context, int device)
{
    bool of_device = o->kind == POOLED || o->kind == GRAPH_MEMORY;
    return o->kind != NOTHING && (of_device ? o->device == device : context && o->context == context);
}

/* What ended with CONTEXT is nobody's any more.  DEVICE, unless negative: its pools and graphs too. */
static void forget(struct task *t, uint64_t context, int device)
{
    for (int i = 0; i < OBJECTS; i++) {
        struct object *o = &t->object[i];
        if (!ends_with(o, context, device))
            continue;
        gave(o->device, o->size, true);
        if (o->kind == REGISTERED)
            free((void *)(uintptr_t)o->handle);
        o->kind = NOTHING;
    }
}

static void announce(struct task *t, uint64_t context, int device, bool back)
{
    for (int i = 0; i < OBJECTS; i++) {
        const struct object *o = &t->object[i];
        if (!ends_with(o, context, device))
            continue;
        if (back)
            gave(o->device, o->size, false);
        else
            gives(o->device, o->size);
    }
}

static void destroy(struct task *t)
{
    uint64_t context = (uintptr_t)t->created;
    if (!t->created)
        return;
    announce(t, context, -1, false);
    CUresult result = cuCtxDestroy(t->created);
    say(t, "destroy %llu %d", (unsigned long long)context, result);
    if (result != CUDA_SUCCESS) {
        announce(t, context, -1, true);
        return;
    }
    forget(t, context, -1);
    t->created = NULL;
    context_use(t, world.primary[pick(t, DEVICES)], -1);
}

/* Everything that this thread has in the device's primary context goes: no other thread may use it then, and
 * no framework's segments may lie in it. */
static void reset(struct task *t)
{
    int device = (int)pick(t, DEVICES);
    uint64_t context = (uintptr_t)world.primary[device];
    if (world.threads > 1 || world.framework || t->created)
        return;
    for (int i = 0; i < OBJECTS; i++) /* nobody can be asked whether that went: CUDA does not say */
        if (t->object[i].kind == POOLED && t->object[i].refs)
            return;
    announce(t, context, device, false);
    CUresult result = cuDevicePrimaryCtxReset(device);
    say(t, "reset %d %d", device, result);
    if (result != CUDA_SUCCESS) {
        announce(t, context, device, true);
        return;
    }
    forget(t, context, device);
    if (cuDevicePrimaryCtxRetain(&world.primary[device], device) != CUDA_SUCCESS)
        fatal("the primary context does not come back");
    say(t, "context %llu %d 0", (unsigned long long)(uintptr_t)world.primary[device], device);
    context_use(t, world.primary[device], device);
}

static void module(struct task *t)
{
    struct object *o = vacant(t);
    CUmodule m = NULL;
    CUlibrary l = NULL;
    bool library = chance(t, 40);
    if (!o)
        return;
    CUresult result =
        library ? cuLibraryLoadData(&l, &image, NULL, NULL, 0, NULL, NULL, 0) : cuModuleLoadData(&m, &image);
    uint64_t handle = library ? (uintptr_t)l : (uintptr_t)m;
    say(t, "module %llu %d", (unsigned long long)handle, result);
    if (result == CUDA_SUCCESS)
        *o = (struct object){library ? LIBRARY : MODULE, handle, 0, owner(t), -1, 0, 0, {{0}}};
}

static void stream(struct task *t)
{
    CUstream s;
    if (cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS)
        cuStreamDestroy(s);
}

/* ---- graphs ---- */

static void graph(struct task *t)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = t->device}},
        .bytesize = MIB * (1 + pick(t, 5))};
    struct object *o = vacant(t);
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    if (!o || cuGraphCreate(&graph, 0) != CUDA_SUCCESS)
        return;
    if (cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params) == CUDA_SUCCESS &&
        cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS) {
        takes(t->device, params.bytesize);
        CUresult result = cuGraphLaunch(exec, NULL);
        took(t->device, params.bytesize, result == CUDA_SUCCESS);
        if (result == CUDA_SUCCESS) {
            say(t, "alloc graph %d 0 %llu %llu 0", t->device, (unsigned long long)params.dptr,
                (unsigned long long)params.bytesize);
            *o = (struct object){GRAPH_MEMORY, params.dptr, params.bytesize, 0, t->device, 0, 0, {{0}}};
        }
        cuGraphExecDestroy(exec);
    }
    cuGraphDestroy(graph);
}

void contexts_give_back(struct task *t, struct object *o)
{
    const char *verb = o->kind == GRAPH_MEMORY ? "free" : "unload";
    uint64_t size = o->size;
    gives(o->device, size);
    CUresult result = o->kind == MODULE    ? cuModuleUnload((CUmodule)(uintptr_t)o->handle)
                      : o->kind == LIBRARY ? cuLibraryUnload((CUlibrary)(uintptr_t)o->handle)
                                           : cuMemFree(o->handle);
    gave(o->device, size, result == CUDA_SUCCESS);
    say(t, "%s %llu %d", verb, (unsigned long long)o->handle, result);
    if (result == CUDA_SUCCESS)
        o->kind = NOTHING;
}

void contexts_end(struct task *t)
{
    for (int i = 0; t->created && i < 3; i++)
        destroy(t);
}

void contexts_turn(struct task *t)
{
    switch (pick(t, 10)) {
    case 0:
        create(t);
        return;
    case 1:
        destroy(t);
        return;
    case 2:
        reset(t);
        return;
    case 3:
    case 4:
        module(t);
        return;
    case 5:
        stream(t);
        return;
    case 6:
        cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, (8 + pick(t, 3) * 8) * MIB);
        return;
    case 7:
        graph(t);
        return;
    default:
        if (t->created && chance(t, 70))
            context_use(t, t->created, t->created_device);
        else
            context_use(t, world.primary[pick(t, DEVICES)], -1);
    }
}
