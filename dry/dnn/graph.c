/*
 * graph.c - a graph of operations as what it computes: a convolution, attention (told by its products: two
 * forward, five backward; since cuDNN 9.13 also one operation), or something else.
 */
#include "dnn.h"

#include <stdio.h>
#include <string.h>

static void put_layout(struct dnn_shape *s)
{
    int64_t first = 1, last = s->rank > 1 ? s->dims[1] : 1; /* the stride that NCHW, NHWC would have next */
    bool nchw = true, nhwc = s->rank < 2 || s->strides[1] == 1 || s->dims[1] == 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        nchw &= s->dims[i] == 1 || s->strides[i] == first;
        first *= s->dims[i];
        if (i == 1)
            continue;
        nhwc &= s->dims[i] == 1 || s->strides[i] == last;
        last *= s->dims[i];
    }
    s->layout = nchw ? DNN_NCHW : nhwc ? DNN_NHWC : DNN_STRIDED;
    /* Both, where there is one channel or one pixel: PyTorch's own choice shows in the strides. */
    if (nchw && nhwc && s->rank > 2 && s->strides[1] == 1 && s->strides[s->rank - 1] == s->dims[1])
        s->layout = DNN_NHWC;
}

static void read_shape(const struct dnn_backend *tensor, struct dnn_shape *out)
{
    memset(out, 0, sizeof *out);
    out->rank = (int)dnn_backend_numbers(tensor, DNN_ATTR_DIMENSIONS, DNN_DIMS, out->dims);
    out->rank = out->rank > DNN_DIMS ? DNN_DIMS : out->rank < 0 ? 0 : out->rank;
    dnn_backend_numbers(tensor, DNN_ATTR_STRIDES, out->rank, out->strides);
    out->data = dnn_backend_enum(tensor, DNN_ATTR_DATA_TYPE);
    put_layout(out);
}

int64_t dnn_shape_bytes(const struct dnn_shape *shape)
{
    int64_t n = dnn_width(shape->data);
    for (int i = 0; i < shape->rank; i++)
        n *= shape->dims[i];
    return n;
}

static void read_convolution(const struct dnn_backend *operation, struct dnn_task_of *out)
{
    static const struct {
        int kind, convolution, x, w, y;
    } where[] = {
        {DNN_OP_FORWARD, DNN_ATTR_FORWARD_CONVOLUTION, DNN_ATTR_FORWARD_X, DNN_ATTR_FORWARD_W,
         DNN_ATTR_FORWARD_Y},
        {DNN_OP_DATA, DNN_ATTR_DATA_CONVOLUTION, DNN_ATTR_DATA_DX, DNN_ATTR_DATA_W, DNN_ATTR_DATA_DY},
        {DNN_OP_FILTER, DNN_ATTR_FILTER_CONVOLUTION, DNN_ATTR_FILTER_X, DNN_ATTR_FILTER_DW,
         DNN_ATTR_FILTER_DY},
    };
    int i = 0, kind = dnn_backend_kind(operation);
    while (where[i].kind != kind)
        i++;
    out->task = kind == DNN_OP_FORWARD ? DNN_CONV_FORWARD
                : kind == DNN_OP_DATA  ? DNN_CONV_DATA
                                       : DNN_CONV_FILTER;
    read_shape(dnn_backend_child(operation, where[i].x, 0), &out->x);
    read_shape(dnn_backend_child(operation, where[i].w, 0), &out->w);
    read_shape(dnn_backend_child(operation, where[i].y, 0), &out->y);
    const struct dnn_backend *how = dnn_backend_child(operation, where[i].convolution, 0);
    dnn_backend_numbers(how, DNN_ATTR_PRE_PADDING, DNN_DIMS, out->pad);
    dnn_backend_numbers(how, DNN_ATTR_POST_PADDING, DNN_DIMS, out->post);
    dnn_backend_numbers(how, DNN_ATTR_STEPS, DNN_DIMS, out->step);
    dnn_backend_numbers(how, DNN_ATTR_DILATIONS, DNN_DIMS, out->dilation);
    out->compute = dnn_backend_enum(how, DNN_ATTR_COMPUTE);
    out->groups = out->w.dims[1] > 0 ? out->x.dims[1] / out->w.dims[1] : 1;
}

/* Sequences of their own lengths, which lie one behind another. */
static bool is_ragged(const struct dnn_backend *tensor)
{
    return dnn_backend_get(tensor, DNN_ATTR_RAGGED, 0, NULL) > 0;
}

static void read_whole_attention(const struct dnn_backend *operation, struct dnn_task_of *out)
{
    bool forward = dnn_backend_kind(operation) == DNN_OP_SDPA_FORWARD;
    const struct dnn_backend *q =
        dnn_backend_child(operation, forward ? DNN_ATTR_SDPA_Q : DNN_ATTR_SDPA_BACKWARD_Q, 0);
    out->task = forward ? DNN_SDPA_FORWARD : DNN_SDPA_BACKWARD;
    out->ragged = is_ragged(q);
    read_shape(q, &out->x);
    read_shape(dnn_backend_child(operation, forward ? DNN_ATTR_SDPA_K : DNN_ATTR_SDPA_BACKWARD_K, 0),
               &out->w);
    read_shape(dnn_backend_child(operation, forward ? DNN_ATTR_SDPA_V : DNN_ATTR_SDPA_BACKWARD_V, 0),
               &out->y);
}

/* The first product of attention is q times k, transposed; the second has v, forward as its right side. */
static void read_product(const struct dnn_backend *operation, struct dnn_task_of *out)
{
    const struct dnn_backend *right = dnn_backend_child(operation, DNN_ATTR_MATMUL_B, 0);
    if (out->matmuls == 0) {
        const struct dnn_backend *left = dnn_backend_child(operation, DNN_ATTR_MATMUL_A, 0);
        read_shape(left, &out->x);
        read_shape(right, &out->w);
        out->ragged = is_ragged(left);
    } else if (out->matmuls == 1) {
        read_shape(right, &out->y);
    }
    out->matmuls++;
}

/* Grouped queries: gradients of keys and values are made for every head of the queries, then summed. */
static void read_reduction(const struct dnn_backend *operation, struct dnn_task_of *out)
{
    struct dnn_shape from, to;
    read_shape(dnn_backend_child(operation, DNN_ATTR_REDUCTION_X, 0), &from);
    read_shape(dnn_backend_child(operation, DNN_ATTR_REDUCTION_Y, 0), &to);
    if (from.rank == 4 && to.rank == 4 && to.dims[1] < from.dims[1] && to.dims[3] == from.dims[3])
        out->reduced += dnn_shape_bytes(&from);
}

static void read_operation(const struct dnn_backend *operation, struct dnn_task_of *out)
{
    switch (dnn_backend_kind(operation)) {
    case DNN_OP_FORWARD:
    case DNN_OP_DATA:
    case DNN_OP_FILTER:
        read_convolution(operation, out);
        break;
    case DNN_OP_SDPA_FORWARD:
    case DNN_OP_SDPA_BACKWARD:
        read_whole_attention(operation, out);
        break;
    case DNN_OP_MATMUL:
        read_product(operation, out);
        break;
    case DNN_OP_REDUCTION:
        read_reduction(operation, out);
        break;
    case DNN_OP_RNG:
        out->dropout = true;
        break;
    default:
        break;
    }
}

void dnn_graph_read(const struct dnn_backend *graph, struct dnn_task_of *out)
{
    memset(out, 0, sizeof *out);
    struct dnn_backend *operation;
    while ((operation = dnn_backend_child(graph, DNN_ATTR_GRAPH_OPERATIONS, out->operations))) {
        read_operation(operation, out);
        out->operations++;
    }
    bool convolution = out->task >= DNN_CONV_FORWARD && out->task <= DNN_CONV_FILTER;
    if (convolution)
        out->fused = out->operations > 1;
    else if (out->task == DNN_OTHER && out->matmuls >= 2)
        out->task = out->matmuls == 2 ? DNN_SDPA_FORWARD : DNN_SDPA_BACKWARD;
}

/* ---- as text ---- */

static size_t add_numbers(char *text, size_t size, size_t at, const char *name, int n, const int64_t *values)
{
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s%lld", i ? "x" : " ", i ? "" : name,
                               (long long)values[i]);
    return at;
}

static size_t add_shape(char *text, size_t size, size_t at, const char *name, const struct dnn_shape *s)
{
    static const char *const layouts[] = {"nchw", "nhwc", "strided"};
    at = add_numbers(text, size, at, name, s->rank, s->dims);
    if (at < size)
        at += (size_t)snprintf(text + at, size - at, ":%s:%s", dnn_data_name(s->data), layouts[s->layout]);
    if (s->layout == DNN_STRIDED)
        at = add_numbers(text, size, at, "strides=", s->rank, s->strides);
    return at;
}

void dnn_graph_text(const struct dnn_task_of *task, char *text, size_t size)
{
    static const char *const names[] = {"other",  "forward",      "data",
                                        "filter", "sdpa-forward", "sdpa-backward"};
    size_t at = (size_t)snprintf(text, size, "%s", names[task->task]);
    at = add_shape(text, size, at, "x=", &task->x);
    at = add_shape(text, size, at, "w=", &task->w);
    at = add_shape(text, size, at, "y=", &task->y);
    int spatial = task->x.rank - 2;
    if (task->task >= DNN_CONV_FORWARD && task->task <= DNN_CONV_FILTER) {
        at = add_numbers(text, size, at, "pad=", spatial, task->pad);
        if (memcmp(task->pad, task->post, sizeof task->pad))
            at = add_numbers(text, size, at, "post=", spatial, task->post);
        at = add_numbers(text, size, at, "step=", spatial, task->step);
        at = add_numbers(text, size, at, "dilation=", spatial, task->dilation);
        at = add_numbers(text, size, at, "groups=", 1, &task->groups);
        if (at < size)
            at += (size_t)snprintf(text + at, size - at, " sum=%s", dnn_data_name(task->compute));
    }
    if (at < size)
        snprintf(text + at, size - at, "%s%s%s ops=%d products=%d reduced=%lld", task->fused ? " fused" : "",
                 task->ragged ? " ragged" : "", task->dropout ? " dropout" : "", task->operations,
                 task->matmuls, (long long)task->reduced);
}

/* ---- elements of tensors: how wide, and their names in descriptions ---- */

int dnn_width(int data)
{
    switch (data) {
    case DNN_DOUBLE:
    case DNN_INT64:
        return 8;
    case DNN_FLOAT:
    case DNN_INT32:
        return 4;
    case DNN_HALF:
    case DNN_BFLOAT16:
        return 2;
    default:
        return 1;
    }
}

const char *dnn_data_name(int data)
{
    static const char *const names[] = {"f32",  "f64",   "f16",  "i8",  "i32",  "i8x4",   "u8",
                                        "u8x4", "i8x32", "bf16", "i64", "bool", "f8e4m3", "f8e5m2"};
    return data >= 0 && data < (int)(sizeof names / sizeof *names) ? names[data] : "unknown";
}
