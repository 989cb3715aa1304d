/*
 * rnn.c - recurrent layers: their weights in one buffer, and how much they want beside it.  The buffer has
 * each layer's and direction's matrices in turn (input, state, projection), then all biases in the same
 * order.
 */
#include "dnn.h"

#include <stdlib.h>
#include <string.h>

enum { RELU, TANH, LSTM, GRU };
enum { NO_BIAS, ONE_BIAS, TWO_BIASES, ONE_STATE_BIAS };

struct rnn {
    int algorithm, cell, bias, bidirectional, skip_input, data, compute, math;
    int32_t input, hidden, projection, layers;
    float dropout;
};
struct rnn_data {
    int data, layout, steps, batch, width;
    int64_t lengths; /* of all sequences together */
};

DRY_API int cudnnCreateRNNDescriptor(struct rnn **out)
{
    if (!out)
        return DNN_NULL_POINTER;
    *out = calloc(1, sizeof **out);
    return *out ? DNN_SUCCESS : DNN_NO_MEMORY;
}

DRY_API int cudnnDestroyRNNDescriptor(struct rnn *rnn)
{
    free(rnn);
    return DNN_SUCCESS;
}

DRY_API int cudnnSetRNNDescriptor_v8(struct rnn *rnn, int algorithm, int cell, int bias, int direction,
                                     int input_mode, int data, int compute, int math, int32_t input,
                                     int32_t hidden, int32_t projection, int32_t layers,
                                     const struct dnn_plain *dropout, uint32_t flags)
{
    (void)flags;
    if (!rnn)
        return DNN_NULL_POINTER;
    if (cell < RELU || cell > GRU || input < 1 || hidden < 1 || layers < 1)
        return DNN_BAD_PARAM;
    *rnn = (struct rnn){algorithm,
                        cell,
                        bias,
                        direction,
                        input_mode,
                        data,
                        compute,
                        math,
                        input,
                        hidden,
                        projection,
                        layers,
                        dropout ? dropout->rate : 0};
    return DNN_SUCCESS;
}

DRY_API int cudnnCreateRNNDataDescriptor(struct rnn_data **out)
{
    if (!out)
        return DNN_NULL_POINTER;
    *out = calloc(1, sizeof **out);
    return *out ? DNN_SUCCESS : DNN_NO_MEMORY;
}

DRY_API int cudnnDestroyRNNDataDescriptor(struct rnn_data *data)
{
    free(data);
    return DNN_SUCCESS;
}

DRY_API int cudnnSetRNNDataDescriptor(struct rnn_data *out, int data, int layout, int steps, int batch,
                                      int width, const int *lengths, void *fill)
{
    (void)fill;
    if (!out || !lengths)
        return DNN_NULL_POINTER;
    *out = (struct rnn_data){data, layout, steps, batch, width, 0};
    for (int i = 0; i < batch; i++)
        out->lengths += lengths[i];
    return DNN_SUCCESS;
}

/* ---- the weights ---- */

static int gates(const struct rnn *rnn)
{
    return rnn->cell == LSTM ? 4 : rnn->cell == GRU ? 3 : 1;
}

static bool projects(const struct rnn *rnn)
{
    return rnn->projection > 0 && rnn->projection != rnn->hidden;
}

static int64_t state(const struct rnn *rnn) /* what a step hands to the next */
{
    return projects(rnn) ? rnn->projection : rnn->hidden;
}

static int directions(const struct rnn *rnn)
{
    return rnn->bidirectional ? 2 : 1;
}

static int64_t input_of(const struct rnn *rnn, int pseudo_layer)
{
    return pseudo_layer < directions(rnn) ? rnn->input : state(rnn) * directions(rnn);
}

static int64_t biases(const struct rnn *rnn) /* elements for each layer and direction */
{
    int kinds = rnn->bias == NO_BIAS ? 0 : rnn->bias == TWO_BIASES ? 2 : 1;
    return (int64_t)kinds * gates(rnn) * rnn->hidden;
}

static int64_t matrices(const struct rnn *rnn, int pseudo_layer)
{
    int64_t all = (int64_t)gates(rnn) * rnn->hidden * (input_of(rnn, pseudo_layer) + state(rnn));
    return all + (projects(rnn) ? (int64_t)rnn->projection * rnn->hidden : 0);
}

static int64_t matrices_before(const struct rnn *rnn, int pseudo_layer)
{
    int64_t n = 0;
    for (int i = 0; i < pseudo_layer; i++)
        n += matrices(rnn, i);
    return n;
}

DRY_API int cudnnGetRNNWeightSpaceSize(void *handle, const struct rnn *rnn, size_t *size)
{
    if (!handle || !rnn || !size)
        return DNN_NULL_POINTER;
    int pseudo_layers = rnn->layers * directions(rnn);
    *size =
        (size_t)(matrices_before(rnn, pseudo_layers) + pseudo_layers * biases(rnn)) * dnn_width(rnn->data);
    return DNN_SUCCESS;
}

static void describe(struct dnn_plain *out, const struct rnn *rnn, int64_t rows, int64_t columns)
{
    *out = (struct dnn_plain){.data = rnn->data,
                              .rank = 3,
                              .dims = {1, (int)rows, (int)columns},
                              .strides = {(int)(rows * columns), (int)columns, 1}};
}

static void put_matrix(const struct rnn *rnn, int layer, int which, const char *space, struct dnn_plain *out,
                       void **address)
{
    int64_t n = gates(rnn), hidden = rnn->hidden, input = input_of(rnn, layer);
    int64_t at = matrices_before(rnn, layer);
    if (which < n) {
        describe(out, rnn, hidden, input);
        at += which * hidden * input;
    } else if (which < 2 * n) {
        describe(out, rnn, hidden, state(rnn));
        at += n * hidden * input + (which - n) * hidden * state(rnn);
    } else {
        describe(out, rnn, rnn->projection, hidden);
        at += n * hidden * (input + state(rnn));
    }
    *address = (void *)(space + at * dnn_width(rnn->data));
}

/* NULL where there is none: the projection has none, nor has the side that the mode leaves out. */
static void put_bias(const struct rnn *rnn, int layer, int which, const char *space, struct dnn_plain *out,
                     void **address)
{
    int64_t n = gates(rnn), hidden = rnn->hidden;
    bool of_state = which >= n;
    *address = NULL;
    if (which >= 2 * n || rnn->bias == NO_BIAS || (rnn->bias == ONE_BIAS && of_state) ||
        (rnn->bias == ONE_STATE_BIAS && !of_state))
        return;
    describe(out, rnn, hidden, 1);
    int64_t at = matrices_before(rnn, rnn->layers * directions(rnn)) + layer * biases(rnn);
    at += (rnn->bias == ONE_STATE_BIAS ? which - n : which) * hidden;
    *address = (void *)(space + at * dnn_width(rnn->data));
}

DRY_API int cudnnGetRNNWeightParams(void *handle, const struct rnn *rnn, int32_t pseudo_layer, size_t size,
                                    const void *space, int32_t which, struct dnn_plain *matrix,
                                    void **matrix_at, struct dnn_plain *bias, void **bias_at)
{
    (void)size;
    if (!handle || !rnn)
        return DNN_NULL_POINTER;
    int last = 2 * gates(rnn) - (projects(rnn) ? 0 : 1);
    if (pseudo_layer < 0 || pseudo_layer >= rnn->layers * directions(rnn) || which < 0 || which > last)
        return DNN_BAD_PARAM;
    if (matrix && matrix_at) /* PyTorch asks for one at a time */
        put_matrix(rnn, pseudo_layer, which, space, matrix, matrix_at);
    if (bias && bias_at)
        put_bias(rnn, pseudo_layer, which, space, bias, bias_at);
    return DNN_SUCCESS;
}

/* ---- room beside them: read off cuDNN 9.19.0 on an H200 ---- */

enum { SMALL_HIDDEN = 3, PACKED = 1, EACH = 8 << 20, ALIGNED = 256, LONG = 256 };

/* The algorithm for small hidden sizes; 16-bit brain floats have none, and sequences that are packed. */
static bool is_small(const struct rnn *rnn, const struct rnn_data *x)
{
    return rnn->algorithm == SMALL_HIDDEN && rnn->data != DNN_BFLOAT16 && x->layout != PACKED;
}

/* Elements for each step of each sequence: gates, inputs and outputs of the layer that is computed. */
static int64_t for_steps(const struct rnn *rnn, const struct rnn_data *x, bool training)
{
    int64_t g = gates(rnn), d = directions(rnn), h = rnn->hidden, all = x->lengths;
    if (x->layout == PACKED)
        return all * d * (g + 2 * (d - 1) + (g == 1)) * h;
    bool in_parts = d == 1 && x->steps > LONG && !is_small(rnn, x);
    int64_t n =
        d * g * h * (in_parts ? all / x->steps * LONG : all) + all * (d * (2 * d - 1) * h + rnn->input);
    if (is_small(rnn, x))
        n += all * 4 * g * h;
    if (training && rnn->cell == GRU && (d == 2 || rnn->layers == 1))
        n += all * rnn->input;
    return n + (training && rnn->dropout > 0 && rnn->layers > 1 ? all * d * h : 0);
}

/* Elements for each sequence, layer and direction. */
static int64_t for_sequences(const struct rnn *rnn, const struct rnn_data *x)
{
    int64_t d = directions(rnn), states;
    bool lstm = rnn->cell == LSTM, gru = rnn->cell == GRU;
    if (x->layout == PACKED)
        states = (lstm ? 6 : gru ? 3 : 1) + 2 * (d - 1);
    else if (is_small(rnn, x))
        states = (lstm ? 7 : 3) + d;
    else
        states = (lstm ? 10 : gru ? 5 : 3) + 2 * (d - 1);
    return states * rnn->layers * d * x->batch * rnn->hidden;
}

static int64_t work_bytes(const struct rnn *rnn, const struct rnn_data *x, bool training)
{
    int64_t layers = (int64_t)rnn->layers * directions(rnn);
    int64_t elements =
        matrices_before(rnn, (int)layers) + for_steps(rnn, x, training) + for_sequences(rnn, x);
    return layers * EACH + elements * dnn_width(rnn->data) + ALIGNED +
           (x->layout == PACKED ? 0 : 8 * x->batch);
}

/* What forward keeps for backward: of each layer the gates, the cells and, but for the last layer, what it
 * hands on.  Dropout takes a bit for each element between layers. */
static int64_t reserve_bytes(const struct rnn *rnn, const struct rnn_data *x)
{
    int64_t each = rnn->cell == LSTM ? 6 : rnn->cell == GRU ? 7 : 2, d = directions(rnn), l = rnn->layers;
    int64_t elements =
        (each * l - 1) * rnn->hidden + (projects(rnn) ? l * (rnn->hidden + rnn->projection) : 0);
    int64_t bits = rnn->dropout > 0 ? (l - 1) * d * d * x->lengths * rnn->hidden : 0;
    return elements * d * x->lengths * dnn_width(rnn->data) + bits / 8 + ALIGNED;
}

/* Whether the rules above had all that was measured of this kind right.  Of odd sizes they had not: the parts
 * of the room are aligned, and to what is not known. */
static bool is_sure(const struct rnn *rnn, const struct rnn_data *x, bool training)
{
    enum { PERSISTENT = 1, ALIGNED_ELEMENTS = 8 };
    bool both = rnn->bidirectional, lstm = rnn->cell == LSTM;
    if (rnn->algorithm == PERSISTENT || projects(rnn) || rnn->bias != TWO_BIASES ||
        rnn->input % ALIGNED_ELEMENTS || rnn->hidden % ALIGNED_ELEMENTS)
        return false;
    bool one_layer = rnn->layers == 1, is_long = x->steps > LONG;
    if (x->layout == PACKED)
        return training &&
               (both ? !(rnn->cell < LSTM && one_layer) : (rnn->cell >= LSTM || one_layer) && !is_long);
    if (!training || (lstm && (both || is_small(rnn, x))))
        return both || !is_long;
    return !is_long && (lstm ? rnn->input != rnn->hidden : rnn->cell == GRU && both && !one_layer);
}

DRY_API int cudnnGetRNNTempSpaceSizes(void *handle, const struct rnn *rnn, int mode, const struct rnn_data *x,
                                      size_t *work, size_t *reserve)
{
    enum { TRAINING = 1 };
    if (!handle || !rnn || !x)
        return DNN_NULL_POINTER;
    if (work)
        *work = (size_t)work_bytes(rnn, x, mode == TRAINING);
    if (reserve)
        *reserve = mode == TRAINING ? (size_t)reserve_bytes(rnn, x) : 0;
    if (work && !(is_sure(rnn, x, mode == TRAINING) && dnn_measured_here()))
        *work = (size_t)dry_guess("cudnn", "a recurrent layer's work space", (int64_t)*work, 0,
                                  2 * (int64_t)*work);
    return DNN_SUCCESS;
}
