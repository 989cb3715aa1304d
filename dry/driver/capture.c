/*
 * capture.c - stream capture: work on a capturing stream becomes a graph's nodes and is not executed.
 *
 * Other streams join a capture by waiting for an event that was recorded in it, and must have been waited for
 * before it ends.  What could disturb it (allocating, waiting for everything, work on the legacy default
 * stream) is refused and invalidates it, as the modes of the capture and of the calling thread say.
 */
#include "capture.h"
#include "graph.h"

#include <stdlib.h>

#define MAX_MEMBERS 64

struct member {
    CUstream stream;
    bool unjoined; /* has work that no member has waited for */
};
struct capture {
    struct capture *next;
    unsigned long long id;
    CUstreamCaptureMode mode;
    const void *thread;
    struct sim_graph *graph;
    struct sim_graph *again; /* the graph that is captured once more, into a new one; NULL: none */
    bool own_graph, invalid;
    unsigned members; /* the first is the origin */
    struct member member[MAX_MEMBERS];
};
static struct capture *captures;
static unsigned long long next_id = 1;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* Also names the thread; and its default stream, which is another one in each. */
static const void *self(void)
{
    return &thread_mode;
}

CUstream sim_capture_key(CUstream stream)
{
    return stream == CU_STREAM_PER_THREAD ? (CUstream)self() : stream ? stream : CU_STREAM_LEGACY;
}

static CUstream key(CUstream stream)
{
    return sim_capture_key(stream);
}

static struct member *member_of(struct capture *capture, CUstream stream)
{
    for (unsigned i = 0; i < capture->members; i++)
        if (capture->member[i].stream == key(stream))
            return &capture->member[i];
    return NULL;
}

static struct capture *capture_of(CUstream stream)
{
    struct capture *capture = captures;
    while (capture && !member_of(capture, stream))
        capture = capture->next;
    return capture;
}

bool sim_capturing(CUstream stream)
{
    return capture_of(stream) != NULL;
}

CUresult sim_capture_invalidate(CUstream stream, CUresult result)
{
    struct capture *capture = capture_of(stream);
    if (capture)
        capture->invalid = true;
    return result;
}

static bool forbids(const struct capture *capture)
{
    if (capture->thread == self())
        return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_forbids(void)
{
    CUresult result = CUDA_SUCCESS;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    for (struct capture *c = captures; c; c = c->next)
        if (forbids(c)) {
            c->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

static bool is_legacy(CUstream stream)
{
    return !stream || stream == CU_STREAM_LEGACY;
}

static bool waits_for_legacy(const struct capture *capture)
{
    for (unsigned i = 0; i < capture->members; i++)
        if (capture->member[i].stream == (CUstream)self() || sim_stream_blocking(capture->member[i].stream))
            return true;
    return false;
}

CUresult sim_stream_check(CUstream stream)
{
    CUresult result = CUDA_SUCCESS;
    if (!sim_valid_stream(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    for (struct capture *c = is_legacy(stream) ? captures : NULL; c; c = c->next)
        if (waits_for_legacy(c)) {
            c->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    return result;
}

struct sim_graph *sim_capture_graph(CUstream stream, CUresult *result)
{
    struct capture *capture = capture_of(stream);
    *result = capture && capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    if (!capture || capture->invalid)
        return NULL;
    struct member *member = member_of(capture, stream);
    member->unjoined = member != capture->member;
    return capture->graph;
}

/* ---- events ---- */

unsigned long long sim_capture_record(CUstream stream)
{
    const struct capture *capture = capture_of(stream);
    return capture ? capture->id : 0;
}

CUresult sim_capture_wait(CUstream stream, unsigned long long id, CUstream recorded_on)
{
    struct capture *own = capture_of(stream), *other = captures;
    while (other && other->id != id)
        other = other->next;
    if (!other) /* recorded outside: what a capture must not depend on */
        return own ? sim_capture_invalidate(stream, CUDA_ERROR_STREAM_CAPTURE_ISOLATION) : CUDA_SUCCESS;
    if (own && own != other) {
        own->invalid = other->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (is_legacy(stream))
        return sim_capture_invalidate(recorded_on, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    struct member *from = member_of(other, recorded_on);
    if (!own && other->members == MAX_MEMBERS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!own)
        other->member[other->members++] = (struct member){key(stream), false};
    if (from)
        from->unjoined = false;
    if (member_of(other, stream) != other->member)
        member_of(other, stream)->unjoined = true;
    return CUDA_SUCCESS;
}

/* ---- begin and end ---- */

static CUresult begin_in(CUstream stream, struct sim_graph *graph, bool own, CUstreamCaptureMode mode)
{
    struct capture *capture = calloc(1, sizeof *capture);
    if (!capture)
        return CUDA_ERROR_OUT_OF_MEMORY;
    capture->id = next_id++;
    capture->mode = mode;
    capture->thread = self();
    capture->graph = graph;
    capture->own_graph = own;
    capture->members = 1;
    capture->member[0].stream = key(stream);
    capture->next = captures;
    captures = capture;
    graph->capturing = true;
    return CUDA_SUCCESS;
}

static CUresult check_begin(CUstream stream, CUstreamCaptureMode mode)
{
    if (!sim_valid_stream(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_legacy(stream))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return capture_of(stream) ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
}

static CUresult begin(CUstream stream, CUstreamCaptureMode mode)
{
    CUresult result = check_begin(stream, mode);
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_graph *graph = sim_graph_new();
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = begin_in(stream, graph, true, mode);
    if (result != CUDA_SUCCESS)
        sim_graph_end(graph);
    return result;
}

static CUresult begin_to(CUstream stream, CUgraph handle, const CUgraphNode *list, size_t count,
                         CUstreamCaptureMode mode)
{
    struct sim_graph *graph = sim_graph_find(handle);
    CUresult result = check_begin(stream, mode);
    if (result == CUDA_SUCCESS && (!graph || graph->capturing || (count && !list)))
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        if (!sim_graph_node(list[i]) || sim_graph_node(list[i])->graph != graph)
            result = CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS ? begin_in(stream, graph, false, mode) : result;
}

/* Memory nodes would have to keep their addresses, and nobody is called where parameters differ: both are
 * refused here. */
static CUresult begin_again(CUstream stream, CUgraph handle, CUgraphRecaptureCallback differs,
                            CUstreamCaptureMode mode)
{
    struct sim_graph *graph = sim_graph_find(handle);
    CUresult result = check_begin(stream, mode);
    if (result == CUDA_SUCCESS && (!graph || graph->capturing))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && (differs || sim_graph_has_memory(graph)))
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS)
        result = begin(stream, mode);
    if (result == CUDA_SUCCESS) {
        captures->again = graph;
        graph->capturing = true;
    }
    return result;
}

static void drop(struct capture *capture)
{
    struct capture **link = &captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    capture->graph->capturing = false;
    if (capture->again)
        capture->again->capturing = false;
    free(capture);
}

/* GRAPH gets the parameters of AGAIN's nodes, which must be of the same kinds in the same order. */
static CUresult take_over(struct sim_graph *graph, struct sim_graph *again)
{
    const struct sim_node *a = graph->first, *b = again->first;
    while (a && b && a->type == b->type) {
        a = a->next;
        b = b->next;
    }
    if (a || b)
        return CUDA_ERROR_GRAPH_RECAPTURE_FAILURE;
    for (struct sim_node *to = graph->first, *from = again->first; to; to = to->next, from = from->next)
        sim_graph_swap(to, from);
    return CUDA_SUCCESS;
}

static bool all_joined(const struct capture *capture)
{
    for (unsigned i = 1; i < capture->members; i++)
        if (capture->member[i].unjoined)
            return false;
    return true;
}

static CUresult check_end(const struct capture *capture, CUstream stream)
{
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->member[0].stream != key(stream))
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->thread != self() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    return CUDA_SUCCESS;
}

/* A capture that failed ends all the same, without a graph. */
static CUresult end(CUstream stream, CUgraph *out)
{
    struct capture *capture = capture_of(stream);
    CUresult result = sim_valid_stream(stream) ? check_end(capture, stream) : CUDA_ERROR_INVALID_HANDLE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_graph *graph = capture->graph, *again = capture->again;
    bool own = capture->own_graph;
    result = capture->invalid       ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
             : !all_joined(capture) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                    : CUDA_SUCCESS;
    drop(capture);
    if (result == CUDA_SUCCESS && again)
        result = take_over(again, graph);
    if (result == CUDA_SUCCESS)
        *out = (CUgraph)(void *)(again ? again : graph);
    if (again || (result != CUDA_SUCCESS && own))
        sim_graph_end(graph);
    return result;
}

void sim_capture_forget(CUstream stream)
{
    struct capture *capture = capture_of(stream);
    if (!capture)
        return;
    if (member_of(capture, stream) != capture->member) {
        capture->invalid = true;
        return;
    }
    struct sim_graph *graph = capture->graph;
    bool own = capture->own_graph;
    drop(capture);
    if (own)
        sim_graph_end(graph);
}

/* ---- the functions ---- */

struct info {
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph;
    CUgraphNode last; /* that the next node would depend on */
};
static _Thread_local CUgraphNode told_node;

static CUresult look(CUstream stream, struct info *info)
{
    CUresult result = sim_stream_check(stream);
    const struct capture *capture = result == CUDA_SUCCESS ? capture_of(stream) : NULL;
    *info = (struct info){.status = CU_STREAM_CAPTURE_STATUS_NONE};
    if (!capture)
        return result;
    info->status = capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    info->id = capture->id;
    info->graph = (CUgraph)(void *)capture->graph;
    if (capture->graph->first)
        info->last = (CUgraphNode)(void *)((char *)capture->graph->last - offsetof(struct sim_node, next));
    return CUDA_SUCCESS;
}

static CUresult get_info(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                         const CUgraphNode **nodes, size_t *count)
{
    struct info info;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = look(stream, &info);
    *status = info.status;
    if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return result;
    told_node = info.last;
    if (id)
        *id = info.id;
    if (graph)
        *graph = info.graph;
    if (nodes)
        *nodes = &told_node;
    if (count)
        *count = info.last ? 1 : 0;
    return result;
}

#define BEGIN_GLOBAL(stream) begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)
#define BEGIN(stream)        begin(stream, mode)
#define BEGIN_TO(stream)     begin_to(stream, graph, list, count, mode)
#define BEGIN_AGAIN(stream)  begin_again(stream, graph, differs, mode)
#define END(stream)          end(stream, graph)
#define STATUS(stream)       get_info(stream, status, NULL, NULL, NULL, NULL)
#define INFO(stream)         get_info(stream, status, id, NULL, NULL, NULL)
#define INFO_2(stream)       get_info(stream, status, id, graph, nodes, count)
#define INFO_3(stream)       get_info_edges(stream, status, id, graph, nodes, edges, count)

/* No edge has data of its own. */
static CUresult get_info_edges(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                               const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count)
{
    if (edges)
        *edges = NULL;
    return get_info(stream, status, id, graph, nodes, count);
}

SIM_TWINS(cuStreamBeginCapture, cuStreamBeginCapture_ptsz, (CUstream stream), stream, BEGIN_GLOBAL)
SIM_TWINS(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode),
          stream, BEGIN)
SIM_TWINS(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz,
          (CUstream stream, CUgraph graph, const CUgraphNode *list, const CUgraphEdgeData *edges,
           size_t count, CUstreamCaptureMode mode),
          stream, BEGIN_TO)
SIM_TWINS(cuStreamBeginRecaptureToGraph, cuStreamBeginRecaptureToGraph_ptsz,
          (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, CUgraphRecaptureCallback differs,
           void *data),
          stream, BEGIN_AGAIN)
SIM_TWINS(cuStreamEndCapture, cuStreamEndCapture_ptsz, (CUstream stream, CUgraph *graph), stream, END)
SIM_TWINS(cuStreamIsCapturing, cuStreamIsCapturing_ptsz, (CUstream stream, CUstreamCaptureStatus *status),
          stream, STATUS)
SIM_TWINS(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz,
          (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), stream, INFO)
SIM_TWINS(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz,
          (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
           const CUgraphNode **nodes, size_t *count),
          stream, INFO_2)
SIM_TWINS(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz,
          (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
           const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count),
          stream, INFO_3)

/* What is captured next runs after all that was captured before, so no other dependency changes anything. */
static CUresult update(CUstream stream)
{
    CUresult result = sim_stream_check(stream);
    const struct capture *capture = result == CUDA_SUCCESS ? capture_of(stream) : NULL;
    return result != CUDA_SUCCESS ? result
           : !capture             ? CUDA_ERROR_ILLEGAL_STATE
           : capture->invalid     ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                  : CUDA_SUCCESS;
}

SIM_TWINS(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz,
          (CUstream stream, CUgraphNode *list, size_t count, unsigned int flags), stream, update)
SIM_TWINS(cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz,
          (CUstream stream, CUgraphNode *list, const CUgraphEdgeData *edges, size_t count,
           unsigned int flags),
          stream, update)

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
