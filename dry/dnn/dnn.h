/*
 * dnn.h - inside libcudnn.so.9: what cuDNN 9's functions are given, kept in own types.  cuDNN's headers are
 * not on users' machines, so the numbers that they give to statuses, types, attributes and descriptors stand
 * here.
 */
#ifndef DRY_DNN_DNN_H
#define DRY_DNN_DNN_H

#include "facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dnn_status {
    DNN_SUCCESS = 0,
    DNN_BAD_PARAM = 2000,
    DNN_NULL_POINTER = 2002,
    DNN_OUT_OF_BOUND = 2005,
    DNN_ATTRIBUTE_TYPE = 2010,
    DNN_NOT_SUPPORTED = 3000,
    DNN_NO_MEMORY = 4003,
};

enum dnn_data {
    DNN_FLOAT = 0,
    DNN_DOUBLE = 1,
    DNN_HALF = 2,
    DNN_INT8 = 3,
    DNN_INT32 = 4,
    DNN_UINT8 = 6,
    DNN_BFLOAT16 = 9,
    DNN_INT64 = 10,
    DNN_BOOLEAN = 11,
    DNN_FP8_E4M3 = 12,
    DNN_FP8_E5M2 = 13,
};
int dnn_width(int data); /* bytes of an element */
const char *dnn_data_name(int data);

/* ---- what a run stands on (machine.c) ---- */

struct dnn_card {
    bool measured; /* an H200 */
    int multiprocessors, threads;
};
const struct dnn_card *dnn_card(void); /* the current device, as the driver describes it */
int dnn_version(void);                 /* 91900 for 9.19.0: what the loaded PyTorch asks for */
bool dnn_measured_here(void);          /* whether tables and rules were read off this version and card */

/* ---- legacy descriptors (plain.c) ---- */

enum { DNN_DIMS = 8 };
struct dnn_plain { /* tensor, filter, convolution, ...: each uses what it has */
    int data, format, rank;
    int dims[DNN_DIMS], strides[DNN_DIMS];
    int pad[DNN_DIMS], dilation[DNN_DIMS], groups, math;
    float rate; /* of dropout */
};
int64_t dnn_plain_bytes(const struct dnn_plain *tensor);

/* ---- the backend API (backend.c) ---- */

enum dnn_kind {
    DNN_CONVOLUTION = 1,
    DNN_ENGINE = 2,
    DNN_ENGINE_CONFIG = 3,
    DNN_HEURISTICS = 4,
    DNN_PLAN = 5,
    DNN_OP_FORWARD = 10,
    DNN_OP_FILTER = 11,
    DNN_OP_DATA = 12,
    DNN_OP_POINTWISE = 13,
    DNN_GRAPH = 15,
    DNN_TENSOR = 17,
    DNN_OP_MATMUL = 19,
    DNN_OP_REDUCTION = 22,
    DNN_OP_RNG = 33,
    DNN_OP_SDPA_FORWARD = 41,
    DNN_OP_SDPA_BACKWARD = 43,
};

enum dnn_attribute_name {
    DNN_ATTR_COMPUTE = 100,
    DNN_ATTR_MODE = 101,
    DNN_ATTR_DILATIONS = 102,
    DNN_ATTR_STEPS = 103,
    DNN_ATTR_POST_PADDING = 104,
    DNN_ATTR_PRE_PADDING = 105,
    DNN_ATTR_HEUR_GRAPH = 201,
    DNN_ATTR_HEUR_RESULTS = 202,
    DNN_ATTR_CONFIG_ENGINE = 300,
    DNN_ATTR_CONFIG_KNOBS = 302,
    DNN_ATTR_CONFIG_WORKSPACE = 303,
    DNN_ATTR_CONFIG_SHARED = 304,
    DNN_ATTR_PLAN_CONFIG = 401,
    DNN_ATTR_PLAN_WORKSPACE = 402,
    DNN_ATTR_PLAN_JSON = 405,
    DNN_ATTR_FORWARD_CONVOLUTION = 702,
    DNN_ATTR_FORWARD_W = 703,
    DNN_ATTR_FORWARD_X = 704,
    DNN_ATTR_FORWARD_Y = 705,
    DNN_ATTR_DATA_CONVOLUTION = 708,
    DNN_ATTR_DATA_W = 709,
    DNN_ATTR_DATA_DX = 710,
    DNN_ATTR_DATA_DY = 711,
    DNN_ATTR_FILTER_CONVOLUTION = 714,
    DNN_ATTR_FILTER_DW = 715,
    DNN_ATTR_FILTER_X = 716,
    DNN_ATTR_FILTER_DY = 717,
    DNN_ATTR_GRAPH_OPERATIONS = 801,
    DNN_ATTR_GRAPH_ENGINES = 802,
    DNN_ATTR_DATA_TYPE = 901,
    DNN_ATTR_DIMENSIONS = 902,
    DNN_ATTR_STRIDES = 903,
    DNN_ATTR_VIRTUAL = 907,
    DNN_ATTR_RAGGED = 913,
    DNN_ATTR_ENGINE_GRAPH = 1300,
    DNN_ATTR_ENGINE_INDEX = 1301,
    DNN_ATTR_ENGINE_KNOBS = 1302,
    DNN_ATTR_ENGINE_NUMERICAL = 1303,
    DNN_ATTR_ENGINE_LAYOUT = 1304,
    DNN_ATTR_ENGINE_BEHAVIOR = 1305,
    DNN_ATTR_MATMUL_A = 1520,
    DNN_ATTR_MATMUL_B = 1521,
    DNN_ATTR_MATMUL_C = 1522,
    DNN_ATTR_REDUCTION_X = 1610,
    DNN_ATTR_REDUCTION_Y = 1611,
    DNN_ATTR_SDPA_Q = 2800,
    DNN_ATTR_SDPA_K = 2801,
    DNN_ATTR_SDPA_V = 2802,
    DNN_ATTR_SDPA_BACKWARD_Q = 2851,
    DNN_ATTR_SDPA_BACKWARD_K = 2852,
    DNN_ATTR_SDPA_BACKWARD_V = 2853,
};

enum dnn_value { /* types of attributes' values that are looked into */
                 DNN_TYPE_INT64 = 3,
                 DNN_TYPE_DESCRIPTOR = 15,
};

/* Notes of an engine that PyTorch refuses it for: where TF32 is off, and where results must repeat. */
enum dnn_note { DNN_NOTE_TENSOR_CORE = 0, DNN_NOTE_NONDETERMINISTIC = 4, DNN_NOTE_COUNT = 10 };

struct dnn_backend;

struct dnn_backend *dnn_backend_new(int kind);
struct dnn_backend *dnn_backend_keep(struct dnn_backend *descriptor); /* one reference more */
void dnn_backend_drop(struct dnn_backend *descriptor);
int dnn_backend_kind(const struct dnn_backend *descriptor);
bool dnn_backend_set(struct dnn_backend *descriptor, int name, int type, int64_t count, const void *values);
/* Up to WANT values of what was set; how many there are, -1 where it was not set. */
int64_t dnn_backend_get(const struct dnn_backend *descriptor, int name, int64_t want, void *values);
/* The same of an attribute that is a list of 64-bit integers; -1 of any other.  The first of one of
 * enumerations; 0: it is none. */
int64_t dnn_backend_numbers(const struct dnn_backend *descriptor, int name, int64_t want, int64_t *values);
int dnn_backend_enum(const struct dnn_backend *descriptor, int name);
/* The INDEXth descriptor among an attribute's values; NULL: none.  It lives as long as its owner has it. */
struct dnn_backend *dnn_backend_child(const struct dnn_backend *descriptor, int name, int64_t index);
void dnn_backend_assign(struct dnn_backend *to, const struct dnn_backend *from);

/* ---- what a graph computes (graph.c) ---- */

enum dnn_task {
    DNN_OTHER,
    DNN_CONV_FORWARD,
    DNN_CONV_DATA,
    DNN_CONV_FILTER,
    DNN_SDPA_FORWARD,
    DNN_SDPA_BACKWARD
};
enum dnn_layout { DNN_NCHW, DNN_NHWC, DNN_STRIDED };

struct dnn_shape {
    int rank, data;
    int64_t dims[DNN_DIMS], strides[DNN_DIMS];
    enum dnn_layout layout;
};
struct dnn_task_of {
    enum dnn_task task;
    struct dnn_shape x, w, y; /* of a convolution; of attention q, k and v */
    int64_t pad[DNN_DIMS], post[DNN_DIMS], step[DNN_DIMS], dilation[DNN_DIMS], groups;
    int compute; /* data type that is summed in */
    bool fused;  /* more than the convolution alone */
    bool legacy; /* of the legacy API, whose algorithms were not measured */
    bool ragged, dropout;
    int64_t reduced; /* bytes of what a reduction of heads takes in */
    int matmuls, operations;
};
void dnn_graph_read(const struct dnn_backend *graph, struct dnn_task_of *out);
/* One line without tabs that says what OUT is: equal for equal graphs. */
void dnn_graph_text(const struct dnn_task_of *task, char *text, size_t size);
int64_t dnn_shape_bytes(const struct dnn_shape *shape);

/* ---- what it asks for (workspace.c) ---- */

/* Workspace of the plan that PyTorch takes; TF32: inputs may be rounded. */
struct dnn_room {
    int64_t bytes, least, most; /* where it is a guess it lies between these */
    bool sure;                  /* it is none */
};
struct dnn_room dnn_workspace(const struct dnn_task_of *task, bool tf32);
/* What the hungriest of all plans wants, which is tried where PyTorch measures which is the fastest. */
int64_t dnn_workspace_most(const struct dnn_task_of *task);
/* Of one of the engines that are offered, and a guess is told. */
enum dnn_engine { DNN_ROUNDING, DNN_REPEATING, DNN_PLAIN, DNN_HUNGRY, DNN_ENGINES };
int64_t dnn_workspace_told(const struct dnn_task_of *task, enum dnn_engine engine);

#endif
