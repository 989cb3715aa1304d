/*
 * sizes.c - legacy functions that say how much they want: dropout's states, normalization, CTC, convolutions.
 */
#include "dnn.h"

#include <string.h>

#define SIZE(out, bytes)                                                                                     \
    do {                                                                                                     \
        if (!(out))                                                                                          \
            return DNN_NULL_POINTER;                                                                         \
        *(out) = (size_t)(bytes);                                                                            \
        return DNN_SUCCESS;                                                                                  \
    } while (0)

DRY_API int cudnnDropoutGetStatesSize(void *handle, size_t *size)
{
    enum { STATE = 24 }; /* bytes of a random generator, one for each thread that the card can hold */
    (void)handle;
    SIZE(size, (int64_t)dnn_card()->multiprocessors * dnn_card()->threads * STATE);
}

DRY_API int cudnnDropoutGetReserveSpaceSize(const struct dnn_plain *x, size_t *size)
{
    if (!x)
        return DNN_NULL_POINTER;
    SIZE(size, (dnn_plain_bytes(x) / dnn_width(x->data) + 7) / 8); /* a bit for each element */
}

/* Sums of parts of the batch, where one pass over channels last is made; read off cuDNN 9.19.0 on an H200, of
 * floats of 32 bits and right where channels come in fours. */
static int64_t norm(const struct dnn_plain *x, int mode, int part, int each, int rest)
{
    enum { ONE_PASS = 2 };
    if (!x || mode != ONE_PASS)
        return 0;
    int64_t channels = (x->dims[1] + 63) / 64 * 64, points = 1;
    for (int i = 0; i < x->rank; i++)
        points *= i == 1 ? 1 : x->dims[i];
    int64_t bytes = channels * each / 16 * ((points + part - 1) / part) + rest + channels / 16;
    if (x->data != DNN_FLOAT || x->dims[1] % 4 || !dnn_measured_here())
        bytes = dry_guess("cudnn", "a normalization's work space", bytes, 0, 2 * bytes);
    return bytes;
}

DRY_API int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int operations,
                                                                     const struct dnn_plain *x, const void *z,
                                                                     const void *y, const void *scale,
                                                                     const void *activation, size_t *size)
{
    (void)handle, (void)operations, (void)z, (void)y, (void)scale, (void)activation;
    SIZE(size, norm(x, mode, 64, 129, 1072));
}

DRY_API int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int operations,
                                                              const struct dnn_plain *x, const void *y,
                                                              const void *dy, const void *dz, const void *dx,
                                                              const void *scale, const void *activation,
                                                              size_t *size)
{
    (void)handle, (void)operations, (void)y, (void)dy, (void)dz, (void)dx, (void)scale, (void)activation;
    SIZE(size, norm(x, mode, 96, 128, 1056));
}

DRY_API int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int operations,
                                                                 const void *activation,
                                                                 const struct dnn_plain *x, size_t *size)
{
    (void)handle, (void)mode, (void)operations, (void)activation, (void)x;
    SIZE(size, 0); /* without an activation: for each that was measured */
}

/* The probabilities again, two tables over steps and places of a label, and what each label is; as measured.
 */
static int64_t ctc(const struct dnn_plain *probabilities, int64_t longest)
{
    int64_t steps = probabilities->dims[0], batch = probabilities->dims[1];
    return dnn_plain_bytes(probabilities) + steps * batch * 8 * (2 * longest + 1) +
           batch * (12 * longest + 20);
}

DRY_API int cudnnGetCTCLossWorkspaceSize(void *handle, const struct dnn_plain *probabilities,
                                         const void *gradients, const int *labels, const int *label_lengths,
                                         const int *input_lengths, int algorithm, const void *loss,
                                         size_t *size)
{
    (void)handle, (void)gradients, (void)labels, (void)input_lengths, (void)algorithm, (void)loss;
    int64_t longest = 0;
    if (!probabilities || !label_lengths)
        return DNN_NULL_POINTER;
    for (int i = 0; i < probabilities->dims[1]; i++)
        longest = label_lengths[i] > longest ? label_lengths[i] : longest;
    int64_t bytes = ctc(probabilities, longest);
    if (!dnn_measured_here())
        bytes = dry_guess("cudnn", "the CTC loss's work space", bytes, 0, 2 * bytes);
    SIZE(size, bytes);
}

/* The lengths are on the device: the longest that cuDNN takes. */
DRY_API int cudnnGetCTCLossWorkspaceSize_v8(void *handle, int algorithm, const void *loss,
                                            const struct dnn_plain *probabilities, const void *gradients,
                                            size_t *size)
{
    enum { LONGEST = 255 };
    (void)handle, (void)algorithm, (void)loss, (void)gradients;
    if (!probabilities)
        return DNN_NULL_POINTER;
    int64_t bytes = ctc(probabilities, LONGEST);
    bytes = dry_guess("cudnn", "the CTC loss's work space", bytes, 0, 2 * bytes);
    SIZE(size, bytes);
}

/* ---- convolutions: one algorithm each, for which the backend API's workspace is a guess ---- */

struct found { /* what cuDNN fills in for an algorithm */
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math, reserved[3];
};

static void put_shape(struct dnn_shape *out, const struct dnn_plain *from)
{
    memset(out, 0, sizeof *out);
    out->rank = from->rank;
    out->data = from->data;
    for (int i = 0; i < from->rank; i++) {
        out->dims[i] = from->dims[i];
        out->strides[i] = from->strides[i];
    }
    out->layout =
        from->rank > 1 && from->dims[1] > 1 && (from->strides[1] == 1 || from->format) ? DNN_NHWC : DNN_NCHW;
}

static int64_t bytes_of(enum dnn_task kind, const struct dnn_plain *x, const struct dnn_plain *w,
                        const struct dnn_plain *y, const struct dnn_plain *how)
{
    enum { PLAIN_MATH = 3 };
    struct dnn_task_of task = {.task = kind, .groups = how->groups, .operations = 1, .legacy = true};
    put_shape(&task.x, x);
    put_shape(&task.w, w);
    put_shape(&task.y, y);
    for (int i = 0; i < how->rank; i++) {
        task.pad[i] = task.post[i] = how->pad[i];
        task.step[i] = how->strides[i];
        task.dilation[i] = how->dilation[i];
    }
    task.compute = how->data;
    return dnn_workspace_told(&task, how->math == PLAIN_MATH ? DNN_PLAIN : DNN_ROUNDING);
}

static int offer(enum dnn_task kind, const struct dnn_plain *x, const struct dnn_plain *w,
                 const struct dnn_plain *y, const struct dnn_plain *how, int want, int *count,
                 struct found *out)
{
    if (!x || !w || !y || !how || !count || !out)
        return DNN_NULL_POINTER;
    *count = want > 0 ? 1 : 0;
    if (want > 0)
        out[0] = (struct found){.algorithm = 1,
                                .memory = (size_t)bytes_of(kind, x, w, y, how),
                                .determinism = 1,
                                .math = how->math,
                                .time = 1};
    return DNN_SUCCESS;
}

#define ALGORITHMS(direction, kind, first, second, third, X, W, Y)                                           \
    DRY_API int cudnnGetConvolution##direction##Algorithm_v7(                                                \
        void *handle, const struct dnn_plain *first, const struct dnn_plain *second,                         \
        const struct dnn_plain *how, const struct dnn_plain *third, int want, int *count, struct found *out) \
    {                                                                                                        \
        (void)handle;                                                                                        \
        return offer(kind, X, W, Y, how, want, count, out);                                                  \
    }                                                                                                        \
    DRY_API int cudnnFindConvolution##direction##AlgorithmEx(                                                \
        void *handle, const struct dnn_plain *first, const void *a, const struct dnn_plain *second,          \
        const void *b, const struct dnn_plain *how, const struct dnn_plain *third, void *c, int want,        \
        int *count, struct found *out, void *space, size_t bytes)                                            \
    {                                                                                                        \
        (void)handle, (void)a, (void)b, (void)c, (void)space, (void)bytes;                                   \
        return offer(kind, X, W, Y, how, want, count, out);                                                  \
    }                                                                                                        \
    DRY_API int cudnnGetConvolution##direction##WorkspaceSize(                                               \
        void *handle, const struct dnn_plain *first, const struct dnn_plain *second,                         \
        const struct dnn_plain *how, const struct dnn_plain *third, int algorithm, size_t *size)             \
    {                                                                                                        \
        (void)handle, (void)algorithm;                                                                       \
        if (!first || !second || !third || !how)                                                             \
            return DNN_NULL_POINTER;                                                                         \
        SIZE(size, bytes_of(kind, X, W, Y, how));                                                            \
    }
ALGORITHMS(Forward, DNN_CONV_FORWARD, x, w, y, x, w, y)
ALGORITHMS(BackwardData, DNN_CONV_DATA, w, y, x, x, w, y)
ALGORITHMS(BackwardFilter, DNN_CONV_FILTER, x, y, w, x, w, y)
