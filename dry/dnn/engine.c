/*
 * engine.c - the backend API's functions: descriptors are kept, engines offered, and a plan says its
 * workspace.
 */
#include "dnn.h"

#include <string.h>

#define CALL(name) DRY_API int name

CALL(cudnnBackendCreateDescriptor)(int kind, struct dnn_backend **out)
{
    if (!out)
        return DNN_NULL_POINTER;
    *out = dnn_backend_new(kind);
    return *out ? DNN_SUCCESS : DNN_NO_MEMORY;
}

CALL(cudnnBackendDestroyDescriptor)(struct dnn_backend *descriptor)
{
    dnn_backend_drop(descriptor);
    return DNN_SUCCESS;
}

CALL(cudnnBackendInitialize)(struct dnn_backend *descriptor)
{
    return descriptor ? DNN_SUCCESS : DNN_NULL_POINTER;
}

CALL(cudnnBackendFinalize)(struct dnn_backend *descriptor)
{
    return descriptor ? DNN_SUCCESS : DNN_NULL_POINTER;
}

CALL(cudnnBackendSetAttribute)
(struct dnn_backend *descriptor, int name, int type, int64_t count, const void *values)
{
    if (!descriptor || (!values && count))
        return DNN_NULL_POINTER;
    if (count < 0)
        return DNN_OUT_OF_BOUND;
    return dnn_backend_set(descriptor, name, type, count, values) ? DNN_SUCCESS : DNN_NO_MEMORY;
}

CALL(cudnnBackendExecute)(void *handle, struct dnn_backend *plan, struct dnn_backend *pack)
{
    return handle && plan && pack ? DNN_SUCCESS : DNN_NULL_POINTER;
}

/* What the heuristics found: DNN_ENGINES configurations of GRAPH, in CONFIGS the first WANT of them.  PyTorch
 * takes the first that its settings allow.  The first may use tensor cores with rounded inputs (TF32), and
 * its results need not repeat. Those of the second repeat.  The third may not round either.  The last wants
 * as much room as the hungriest plan; PyTorch builds it only where it tries all (cudnn.benchmark).  Whether
 * cuDNN has an engine at all is not asked. */
static int64_t results(struct dnn_backend *graph, int64_t want, struct dnn_backend **configs)
{
    for (int64_t i = 0; configs && i < want && i < DNN_ENGINES; i++) {
        struct dnn_backend *engine = dnn_backend_new(DNN_ENGINE);
        if (!engine)
            return i;
        dnn_backend_set(engine, DNN_ATTR_ENGINE_GRAPH, DNN_TYPE_DESCRIPTOR, 1, &graph);
        dnn_backend_set(engine, DNN_ATTR_ENGINE_INDEX, DNN_TYPE_INT64, 1, &i);
        dnn_backend_set(configs[i], DNN_ATTR_CONFIG_ENGINE, DNN_TYPE_DESCRIPTOR, 1, &engine);
        dnn_backend_drop(engine);
    }
    return configs && want < DNN_ENGINES
               ? want
               : DNN_ENGINES; /* PyTorch 2.15 takes what is said for what was stored */
}

static int64_t index_of(const struct dnn_backend *engine)
{
    int64_t index = DNN_ROUNDING;
    dnn_backend_numbers(engine, DNN_ATTR_ENGINE_INDEX, 1, &index);
    return index;
}

/* 32-bit floats are rounded to TF32 by tensor cores, which is no "conversion" to cuDNN. */
static int64_t notes(const struct dnn_backend *engine, int64_t want, int *out)
{
    static const int all[] = {DNN_NOTE_TENSOR_CORE, DNN_NOTE_NONDETERMINISTIC};
    int64_t index = index_of(engine), n = index == DNN_PLAIN ? 0 : index == DNN_ROUNDING ? 2 : 1;
    for (int64_t i = 0; out && i < want && i < n; i++)
        out[i] = all[i];
    return n;
}

static int64_t config_workspace(const struct dnn_backend *config)
{
    const struct dnn_backend *engine = dnn_backend_child(config, DNN_ATTR_CONFIG_ENGINE, 0);
    struct dnn_task_of task;
    dnn_graph_read(dnn_backend_child(engine, DNN_ATTR_ENGINE_GRAPH, 0), &task);
    int64_t index = index_of(engine);
    return dnn_workspace_told(&task, index >= 0 && index < DNN_ENGINES ? (enum dnn_engine)index : DNN_PLAIN);
}

static int64_t number(int64_t value, int64_t want, int64_t *out)
{
    if (want > 0 && out)
        *out = value;
    return 1;
}

static int64_t no_shared_memory(int64_t want, int32_t *out)
{
    if (want > 0 && out)
        *out = 0;
    return 1;
}

static int64_t empty_json(int64_t want, char *out)
{
    static const char text[] = "{}";
    if (out && want > 0)
        memcpy(out, text, want < (int64_t)sizeof text ? (size_t)want : sizeof text);
    return sizeof text;
}

/* How many values attribute NAME has, the first WANT of them in OUT; -1: it has none that are known. */
static int64_t answer(const struct dnn_backend *descriptor, int name, int64_t want, void *out)
{
    switch (name) {
    case DNN_ATTR_HEUR_RESULTS:
        return results(dnn_backend_child(descriptor, DNN_ATTR_HEUR_GRAPH, 0), want, out);
    case DNN_ATTR_GRAPH_ENGINES:
        return number(DNN_ENGINES, want, out);
    case DNN_ATTR_ENGINE_NUMERICAL:
        return notes(descriptor, want, out);
    case DNN_ATTR_CONFIG_WORKSPACE:
        return number(config_workspace(descriptor), want, out);
    case DNN_ATTR_PLAN_WORKSPACE:
        return number(config_workspace(dnn_backend_child(descriptor, DNN_ATTR_PLAN_CONFIG, 0)), want, out);
    case DNN_ATTR_CONFIG_SHARED:
        return no_shared_memory(want, out);
    case DNN_ATTR_CONFIG_KNOBS:
    case DNN_ATTR_ENGINE_KNOBS:
    case DNN_ATTR_ENGINE_LAYOUT:
    case DNN_ATTR_ENGINE_BEHAVIOR:
        return 0;
    case DNN_ATTR_PLAN_JSON:
        return empty_json(want, out);
    default:
        return dnn_backend_get(descriptor, name, want, out);
    }
}

CALL(cudnnBackendGetAttribute)
(struct dnn_backend *descriptor, int name, int type, int64_t want, int64_t *count, void *out)
{
    (void)type;
    if (!descriptor)
        return DNN_NULL_POINTER;
    int64_t n = answer(descriptor, name, want, out);
    if (count)
        *count = n > 0 ? n : 0;
    return n >= 0 ? DNN_SUCCESS : DNN_NOT_SUPPORTED;
}
