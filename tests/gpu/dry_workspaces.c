/*
 * dry_workspaces.c - preloaded before cuDNN: writes down what PyTorch asks it, and how much room cuDNN wants.
 *
 *      gcc -shared -fPIC -I dry -I dry/dnn -o trace.so tests/gpu/dry_workspaces.c
 * dry/dnn/{backend,graph,types}.c -ldl
 *
 * Every descriptor of the backend API gets a twin (dry/dnn/backend.c), so that graphs are described by the
 * code that describes them in a dry run (dry/dnn/graph.c).  Lines of the file that DRY_WORKSPACES_LOG names,
 * with tabs:
 *
 *      case      what the program is about to do (dry_workspaces_case)
 *      graph     number, description: the heuristics were asked about it
 *      offer     graph, place in the list, engine, notes, bytes, knobs: what the heuristics gave
 *      plan      graph, engine, status, bytes: what PyTorch made of one
 *      took      graph, engine, bytes: the first time that a plan was executed
 *      rnn, rnn-weights, rnn-at, norm, dropout, ctc: what the functions of that name were asked, and said
 */
#include "dnn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

enum {
    TWINS = 1 << 20,
    ATTR_NUMBER = -1,
    ATTR_BYTES = -2,
    ATTR_TAKEN = -3,
    KNOB_TYPE = 600,
    KNOB_VALUE = 601
};

static pthread_mutex_t lock =
    PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* cuDNN may come back to it from inside */
static struct twin {
    const void *real;
    struct dnn_backend *twin;
    char said[224]; /* of a legacy descriptor: how it was set */
} * twins;
static int64_t graphs;

/* By the library's own name: PyTorch opened it, so it is in no scope in which RTLD_NEXT would look. */
static void *next(const char *name)
{
    void *library = dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_NOLOAD),
         *function = library ? dlsym(library, name) : NULL;
    if (!function) {
        fprintf(stderr, "dry_workspaces: no %s\n", name);
        abort();
    }
    dlclose(library);
    return function;
}
#define REAL(name) ((__typeof__(&name))next(#name))

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    static int fd = -1;
    if (fd < 0)
        fd = open(getenv("DRY_WORKSPACES_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0644);
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    n = n > (int)sizeof line - 2 ? (int)sizeof line - 2 : n;
    line[n] = '\n';
    if (write(fd, line, (size_t)n + 1) < 0)
        abort();
}

/* Open addressing; a destroyed descriptor's place is taken by whoever has its address next. */
static struct twin *twin_of(const void *real)
{
    if (!twins)
        twins = calloc(TWINS, sizeof *twins);
    size_t at = ((uintptr_t)real >> 4) * 2654435761u % TWINS;
    while (twins[at].real && twins[at].real != real)
        at = (at + 1) % TWINS;
    twins[at].real = real;
    return &twins[at];
}

static int64_t number_of(const struct dnn_backend *descriptor, int name)
{
    int64_t value = -1;
    dnn_backend_get(descriptor, name, 1, &value);
    return value;
}

static void set_number(struct dnn_backend *descriptor, int name, int64_t value)
{
    dnn_backend_set(descriptor, name, DNN_TYPE_INT64, 1, &value);
}

/* ---- the backend API ---- */

DRY_API int cudnnBackendCreateDescriptor(int kind, void **out);
DRY_API int cudnnBackendDestroyDescriptor(void *descriptor);
DRY_API int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count, const void *values);
DRY_API int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t want, int64_t *count,
                                     void *out);
DRY_API int cudnnBackendFinalize(void *descriptor);
DRY_API int cudnnBackendExecute(void *handle, void *plan, void *pack);

int cudnnBackendCreateDescriptor(int kind, void **out)
{
    int status = REAL(cudnnBackendCreateDescriptor)(kind, out);
    pthread_mutex_lock(&lock);
    if (!status) {
        struct twin *twin = twin_of(*out);
        dnn_backend_drop(twin->twin);
        twin->twin = dnn_backend_new(kind);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

int cudnnBackendDestroyDescriptor(void *descriptor)
{
    pthread_mutex_lock(&lock);
    if (descriptor) {
        dnn_backend_drop(twin_of(descriptor)->twin);
        twin_of(descriptor)->twin = NULL;
    }
    pthread_mutex_unlock(&lock);
    return REAL(cudnnBackendDestroyDescriptor)(descriptor);
}

int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count, const void *values)
{
    int status = REAL(cudnnBackendSetAttribute)(descriptor, name, type, count, values);
    pthread_mutex_lock(&lock);
    struct dnn_backend *twin = twin_of(descriptor)->twin, *children[256];
    if (!status && twin && type == DNN_TYPE_DESCRIPTOR && count <= 256) {
        for (int64_t i = 0; i < count; i++)
            children[i] = twin_of(((void *const *)values)[i])->twin;
        dnn_backend_set(twin, name, type, count, children);
    } else if (!status && twin && type != DNN_TYPE_DESCRIPTOR) {
        dnn_backend_set(twin, name, type, count, values);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static int64_t ask_number(void *descriptor, int name)
{
    int64_t value = -1, count = 0;
    if (REAL(cudnnBackendGetAttribute)(descriptor, name, DNN_TYPE_INT64, 1, &count, &value))
        value = -1;
    return value;
}

static void put_knobs(void *config, char *out, size_t size)
{
    void *knobs[64];
    int64_t count = 0;
    size_t at = 0;
    for (int i = 0; i < 64; i++)
        REAL(cudnnBackendCreateDescriptor)(7, &knobs[i]);
    REAL(cudnnBackendGetAttribute)(config, DNN_ATTR_CONFIG_KNOBS, DNN_TYPE_DESCRIPTOR, 64, &count, knobs);
    for (int i = 0; i < count && at + 40 < size; i++) {
        int type = -1;
        int64_t got;
        REAL(cudnnBackendGetAttribute)(knobs[i], KNOB_TYPE, 9, 1, &got, &type);
        at += (size_t)snprintf(out + at, size - at, "%s%d=%lld", i ? "," : "", type,
                               (long long)ask_number(knobs[i], KNOB_VALUE));
    }
    for (int i = 0; i < 64; i++)
        REAL(cudnnBackendDestroyDescriptor)(knobs[i]);
}

static void put_notes(void *engine, char *out, size_t size)
{
    int notes[DNN_NOTE_COUNT + 8];
    int64_t count = 0;
    size_t at = 0;
    *out = '\0';
    REAL(cudnnBackendGetAttribute)(engine, DNN_ATTR_ENGINE_NUMERICAL, 11, DNN_NOTE_COUNT, &count, notes);
    for (int i = 0; i < count && i < DNN_NOTE_COUNT && at + 8 < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%d", i ? "," : "", notes[i]);
}

/* One of the configurations that the heuristics gave; its twin keeps which engine it is of which graph. */
static void note_offer(void *config, int place, struct dnn_backend *graph)
{
    void *engine = NULL;
    int64_t count;
    char knobs[512] = "", notes[64];
    REAL(cudnnBackendCreateDescriptor)(DNN_ENGINE, &engine);
    REAL(cudnnBackendGetAttribute)(config, DNN_ATTR_CONFIG_ENGINE, DNN_TYPE_DESCRIPTOR, 1, &count, &engine);
    int64_t index = ask_number(engine, DNN_ATTR_ENGINE_INDEX);
    put_knobs(config, knobs, sizeof knobs);
    put_notes(engine, notes, sizeof notes);
    note("offer\t%lld\t%d\t%lld\t%s\t%lld\t%s", (long long)number_of(graph, ATTR_NUMBER), place,
         (long long)index, notes, (long long)ask_number(config, DNN_ATTR_CONFIG_WORKSPACE), knobs);
    REAL(cudnnBackendDestroyDescriptor)(engine);
    struct dnn_backend *twin = twin_of(config)->twin, *made = dnn_backend_new(DNN_ENGINE);
    dnn_backend_set(made, DNN_ATTR_ENGINE_GRAPH, DNN_TYPE_DESCRIPTOR, 1, &graph);
    set_number(made, DNN_ATTR_ENGINE_INDEX, index);
    dnn_backend_set(twin, DNN_ATTR_CONFIG_ENGINE, DNN_TYPE_DESCRIPTOR, 1, &made);
    dnn_backend_drop(made);
}

static void note_graph(struct dnn_backend *graph)
{
    struct dnn_task_of task;
    char text[1536];
    if (!graph || number_of(graph, ATTR_NUMBER) >= 0)
        return;
    set_number(graph, ATTR_NUMBER, graphs++);
    dnn_graph_read(graph, &task);
    dnn_graph_text(&task, text, sizeof text);
    note("graph\t%lld\t%s", (long long)graphs - 1, text);
}

int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t want, int64_t *count, void *out)
{
    int64_t none, *got = count ? count : &none;
    int status = REAL(cudnnBackendGetAttribute)(descriptor, name, type, want, got, out);
    pthread_mutex_lock(&lock);
    if (!status && name == DNN_ATTR_HEUR_RESULTS && out && want > 0) {
        struct dnn_backend *graph = dnn_backend_child(twin_of(descriptor)->twin, DNN_ATTR_HEUR_GRAPH, 0);
        note_graph(graph);
        for (int64_t i = 0; i < *got && i < want; i++)
            note_offer(((void **)out)[i], (int)i, graph);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static void note_plan(void *plan, int status)
{
    struct dnn_backend *twin = twin_of(plan)->twin;
    struct dnn_backend *engine =
        dnn_backend_child(dnn_backend_child(twin, DNN_ATTR_PLAN_CONFIG, 0), DNN_ATTR_CONFIG_ENGINE, 0);
    struct dnn_backend *graph = dnn_backend_child(engine, DNN_ATTR_ENGINE_GRAPH, 0);
    if (!graph)
        return;
    note_graph(graph);
    int64_t bytes = status ? -1 : ask_number(plan, DNN_ATTR_PLAN_WORKSPACE);
    set_number(twin, ATTR_BYTES, bytes);
    note("plan\t%lld\t%lld\t%d\t%lld", (long long)number_of(graph, ATTR_NUMBER),
         (long long)number_of(engine, DNN_ATTR_ENGINE_INDEX), status, (long long)bytes);
}

int cudnnBackendFinalize(void *descriptor)
{
    int status = REAL(cudnnBackendFinalize)(descriptor);
    pthread_mutex_lock(&lock);
    if (dnn_backend_kind(twin_of(descriptor)->twin) == DNN_PLAN)
        note_plan(descriptor, status);
    pthread_mutex_unlock(&lock);
    return status;
}

int cudnnBackendExecute(void *handle, void *plan, void *pack)
{
    int status = REAL(cudnnBackendExecute)(handle, plan, pack);
    pthread_mutex_lock(&lock);
    struct dnn_backend *twin = twin_of(plan)->twin;
    if (!status && twin && number_of(twin, ATTR_TAKEN) < 0) {
        struct dnn_backend *engine =
            dnn_backend_child(dnn_backend_child(twin, DNN_ATTR_PLAN_CONFIG, 0), DNN_ATTR_CONFIG_ENGINE, 0);
        set_number(twin, ATTR_TAKEN, 1);
        note("took\t%lld\t%lld\t%lld",
             (long long)number_of(dnn_backend_child(engine, DNN_ATTR_ENGINE_GRAPH, 0), ATTR_NUMBER),
             (long long)number_of(engine, DNN_ATTR_ENGINE_INDEX), (long long)number_of(twin, ATTR_BYTES));
    }
    pthread_mutex_unlock(&lock);
    return status;
}

DRY_API void dry_workspaces_case(const char *what);
void dry_workspaces_case(const char *what)
{
    note("case\t%s", what);
}

/* ---- the legacy API: descriptors are remembered as text ---- */

/* Whether a line like this one was not written yet: PyTorch asks for the place of each weight hundreds of
 * times. */
static bool first_time(const char *text, int a, int b, int c)
{
    enum { SEEN = 1 << 16 };
    static uint64_t seen[SEEN];
    uint64_t hash = 1469598103934665603u ^ (uint64_t)(a * 64 + b * 2 + c);
    for (; *text; text++)
        hash = (hash ^ (uint64_t)*text) * 1099511628211u;
    uint64_t *slot = &seen[hash % SEEN];
    bool is_new = *slot != hash;
    *slot = hash;
    return is_new;
}

static const char *said(const void *descriptor)
{
    return descriptor ? twin_of(descriptor)->said : "-";
}

#define SAY(descriptor, ...)                                                                                 \
    do {                                                                                                     \
        pthread_mutex_lock(&lock);                                                                           \
        snprintf(twin_of(descriptor)->said, sizeof twin_of(descriptor)->said, __VA_ARGS__);                  \
        pthread_mutex_unlock(&lock);                                                                         \
    } while (0)
#define NOTE(...)                                                                                            \
    do {                                                                                                     \
        pthread_mutex_lock(&lock);                                                                           \
        note(__VA_ARGS__);                                                                                   \
        pthread_mutex_unlock(&lock);                                                                         \
    } while (0)

DRY_API int cudnnSetTensorNdDescriptor(void *tensor, int data, int rank, const int *dims, const int *strides);
int cudnnSetTensorNdDescriptor(void *tensor, int data, int rank, const int *dims, const int *strides)
{
    char text[200];
    int at = snprintf(text, sizeof text, "%s ", dnn_data_name(data));
    for (int i = 0; i < rank && at < 90; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%d", i ? "x" : "", dims[i]);
    for (int i = 0; i < rank && at < 180; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%d", i ? "," : "/", strides[i]);
    SAY(tensor, "%s", text);
    return REAL(cudnnSetTensorNdDescriptor)(tensor, data, rank, dims, strides);
}

DRY_API int cudnnSetRNNDescriptor_v8(void *rnn, int algorithm, int cell, int bias, int direction, int mode,
                                     int data, int compute, int math, int input, int hidden, int projection,
                                     int layers, void *dropout, unsigned flags);
int cudnnSetRNNDescriptor_v8(void *rnn, int algorithm, int cell, int bias, int direction, int mode, int data,
                             int compute, int math, int input, int hidden, int projection, int layers,
                             void *dropout, unsigned flags)
{
    SAY(rnn,
        "algorithm=%d cell=%d bias=%d direction=%d skip=%d data=%s compute=%s math=%d input=%d hidden=%d "
        "projection=%d "
        "layers=%d dropout=%d flags=%u",
        algorithm, cell, bias, direction, mode, dnn_data_name(data), dnn_data_name(compute), math, input,
        hidden, projection, layers, dropout != NULL, flags);
    return REAL(cudnnSetRNNDescriptor_v8)(rnn, algorithm, cell, bias, direction, mode, data, compute, math,
                                          input, hidden, projection, layers, dropout, flags);
}

DRY_API int cudnnSetRNNDataDescriptor(void *out, int data, int layout, int steps, int batch, int width,
                                      const int *lengths, void *fill);
int cudnnSetRNNDataDescriptor(void *out, int data, int layout, int steps, int batch, int width,
                              const int *lengths, void *fill)
{
    long long all = 0;
    for (int i = 0; i < batch; i++)
        all += lengths[i];
    SAY(out, "x=%s layout=%d steps=%d batch=%d width=%d lengths=%lld", dnn_data_name(data), layout, steps,
        batch, width, all);
    return REAL(cudnnSetRNNDataDescriptor)(out, data, layout, steps, batch, width, lengths, fill);
}

DRY_API int cudnnGetRNNTempSpaceSizes(void *handle, void *rnn, int mode, void *x, size_t *work,
                                      size_t *reserve);
int cudnnGetRNNTempSpaceSizes(void *handle, void *rnn, int mode, void *x, size_t *work, size_t *reserve)
{
    int status = REAL(cudnnGetRNNTempSpaceSizes)(handle, rnn, mode, x, work, reserve);
    NOTE("rnn\t%d\ttraining=%d %s %s\t%lld\t%lld", status, mode, said(rnn), said(x),
         work ? (long long)*work : -1, reserve ? (long long)*reserve : -1);
    return status;
}

DRY_API int cudnnGetRNNWeightSpaceSize(void *handle, void *rnn, size_t *size);
int cudnnGetRNNWeightSpaceSize(void *handle, void *rnn, size_t *size)
{
    int status = REAL(cudnnGetRNNWeightSpaceSize)(handle, rnn, size);
    NOTE("rnn-weights\t%d\t%s\t%lld", status, said(rnn), (long long)*size);
    return status;
}

DRY_API int cudnnGetRNNWeightParams(void *handle, void *rnn, int layer, size_t size, const void *space,
                                    int which, void *matrix, void **matrix_at, void *bias, void **bias_at);
int cudnnGetRNNWeightParams(void *handle, void *rnn, int layer, size_t size, const void *space, int which,
                            void *matrix, void **matrix_at, void *bias, void **bias_at)
{
    int status = REAL(cudnnGetRNNWeightParams)(handle, rnn, layer, size, space, which, matrix, matrix_at,
                                               bias, bias_at);
    if (first_time(said(rnn), layer, which, matrix_at && *matrix_at))
        NOTE("rnn-at\t%d\t%s\t%d\t%d\t%lld\t%lld", status, said(rnn), layer, which,
             matrix_at && *matrix_at ? (long long)((char *)*matrix_at - (const char *)space) : -1,
             bias_at && *bias_at ? (long long)((char *)*bias_at - (const char *)space) : -1);
    return status;
}

DRY_API int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int operations,
                                                                     void *x, void *z, void *y, void *scale,
                                                                     void *activation, size_t *size);
int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int operations, void *x,
                                                             void *z, void *y, void *scale, void *activation,
                                                             size_t *size)
{
    int status = REAL(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize)(
        handle, mode, operations, x, z, y, scale, activation, size);
    NOTE("norm\tforward\tmode=%d operations=%d %s\t%lld", mode, operations, said(x),
         status ? -1 : (long long)*size);
    return status;
}

DRY_API int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int operations, void *x,
                                                              void *y, void *dy, void *dz, void *dx,
                                                              void *scale, void *activation, size_t *size);
int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int operations, void *x,
                                                      void *y, void *dy, void *dz, void *dx, void *scale,
                                                      void *activation, size_t *size)
{
    int status = REAL(cudnnGetBatchNormalizationBackwardExWorkspaceSize)(handle, mode, operations, x, y, dy,
                                                                         dz, dx, scale, activation, size);
    NOTE("norm\tbackward\tmode=%d operations=%d %s\t%lld", mode, operations, said(x),
         status ? -1 : (long long)*size);
    return status;
}

DRY_API int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int operations,
                                                                 void *activation, void *x, size_t *size);
int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int operations,
                                                         void *activation, void *x, size_t *size)
{
    int status = REAL(cudnnGetBatchNormalizationTrainingExReserveSpaceSize)(handle, mode, operations,
                                                                            activation, x, size);
    NOTE("norm\treserve\tmode=%d operations=%d %s\t%lld", mode, operations, said(x),
         status ? -1 : (long long)*size);
    return status;
}

DRY_API int cudnnDropoutGetStatesSize(void *handle, size_t *size);
int cudnnDropoutGetStatesSize(void *handle, size_t *size)
{
    int status = REAL(cudnnDropoutGetStatesSize)(handle, size);
    NOTE("dropout\t%lld", status ? -1 : (long long)*size);
    return status;
}

DRY_API int cudnnGetCTCLossWorkspaceSize(void *handle, void *probabilities, void *gradients,
                                         const int *labels, const int *label_lengths,
                                         const int *input_lengths, int algorithm, void *loss, size_t *size);
int cudnnGetCTCLossWorkspaceSize(void *handle, void *probabilities, void *gradients, const int *labels,
                                 const int *label_lengths, const int *input_lengths, int algorithm,
                                 void *loss, size_t *size)
{
    int status = REAL(cudnnGetCTCLossWorkspaceSize)(handle, probabilities, gradients, labels, label_lengths,
                                                    input_lengths, algorithm, loss, size);
    NOTE("ctc\tlengths=%d,%d algorithm=%d %s\t%lld", label_lengths[0], input_lengths[0], algorithm,
         said(probabilities), status ? -1 : (long long)*size);
    return status;
}

DRY_API int cudnnGetCTCLossWorkspaceSize_v8(void *handle, int algorithm, void *loss, void *probabilities,
                                            void *gradients, size_t *size);
int cudnnGetCTCLossWorkspaceSize_v8(void *handle, int algorithm, void *loss, void *probabilities,
                                    void *gradients, size_t *size)
{
    int status =
        REAL(cudnnGetCTCLossWorkspaceSize_v8)(handle, algorithm, loss, probabilities, gradients, size);
    NOTE("ctc\tv8 algorithm=%d %s\t%lld", algorithm, said(probabilities), status ? -1 : (long long)*size);
    return status;
}
