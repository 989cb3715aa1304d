/*
 * user_object.c - what a program wants to live as long as a graph does: references are counted, and a
 * function is called when there are none left.  What is instantiated from a graph has references of its own.
 */
#include "graph.h"

#include <stdlib.h>

struct object {
    struct sim_range range; /* start = handle */
    uint64_t references;
    CUhostFn destroy;
    void *data;
};
struct sim_kept { /* by a graph */
    struct sim_kept *next;
    struct object *object;
    uint64_t references;
};
static struct sim_map objects;

static struct object *object_of(CUuserObject handle)
{
    return (struct object *)sim_map_at(&objects, (uint64_t)handle);
}

/* The function may take its time, and is not to call the driver: it is called without the lock. */
static void release(struct object *object, uint64_t count)
{
    object->references -= count;
    if (object->references)
        return;
    CUhostFn destroy = object->destroy;
    void *data = object->data;
    sim_map_remove(&objects, &object->range);
    free(object);
    sim_unlock();
    destroy(data);
    sim_lock();
}

CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy, unsigned int references,
                            unsigned int flags)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!out || !destroy || !references || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    struct object *object = calloc(1, sizeof *object);
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *object = (struct object){{.start = (uint64_t)object, .size = 1}, references, destroy, data};
    sim_map_insert(&objects, &object->range);
    *out = (CUuserObject)(void *)object;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count)
{
    SIM_CALL(SIM_INITIALIZED);
    struct object *object = object_of(handle);
    if (!object || !count)
        return CUDA_ERROR_INVALID_VALUE;
    object->references += count;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count)
{
    SIM_CALL(SIM_INITIALIZED);
    struct object *object = object_of(handle);
    if (!object || !count || count > object->references)
        return CUDA_ERROR_INVALID_VALUE;
    release(object, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph handle, CUuserObject object_handle, unsigned int count,
                                 unsigned int flags)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_graph *graph = sim_graph_find(handle);
    struct object *object = object_of(object_handle);
    if (!graph || !object || !count || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_kept *kept = calloc(1, sizeof *kept);
    if (!kept)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *kept = (struct sim_kept){graph->kept, object, count};
    graph->kept = kept;
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
        object->references += count;
    return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph handle, CUuserObject object_handle, unsigned int count)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_graph *graph = sim_graph_find(handle);
    for (struct sim_kept **link = graph ? &graph->kept : NULL, *kept; link && (kept = *link);
         link = &kept->next) {
        struct object *object = kept->object;
        if (object != object_of(object_handle) || !count || count > kept->references)
            continue;
        kept->references -= count;
        if (!kept->references) {
            *link = kept->next;
            free(kept);
        }
        release(object, count);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

struct sim_kept *sim_kept_copy(const struct sim_kept *kept)
{
    struct sim_kept *copies = NULL;
    for (; kept; kept = kept->next) {
        struct sim_kept *copy = calloc(1, sizeof *copy);
        if (!copy)
            break;
        *copy = (struct sim_kept){copies, kept->object, kept->references};
        kept->object->references += kept->references;
        copies = copy;
    }
    return copies;
}

void sim_kept_end(struct sim_kept *kept)
{
    for (struct sim_kept *next; kept; kept = next) {
        next = kept->next;
        release(kept->object, kept->references);
        free(kept);
    }
}
