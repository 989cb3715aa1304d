/*
 * test_dnn.c - the stand-in for cuDNN, by what it exports: descriptors, engines, workspaces that were
 * measured, weights of recurrent layers.
 */
#include "unit/test.h"

int cudnnCreate(void **handle);
int cudnnDestroy(void *handle);
int cudnnBackendCreateDescriptor(int kind, void **out);
int cudnnBackendDestroyDescriptor(void *descriptor);
int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count, const void *values);
int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t want, int64_t *count, void *out);
int cudnnCreateTensorDescriptor(void **out);
int cudnnDestroyTensorDescriptor(void *tensor);
int cudnnSetTensorNdDescriptor(void *tensor, int data, int rank, const int *dims, const int *strides);
int cudnnGetTensorNdDescriptor(const void *tensor, int want, int *data, int *rank, int *dims, int *strides);
int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int operations, void *x,
                                                             void *z, void *y, void *scale, void *activation,
                                                             size_t *size);
int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int operations, void *x,
                                                      void *y, void *dy, void *dz, void *dx, void *scale,
                                                      void *activation, size_t *size);
int cudnnGetCTCLossWorkspaceSize(void *handle, const void *probabilities, const void *gradients,
                                 const int *labels, const int *label_lengths, const int *input_lengths,
                                 int algorithm, const void *loss, size_t *size);
int cudnnCreateDropoutDescriptor(void **out);
int cudnnDestroyDropoutDescriptor(void *dropout);
int cudnnSetDropoutDescriptor(void *dropout, void *handle, float rate, void *states, size_t size,
                              unsigned long long seed);
int cudnnCreateRNNDescriptor(void **out);
int cudnnDestroyRNNDescriptor(void *rnn);
int cudnnSetRNNDescriptor_v8(void *rnn, int algorithm, int cell, int bias, int direction, int mode, int data,
                             int compute, int math, int32_t input, int32_t hidden, int32_t projection,
                             int32_t layers, void *dropout, uint32_t flags);
int cudnnGetRNNWeightSpaceSize(void *handle, void *rnn, size_t *size);
int cudnnGetRNNWeightParams(void *handle, void *rnn, int32_t layer, size_t size, const void *space,
                            int32_t which, void *matrix, void **matrix_at, void *bias, void **bias_at);
int cudnnCreateRNNDataDescriptor(void **out);
int cudnnDestroyRNNDataDescriptor(void *data);
int cudnnSetRNNDataDescriptor(void *out, int data, int layout, int steps, int batch, int width,
                              const int *lengths, void *fill);
int cudnnGetRNNTempSpaceSizes(void *handle, void *rnn, int mode, void *x, size_t *work, size_t *reserve);

enum { FLOAT = 0, HALF = 2, BFLOAT16 = 9, INT64 = 3, DESCRIPTOR = 15, DATA_TYPE = 1 };
enum { GRAPH = 15, TENSOR = 17, CONVOLUTION = 1, HEURISTICS = 4, CONFIG = 3, PLAN = 5 };

/* ---- a convolution of the backend API, from a line of text ---- */

struct line {
    char op[16], type[8], x[96], w[96], y[96], pad[32], step[32], dilation[32];
    long long bytes;
};

static int numbers(const char *text, int64_t *out)
{
    int n = 0;
    for (char *end; n < 8; text = end + 1) {
        out[n++] = strtoll(text, &end, 10);
        if (*end != 'x')
            break;
    }
    return n;
}

static void *made(int kind)
{
    void *descriptor = NULL;
    assert_int_equal(cudnnBackendCreateDescriptor(kind, &descriptor), 0);
    return descriptor;
}

static void put(void *descriptor, int name, int type, int64_t count, const void *values)
{
    assert_int_equal(cudnnBackendSetAttribute(descriptor, name, type, count, values), 0);
}

/* Hands CHILD over: who has it as an attribute keeps it. */
static void give(void *descriptor, int name, void *child)
{
    put(descriptor, name, DESCRIPTOR, 1, &child);
    cudnnBackendDestroyDescriptor(child);
}

static void *tensor(const char *text, const char *type)
{
    int64_t dims[8], strides[8], next = 1;
    int rank = numbers(text, dims), data = !strcmp(type, "f32")   ? FLOAT
                                           : !strcmp(type, "f16") ? HALF
                                                                  : BFLOAT16;
    bool last = strstr(text, "nhwc") != NULL;
    if (last)
        strides[1] = 1, next = dims[1];
    for (int i = rank - 1; i >= 0; i--) {
        if (last && i == 1)
            continue;
        strides[i] = next;
        next *= dims[i];
    }
    void *made_one = made(TENSOR);
    put(made_one, 901, DATA_TYPE, 1, &data);
    put(made_one, 902, INT64, rank, dims);
    put(made_one, 903, INT64, rank, strides);
    return made_one;
}

static void *graph_of(const struct line *line)
{
    static const struct {
        const char *op;
        int kind, how, x, w, y;
    } where[] = {{"forward", 10, 702, 704, 703, 705},
                 {"data", 12, 708, 710, 709, 711},
                 {"filter", 11, 714, 716, 715, 717}};
    int i = 0, sum = FLOAT;
    while (strcmp(where[i].op, line->op))
        i++;
    void *how = made(CONVOLUTION), *operation = made(where[i].kind), *graph = made(GRAPH);
    static const int names[] = {105, 104, 103, 102};
    const char *texts[] = {line->pad, line->pad, line->step, line->dilation};
    for (int j = 0; j < 4; j++) {
        int64_t values[8];
        int n = numbers(texts[j], values);
        put(how, names[j], INT64, n, values);
    }
    put(how, 100, DATA_TYPE, 1, &sum);
    give(operation, where[i].how, how);
    give(operation, where[i].x, tensor(line->x, line->type));
    give(operation, where[i].w, tensor(line->w, line->type));
    give(operation, where[i].y, tensor(line->y, line->type));
    give(graph, 801, operation);
    return graph;
}

/* What the first plan that the heuristics lead to wants; the graph's descriptors are destroyed before it is
 * asked. */
static int64_t workspace(const struct line *line)
{
    void *graph = graph_of(line), *heuristics = made(HEURISTICS), *config = made(CONFIG), *plan = made(PLAN);
    int64_t count = 0, bytes = -1;
    give(heuristics, 201, graph);
    assert_int_equal(cudnnBackendGetAttribute(heuristics, 202, DESCRIPTOR, 0, &count, NULL), 0);
    assert_true(count >= 1);
    assert_int_equal(cudnnBackendGetAttribute(heuristics, 202, DESCRIPTOR, 1, &count, &config), 0);
    cudnnBackendDestroyDescriptor(heuristics);
    give(plan, 401, config);
    assert_int_equal(cudnnBackendGetAttribute(plan, 402, INT64, 1, &count, &bytes), 0);
    cudnnBackendDestroyDescriptor(plan);
    return bytes;
}

static int64_t blocks(int64_t bytes)
{
    return (bytes + 511) / 512;
}

TEST(measured_convolutions_ask_for_what_an_h200_asked)
{
    FILE *file = fopen(DNN_MEASURED, "r");
    assert_non_null(file);
    char text[512];
    int lines = 0;
    while (fgets(text, sizeof text, file)) {
        struct line l;
        if (*text == '#')
            continue;
        assert_int_equal(sscanf(text, "%15s %7s %95s %95s %95s %31s %31s %31s %lld", l.op, l.type, l.x, l.w,
                                l.y, l.pad, l.step, l.dilation, &l.bytes),
                         9);
        int64_t got = workspace(&l);
        if (blocks(got) != blocks(l.bytes))
            fail_msg("%s: %lld", text, (long long)got);
        lines++;
    }
    fclose(file);
    assert_true(lines > 300);
}

TEST(an_engine_that_rounds_says_that_it_has_tensor_cores)
{
    struct line l = {"forward", "f32", "2x8x9x9:nchw", "8x8x3x3:nchw", "2x8x7x7:nchw", "0x0", "1x1",
                     "1x1",     0};
    void *heuristics = made(HEURISTICS), *configs[3] = {made(CONFIG), made(CONFIG), made(CONFIG)};
    int64_t count = 0;
    give(heuristics, 201, graph_of(&l));
    assert_int_equal(cudnnBackendGetAttribute(heuristics, 202, DESCRIPTOR, 3, &count, configs), 0);
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++) {
        void *engine = made(2);
        int notes[10] = {-1};
        assert_int_equal(cudnnBackendGetAttribute(configs[i], 300, DESCRIPTOR, 1, &count, &engine), 0);
        assert_int_equal(cudnnBackendGetAttribute(engine, 1303, 11, 10, &count, notes), 0);
        assert_int_equal(count, 2 - i); /* the first also sums in any order, the last rounds nothing */
        assert_int_equal(notes[0], i == 2 ? -1 : 0);
        cudnnBackendDestroyDescriptor(engine);
        cudnnBackendDestroyDescriptor(configs[i]);
    }
    cudnnBackendDestroyDescriptor(heuristics);
}

TEST(what_was_not_set_is_not_supported_and_null_is_refused)
{
    void *plain = made(TENSOR);
    int64_t count = 7, value = 5;
    assert_int_equal(cudnnBackendGetAttribute(plain, 906, INT64, 1, &count, &value), 3000);
    assert_int_equal(count, 0);
    assert_int_equal(value, 5);
    assert_int_equal(cudnnBackendGetAttribute(NULL, 906, INT64, 1, &count, &value), 2002);
    assert_int_equal(cudnnBackendSetAttribute(plain, 902, INT64, 1, NULL), 2002);
    assert_int_equal(cudnnBackendSetAttribute(plain, 902, INT64, -1, &value), 2005);
    cudnnBackendDestroyDescriptor(plain);
}

/* ---- normalization ---- */

TEST(one_pass_over_channels_last_wants_its_sums)
{
    static const struct {
        int dims[5], rank;
        size_t forward, backward;
    } measured[] = {
        {{32, 16, 112, 112}, 4, 3237428, 2142244}, {{2, 64, 130, 130}, 4, 274040, 181796},
        {{32, 960, 7, 7}, 4, 194632, 131676},      {{4, 1152, 1, 7, 7}, 5, 38296, 28776},
        {{16, 2048, 5, 5}, 4, 116784, 83104},
    };
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        void *x;
        size_t forward, backward;
        assert_int_equal(cudnnCreateTensorDescriptor(&x), 0);
        cudnnSetTensorNdDescriptor(x, FLOAT, measured[i].rank, measured[i].dims, measured[i].dims);
        cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(NULL, 2, 0, x, x, x, x, NULL, &forward);
        cudnnGetBatchNormalizationBackwardExWorkspaceSize(NULL, 2, 0, x, x, x, x, x, x, NULL, &backward);
        assert_int_equal(forward, measured[i].forward);
        assert_int_equal(backward, measured[i].backward);
        cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(NULL, 1, 0, x, x, x, x, NULL, &forward);
        assert_int_equal(forward, 0);
        cudnnDestroyTensorDescriptor(x);
    }
}

TEST(ctc_wants_tables_over_steps_and_labels)
{
    static const struct {
        int dims[3], longest;
        size_t bytes;
    } measured[] = {{{50, 4, 20}, 10, 50160}, {{1000, 4, 5000}, 60, 83874960}, {{150, 64, 29}, 25, 5050880}};
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        const int *d = measured[i].dims, strides[] = {d[1] * d[2], d[2], 1};
        int lengths[64];
        size_t bytes = 0;
        void *x;
        for (int k = 0; k < 64; k++)
            lengths[k] = k == 1 ? measured[i].longest : 1;
        cudnnCreateTensorDescriptor(&x);
        cudnnSetTensorNdDescriptor(x, FLOAT, 3, d, strides);
        assert_int_equal(cudnnGetCTCLossWorkspaceSize(NULL, x, x, lengths, lengths, lengths, 0, NULL, &bytes),
                         0);
        assert_int_equal(bytes, measured[i].bytes);
        cudnnDestroyTensorDescriptor(x);
    }
}

/* ---- recurrent layers ---- */

struct layer {
    int algorithm, cell, bias, both, data, input, hidden, projection, layers;
    float rate;
};

static void *rnn_of(const struct layer *l)
{
    void *rnn, *dropout;
    assert_int_equal(cudnnCreateRNNDescriptor(&rnn), 0);
    assert_int_equal(cudnnCreateDropoutDescriptor(&dropout), 0);
    cudnnSetDropoutDescriptor(dropout, NULL, l->rate, NULL, 0, 0);
    assert_int_equal(cudnnSetRNNDescriptor_v8(rnn, l->algorithm, l->cell, l->bias, l->both, 0, l->data, FLOAT,
                                              0, l->input, l->hidden, l->projection, l->layers, dropout, 1),
                     0);
    cudnnDestroyDropoutDescriptor(dropout);
    return rnn;
}

/* Every matrix and bias has a place of its own, and together they fill the buffer. */
static void weights_fill_their_buffer(const struct layer *l, size_t expected)
{
    void *rnn = rnn_of(l), *m, *b, *handle;
    size_t size = 0, filled = 0;
    int gates = l->cell == 2 ? 4 : l->cell == 3 ? 3 : 1, last = 2 * gates - (l->projection == l->hidden);
    assert_int_equal(cudnnCreate(&handle), 0);
    cudnnCreateTensorDescriptor(&m);
    cudnnCreateTensorDescriptor(&b);
    assert_int_equal(cudnnGetRNNWeightSpaceSize(handle, rnn, &size), 0);
    assert_int_equal(size, expected);
    char *used = calloc(1, size);
    for (int layer = 0; layer < l->layers * (l->both + 1); layer++)
        for (int which = 0; which <= last; which++) {
            void *at[2] = {NULL, NULL}, *of[2] = {m, b};
            assert_int_equal(
                cudnnGetRNNWeightParams(handle, rnn, layer, size, used, which, m, &at[0], b, &at[1]), 0);
            for (int k = 0; k < 2; k++) {
                int data, rank, dims[3], strides[3];
                if (!at[k])
                    continue;
                cudnnGetTensorNdDescriptor(of[k], 3, &data, &rank, dims, strides);
                size_t bytes = (size_t)dims[0] * (size_t)dims[1] * (size_t)dims[2] * (data == FLOAT ? 4 : 2);
                assert_true((char *)at[k] + bytes <= used + size);
                for (size_t i = 0; i < bytes; i++)
                    assert_int_equal(((char *)at[k])[i]++, 0);
                filled += bytes;
            }
        }
    assert_int_equal(filled, size);
    free(used);
    cudnnDestroyTensorDescriptor(m);
    cudnnDestroyTensorDescriptor(b);
    cudnnDestroyRNNDescriptor(rnn);
    cudnnDestroy(handle);
}

TEST(weights_of_recurrent_layers_lie_side_by_side)
{
    weights_fill_their_buffer(&(struct layer){0, 1, 2, 0, FLOAT, 1024, 1024, 1024, 1, 0},
                              8396800); /* as measured */
    weights_fill_their_buffer(&(struct layer){0, 3, 2, 0, FLOAT, 1024, 1024, 1024, 1, 0}, 25190400);
    weights_fill_their_buffer(&(struct layer){0, 1, 2, 0, FLOAT, 650, 650, 650, 2, 0}, 6770400);
    weights_fill_their_buffer(
        &(struct layer){0, 2, 2, 1, HALF, 20, 16, 8, 3, 0},
        2 * (size_t)(2 * (4 * 16 * 28 + 8 * 16 + 128) + 4 * (4 * 16 * 24 + 8 * 16 + 128)));
    weights_fill_their_buffer(&(struct layer){0, 0, 0, 0, FLOAT, 5, 7, 7, 2, 0}, 4 * (7 * 12 + 7 * 14));
}

TEST(recurrent_layers_want_what_an_h200_was_asked)
{
    static const struct {
        struct layer layer;
        int layout, steps, batch, each, training; /* EACH: steps of every sequence */
        size_t work, reserve;
    } measured[] = {
        {{0, 2, 2, 0, FLOAT, 128, 256, 256, 2, 0}, 0, 28, 128, 28, 0, 43255040, 0},
        {{0, 2, 2, 0, FLOAT, 300, 650, 650, 2, 0}, 0, 35, 4, 35, 1, 42373504, 4004256},
        {{3, 2, 2, 0, FLOAT, 28, 128, 128, 2, 0.1f}, 0, 512, 16, 512, 1, 110944640, 46268672},
        {{3, 3, 2, 1, FLOAT, 100, 100, 100, 1, 0}, 0, 128, 32, 128, 0, 58345728, 0},
    };
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        void *rnn = rnn_of(&measured[i].layer), *x, *handle;
        size_t work = 0, reserve = 0;
        int lengths[256];
        for (int k = 0; k < measured[i].batch; k++)
            lengths[k] = measured[i].each;
        assert_int_equal(cudnnCreate(&handle), 0);
        cudnnCreateRNNDataDescriptor(&x);
        cudnnSetRNNDataDescriptor(x, measured[i].layer.data, measured[i].layout, measured[i].steps,
                                  measured[i].batch, measured[i].layer.input, lengths, NULL);
        assert_int_equal(cudnnGetRNNTempSpaceSizes(handle, rnn, measured[i].training, x, &work, &reserve), 0);
        assert_int_equal(blocks((int64_t)work), blocks((int64_t)measured[i].work));
        assert_int_equal(blocks((int64_t)reserve), blocks((int64_t)measured[i].reserve));
        cudnnDestroyRNNDataDescriptor(x);
        cudnnDestroyRNNDescriptor(rnn);
        cudnnDestroy(handle);
    }
}

/* ---- what no program should do, and none may die of ---- */

TEST(attributes_of_other_types_than_theirs_are_none)
{
    enum { FRACTION = 26, CHAR = 24, ENGINE = 2, FORWARD = 10 };
    const int64_t pairs[16] = {8, 1, 64, 1, 7, 1, 7, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    void *tensor_ = made(TENSOR), *operation = made(FORWARD), *graph = made(GRAPH);
    void *engine = made(ENGINE), *config = made(CONFIG);
    int64_t count = 0, bytes = -1;
    put(tensor_, 902, FRACTION, 8, pairs);
    put(tensor_, 901, INT64, 1, pairs);
    give(operation, 704, tensor_);
    give(graph, 801, operation);
    give(engine, 1300, graph);
    put(engine, 1301, FRACTION, 1, pairs);
    give(config, 300, engine);
    assert_int_equal(cudnnBackendGetAttribute(config, 303, INT64, 1, &count, &bytes), 0);
    assert_int_equal(bytes, 0);
    assert_int_not_equal(cudnnBackendSetAttribute(config, 902, INT64, INT64_MAX / 4, pairs), 0);
    assert_int_equal(cudnnBackendGetAttribute(config, 405, CHAR, -1, &count, &bytes), 0);
    cudnnBackendDestroyDescriptor(config);
}

TEST(filters_of_more_channels_than_there_are_divide_by_nothing)
{
    struct line line = {"forward", "f32", "8x3x7x7", "64x64x1x1", "8x64x7x7", "0x0", "1x1", "1x1", 0};
    assert_true(workspace(&line) >= 0);
}

TEST(fewer_dimensions_than_none_are_none)
{
    const int dims[] = {1, 2, 3};
    int got[3] = {7, 7, 7}, data, rank;
    void *x;
    cudnnCreateTensorDescriptor(&x);
    cudnnSetTensorNdDescriptor(x, FLOAT, 3, dims, dims);
    assert_int_equal(cudnnGetTensorNdDescriptor(x, -1, &data, &rank, got, got), 0);
    assert_int_equal(got[0], 7);
    cudnnDestroyTensorDescriptor(x);
}
