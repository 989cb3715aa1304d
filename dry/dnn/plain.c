/*
 * plain.c - descriptors of the legacy API, all kinds in one struct, as far as a size follows from them; the
 * others are only made and destroyed.
 */
#include "dnn.h"

#include <stdlib.h>
#include <string.h>

#define KIND(name)                                                                                           \
    DRY_API int cudnnCreate##name##Descriptor(struct dnn_plain **out)                                        \
    {                                                                                                        \
        if (!out)                                                                                            \
            return DNN_NULL_POINTER;                                                                         \
        *out = calloc(1, sizeof **out);                                                                      \
        return *out ? DNN_SUCCESS : DNN_NO_MEMORY;                                                           \
    }                                                                                                        \
    DRY_API int cudnnDestroy##name##Descriptor(struct dnn_plain *descriptor)                                 \
    {                                                                                                        \
        free(descriptor);                                                                                    \
        return DNN_SUCCESS;                                                                                  \
    }
KIND(Activation)
KIND(Convolution)
KIND(CTCLoss)
KIND(Dropout)
KIND(Filter)
KIND(LRN)
KIND(OpTensor)
KIND(Pooling)
KIND(ReduceTensor)
KIND(SpatialTransformer)
KIND(Tensor)
KIND(TensorTransform)

int64_t dnn_plain_bytes(const struct dnn_plain *tensor)
{
    int64_t reach = 1; /* the highest element that the strides lead to, and one */
    for (int i = 0; i < tensor->rank; i++)
        reach += (int64_t)(tensor->dims[i] - 1) * tensor->strides[i];
    return reach * dnn_width(tensor->data);
}

static int set(struct dnn_plain *tensor, int data, int rank, const int *dims, const int *strides)
{
    if (!tensor || !dims)
        return DNN_NULL_POINTER;
    if (rank < 1 || rank > DNN_DIMS)
        return DNN_NOT_SUPPORTED;
    tensor->data = data;
    tensor->rank = rank;
    memcpy(tensor->dims, dims, (size_t)rank * sizeof *dims);
    for (int i = rank - 1; i >= 0; i--)
        tensor->strides[i] = strides ? strides[i] : i == rank - 1 ? 1 : tensor->strides[i + 1] * dims[i + 1];
    return DNN_SUCCESS;
}

static int get(const struct dnn_plain *tensor, int want, int *data, int *rank, int *dims, int *strides)
{
    if (!tensor)
        return DNN_NULL_POINTER;
    int n = want < 0 ? 0 : want < tensor->rank ? want : tensor->rank;
    if (data)
        *data = tensor->data;
    if (rank)
        *rank = tensor->rank;
    if (dims)
        memcpy(dims, tensor->dims, (size_t)n * sizeof *dims);
    if (strides)
        memcpy(strides, tensor->strides, (size_t)n * sizeof *strides);
    return DNN_SUCCESS;
}

DRY_API int cudnnSetTensorNdDescriptor(struct dnn_plain *tensor, int data, int rank, const int *dims,
                                       const int *strides)
{
    return strides ? set(tensor, data, rank, dims, strides) : DNN_NULL_POINTER;
}

DRY_API int cudnnSetTensor4dDescriptor(struct dnn_plain *tensor, int format, int data, int n, int c, int h,
                                       int w)
{
    enum { NHWC = 1 };
    const int dims[] = {n, c, h, w}, last[] = {c * h * w, 1, w * c, c};
    return set(tensor, data, 4, dims, format == NHWC ? last : NULL);
}

DRY_API int cudnnGetTensorNdDescriptor(const struct dnn_plain *tensor, int want, int *data, int *rank,
                                       int *dims, int *strides)
{
    return get(tensor, want, data, rank, dims, strides);
}

DRY_API int cudnnGetTensorSizeInBytes(const struct dnn_plain *tensor, size_t *size)
{
    if (!tensor || !size)
        return DNN_NULL_POINTER;
    *size = (size_t)dnn_plain_bytes(tensor);
    return DNN_SUCCESS;
}

DRY_API int cudnnSetFilterNdDescriptor(struct dnn_plain *filter, int data, int format, int rank,
                                       const int *dims)
{
    int status = set(filter, data, rank, dims, NULL);
    if (!status)
        filter->format = format;
    return status;
}

DRY_API int cudnnGetFilterNdDescriptor(const struct dnn_plain *filter, int want, int *data, int *format,
                                       int *rank, int *dims)
{
    if (filter && format)
        *format = filter->format;
    return get(filter, want, data, rank, dims, NULL);
}

DRY_API int cudnnSetConvolutionNdDescriptor(struct dnn_plain *convolution, int spatial, const int *pad,
                                            const int *steps, const int *dilation, int mode, int data)
{
    (void)mode;
    if (!convolution || !pad || !steps || !dilation)
        return DNN_NULL_POINTER;
    if (spatial < 0 || spatial > DNN_DIMS)
        return DNN_NOT_SUPPORTED;
    convolution->data = data;
    convolution->rank = spatial;
    convolution->groups = 1;
    memcpy(convolution->pad, pad, (size_t)spatial * sizeof *pad);
    memcpy(convolution->strides, steps, (size_t)spatial * sizeof *steps);
    memcpy(convolution->dilation, dilation, (size_t)spatial * sizeof *dilation);
    return DNN_SUCCESS;
}

DRY_API int cudnnSetConvolutionGroupCount(struct dnn_plain *convolution, int groups)
{
    if (!convolution)
        return DNN_NULL_POINTER;
    convolution->groups = groups;
    return DNN_SUCCESS;
}

DRY_API int cudnnSetConvolutionMathType(struct dnn_plain *convolution, int math)
{
    if (!convolution)
        return DNN_NULL_POINTER;
    convolution->math = math;
    return DNN_SUCCESS;
}

DRY_API int cudnnSetDropoutDescriptor(struct dnn_plain *dropout, void *handle, float rate, void *states,
                                      size_t size, unsigned long long seed)
{
    (void)handle, (void)states, (void)size, (void)seed;
    if (!dropout)
        return DNN_NULL_POINTER;
    dropout->rate = rate;
    return DNN_SUCCESS;
}

DRY_API int cudnnRestoreDropoutDescriptor(struct dnn_plain *dropout, void *handle, float rate, void *states,
                                          size_t size, unsigned long long seed)
{
    return cudnnSetDropoutDescriptor(dropout, handle, rate, states, size, seed);
}

/* ---- functions that need not do anything here, and those that would have to ---- */

#define NOTHING(name)                                                                                        \
    DRY_API int name(void)                                                                                   \
    {                                                                                                        \
        return DNN_SUCCESS;                                                                                  \
    }
#define MISSING(name)                                                                                        \
    DRY_API int name(void)                                                                                   \
    {                                                                                                        \
        dry_missing("cuDNN", #name);                                                                         \
    }
#include "nothing.def"
