/*
 * test_train_lm.c - the example's model: its gradients are those of its loss, and its memory is what it says.
 *
 * The driver is a table of functions, so here it is one over malloc that counts; the optimizer of the CPU
 * back end is replaced by one that writes the gradients down and changes nothing.
 */
#include <math.h>

#include "unit/test.h"
#include "model.h"

static size_t live_bytes, peak_bytes, live_count;

static CUresult counted_alloc(CUdeviceptr *address, size_t size)
{
    size_t *block = aligned_alloc(256, (size + 256 + 255) / 256 * 256); /* as the driver aligns */
    assert_non_null(block);
    *block = size;
    *address = (CUdeviceptr)(uintptr_t)block + 256;
    memset((void *)(uintptr_t)*address, 0xff, size); /* fresh memory is NaN: what is not written shows */
    live_bytes += size;
    live_count++;
    peak_bytes = live_bytes > peak_bytes ? live_bytes : peak_bytes;
    return CUDA_SUCCESS;
}

static CUresult counted_free(CUdeviceptr address)
{
    size_t *block = (size_t *)(uintptr_t)(address - 256);
    live_bytes -= *block;
    live_count--;
    free(block);
    return CUDA_SUCCESS;
}

static CUresult copy_in(CUdeviceptr to, const void *from, size_t size)
{
    memcpy((void *)(uintptr_t)to, from, size);
    return CUDA_SUCCESS;
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t size)
{
    memcpy(to, (void *)(uintptr_t)from, size);
    return CUDA_SUCCESS;
}

static CUresult fill(CUdeviceptr to, unsigned char value, size_t size)
{
    memset((void *)(uintptr_t)to, value, size);
    return CUDA_SUCCESS;
}

static CUresult synchronize(void)
{
    return CUDA_SUCCESS;
}

static const struct driver host_driver = {.simulated = true,
                                          .mem_alloc = counted_alloc,
                                          .mem_free = counted_free,
                                          .copy_in = copy_in,
                                          .copy_out = copy_out,
                                          .fill = fill,
                                          .synchronize = synchronize};

/* ---- a back end that keeps the gradients ---- */

static struct {
    CUdeviceptr weight;
    float *gradient;
} kept[64];
static int kept_count;

static void keep_gradient(const struct adamw *call)
{
    size_t size = call->count * sizeof(float);
    kept[kept_count].weight = call->weight;
    kept[kept_count].gradient = malloc(size);
    memcpy(kept[kept_count++].gradient, (void *)(uintptr_t)call->gradient, size);
}

static void forget_gradients(void)
{
    while (kept_count > 0)
        free(kept[--kept_count].gradient);
}

static const float *gradient_of(CUdeviceptr weight)
{
    for (int i = 0; i < kept_count; i++)
        if (kept[i].weight == weight)
            return kept[i].gradient;
    fail_msg("no gradient was made");
    return NULL;
}

static const struct model_shape tiny = {.vocab = 11, .context = 3, .hidden = 8, .layers = 3, .rows = 7};

static int32_t windows[7 * 3] = {0, 1, 2, 3, 3, 3, 4, 0, 10, 1, 1, 5, 9, 8, 7, 6, 5, 4, 10, 10, 0};
static int32_t targets[7] = {3, 0, 10, 5, 5, 2, 1};
static const struct batch batch = {.rows = 7, .context = 3, .window = windows, .target = targets};

static struct model make_with(const char *loss, const struct backend *backend)
{
    struct model model = {
        .shape = tiny, .cu = &host_driver, .backend = backend, .loss = loss_named(loss), .rate = 0.01f};
    uint64_t random = 7;
    live_bytes = peak_bytes = live_count = 0;
    model_init(&model, &random);
    return model;
}

static struct model make(const struct backend *backend)
{
    return make_with("naive", backend);
}

static void check_parameter(struct model *m, const struct parameter *p)
{
    float *weight = (float *)(uintptr_t)p->weight;
    const float h = 0.01f;
    for (size_t i = 0; i < p->count; i++) {
        forget_gradients();
        model_step(m, &batch);
        double gradient = gradient_of(p->weight)[i];
        float before = weight[i];
        weight[i] = before + h;
        double above = model_step(m, &batch);
        weight[i] = before - h;
        double below = model_step(m, &batch);
        weight[i] = before;
        double slope = (above - below) / (2 * (double)h);
        if (fabs(slope - gradient) > 2e-3 + 0.01 * fabs(slope))
            fail_msg("%s[%zu]: gradient %g, slope of the loss %g", p->name, i, gradient, slope);
    }
}

static void gradients_are_the_slopes(const char *loss)
{
    struct backend backend = *backend_cpu();
    backend.adamw = keep_gradient;
    struct model m = make_with(loss, &backend);
    check_parameter(&m, &m.embedding);
    check_parameter(&m, &m.output);
    for (int l = 0; l < tiny.layers; l++) {
        check_parameter(&m, &m.matrix[l]);
        check_parameter(&m, &m.bias[l]);
    }
    forget_gradients();
    model_free(&m);
}

TEST(gradients_are_the_slopes_of_the_naive_loss)
{
    gradients_are_the_slopes("naive");
}

TEST(gradients_are_the_slopes_of_the_fused_loss)
{
    gradients_are_the_slopes("fused");
}

TEST(a_step_leaves_weights_and_moments_alone)
{
    struct model m = make(backend_cpu());
    size_t weights = model_parameters(&m) * sizeof(float);
    assert_int_equal(live_bytes, weights);
    double first = model_step(&m, &batch);
    assert_int_equal(live_bytes, 3 * weights);
    for (int i = 0; i < 100; i++)
        model_step(&m, &batch);
    assert_int_equal(live_bytes, 3 * weights);
    assert_true(model_step(&m, &batch) < first / 2);
    model_free(&m);
    assert_int_equal(live_count, 0);
}

TEST(both_losses_train_alike)
{
    struct model naive = make(backend_cpu()), fused = make_with("fused", backend_cpu());
    for (int i = 0; i < 50; i++) {
        double one = model_step(&naive, &batch), other = model_step(&fused, &batch);
        if (fabs(one - other) > 1e-3 * one + 1e-5)
            fail_msg("step %d: naive %g, fused %g", i, one, other);
    }
    model_free(&naive);
    model_free(&fused);
}

/* Bytes that a step needs beyond what lives between steps, with the vocabulary given. */
static size_t step_peak(const char *loss, int vocab, int rows)
{
    struct model m = make_with(loss, backend_cpu());
    model_free(&m);
    m.shape.vocab = vocab;
    m.shape.rows = rows;
    uint64_t random = 7;
    model_init(&m, &random);
    int32_t *token = calloc((size_t)rows * 4, sizeof *token);
    struct batch large = {.rows = rows, .context = 3, .window = token, .target = token + rows * 3};
    model_step(&m, &large); /* makes the moments */
    size_t before = peak_bytes = live_bytes;
    model_step(&m, &large);
    size_t peak = peak_bytes - before;
    model_free(&m);
    free(token);
    assert_int_equal(live_count, 0);
    return peak;
}

/* Of the logits the fused loss holds a sixteenth; the rest of its peak is gradients and activations. */
TEST(the_fused_loss_holds_a_sixteenth_of_the_logits)
{
    size_t logits = (size_t)64 * 4096 * sizeof(float), gradients = (size_t)4096 * 8 * sizeof(float);
    size_t naive = step_peak("naive", 4096, 64), fused = step_peak("fused", 4096, 64);
    assert_true(naive >= 2 * logits);
    assert_true(fused >= logits / 16);
    assert_true(fused < logits / 16 + 2 * gradients);
}

/* With a large vocabulary the peak is the two matrices of logits that live at once, and little else. */
TEST(the_naive_loss_holds_two_logits_matrices)
{
    struct model m = make(backend_cpu());
    model_free(&m);
    m.shape.vocab = 4096;
    uint64_t random = 7;
    model_init(&m, &random);
    model_step(&m, &batch); /* makes the moments */
    peak_bytes = live_bytes;
    size_t before = live_bytes;
    model_step(&m, &batch);
    size_t logits = (size_t)tiny.rows * 4096 * sizeof(float), peak = peak_bytes - before;
    assert_true(peak >= 2 * logits);
    assert_true(peak < 3 * logits + 2 * model_parameters(&m) * sizeof(float));
    model_free(&m);
    assert_int_equal(live_count, 0);
}

/* A product through the vector blocks, the edges and all transpositions, against the plain sum. */
TEST(products_agree_with_plain_sums)
{
    enum { M = 37, N = 53, K = 29 };
    static float a[M * K], b[K * N], out[M * N];
    for (int i = 0; i < M * K; i++)
        a[i] = (float)(i * 7 % 13 - 6);
    for (int i = 0; i < K * N; i++)
        b[i] = (float)(i * 5 % 11 - 5);
    for (int way = 0; way < 8; way++) {
        bool ta = way & 1, tb = way & 2, add = way & 4;
        for (int i = 0; i < M * N; i++)
            out[i] = 100;
        backend_cpu()->matmul(
            &(struct matmul){(uintptr_t)out, (uintptr_t)a, (uintptr_t)b, M, N, K, ta, tb, add});
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                float sum = add ? 100 : 0; /* small whole numbers: exact in any order */
                for (int k = 0; k < K; k++)
                    sum += (ta ? a[k * M + i] : a[i * K + k]) * (tb ? b[j * K + k] : b[k * N + j]);
                assert_true(out[i * N + j] == sum);
            }
    }
}
