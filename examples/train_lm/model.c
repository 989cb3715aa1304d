/* model.c - the model's memory and its training step; see model.h. */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vramscope.h"

/* Calls VISIT for every parameter. */
static void each_parameter(struct model *m, void (*visit)(struct model *, struct parameter *))
{
    visit(m, &m->embedding);
    for (int l = 0; l < m->shape.layers; l++) {
        visit(m, &m->matrix[l]);
        visit(m, &m->bias[l]);
    }
    visit(m, &m->output);
}

static CUdeviceptr upload(const struct model *m, const int32_t *from, size_t count, const char *what)
{
    CUdeviceptr to = driver_bytes(m->cu, count * sizeof *from, what);
    driver_check(m->cu, m->cu->copy_in(to, from, count * sizeof *from), what);
    return to;
}

/* Uniform in +-LIMIT; 0 makes zeros. */
static void create(struct model *m, struct parameter *p, const char *name, size_t count, double limit,
                   uint64_t *random)
{
    *p = (struct parameter){.name = name, .count = count};
    float *host = malloc(count * sizeof *host);
    if (!host) {
        fprintf(stderr, "train_lm: no host memory for %s\n", name);
        exit(1);
    }
    for (size_t i = 0; i < count; i++)
        host[i] = (float)(((double)(random_next(random) >> 11) / (double)(1ull << 53) * 2 - 1) * limit);
    p->weight = driver_floats(m->cu, count, name);
    driver_check(m->cu, m->cu->copy_in(p->weight, host, count * sizeof *host), name);
    free(host);
}

void model_init(struct model *m, uint64_t *random)
{
    const struct model_shape *s = &m->shape;
    size_t hidden = (size_t)s->hidden;
    create(m, &m->embedding, "embedding", (size_t)s->vocab * hidden, 0.5, random);
    for (int l = 0; l < s->layers; l++) {
        size_t in = l == 0 ? (size_t)s->context * hidden : hidden;
        create(m, &m->matrix[l], "layer weight", in * hidden, sqrt(3.0 / (double)in), random);
        create(m, &m->bias[l], "layer bias", hidden, 0, random);
    }
    create(m, &m->output, "output head", (size_t)s->vocab * hidden, 1 / sqrt((double)hidden), random);
}

static void forward(struct model *m, const struct batch *batch)
{
    const struct model_shape *s = &m->shape;
    size_t activation = (size_t)s->rows * (size_t)s->hidden;
    int wide = s->context * s->hidden;
    m->ids = upload(m, batch->window, (size_t)s->rows * (size_t)s->context, "token ids");
    m->targets = upload(m, batch->target, (size_t)s->rows, "targets");
    m->x = driver_floats(m->cu, activation * (size_t)s->context, "embedded window");
    m->backend->gather(m->x, m->embedding.weight, m->ids, s->rows * s->context, s->hidden);
    for (int l = 0; l < s->layers; l++) {
        CUdeviceptr in = l == 0 ? m->x : m->out[l - 1];
        m->pre[l] = driver_floats(m->cu, activation, "layer input");
        m->backend->matmul(&(struct matmul){.out = m->pre[l],
                                            .a = in,
                                            .b = m->matrix[l].weight,
                                            .m = s->rows,
                                            .n = s->hidden,
                                            .k = l == 0 ? wide : s->hidden});
        m->out[l] = driver_floats(m->cu, activation, "layer output");
        m->backend->bias_gelu(m->out[l], m->pre[l], m->bias[l].weight, l == 0 ? 0 : in, s->rows, s->hidden);
    }
    driver_free(m->cu, &m->ids);
}

static void new_gradient(struct model *m, struct parameter *p)
{
    p->gradient = driver_floats(m->cu, p->count, p->name);
}

/* From DOUT, the gradient of layer L's output, to the layer's own gradients; leaves the gradient of its
 * product in the returned buffer. */
static CUdeviceptr backward_layer(struct model *m, int l, CUdeviceptr in, int width, CUdeviceptr dout)
{
    const struct model_shape *s = &m->shape;
    size_t activation = (size_t)s->rows * (size_t)s->hidden;
    CUdeviceptr dpre = driver_floats(m->cu, activation, "gradient of a layer");
    m->backend->gelu_backward(dpre, dout, m->pre[l], activation);
    driver_free(m->cu, &m->pre[l]);
    new_gradient(m, &m->matrix[l]);
    m->backend->matmul(&(struct matmul){.out = m->matrix[l].gradient,
                                        .a = in,
                                        .b = dpre,
                                        .m = width,
                                        .n = s->hidden,
                                        .k = s->rows,
                                        .transpose_a = true});
    new_gradient(m, &m->bias[l]);
    m->backend->column_sum(m->bias[l].gradient, dpre, s->rows, s->hidden);
    return dpre;
}

/* Which rows of the embedded window came from which token, so that the device can add them up in a fixed
 * order: rows sorted by token (order), and where each token's begin (starts). */
static void backward_embedding(struct model *m, const struct batch *batch, CUdeviceptr dx)
{
    int rows = m->shape.rows * m->shape.context, vocab = m->shape.vocab;
    int32_t *starts = calloc((size_t)vocab + 2, sizeof *starts);
    int32_t *order = malloc((size_t)rows * sizeof *order);
    if (!starts || !order) {
        fprintf(stderr, "train_lm: no host memory to sort %d tokens\n", rows);
        exit(1);
    }
    for (int i = 0; i < rows; i++)
        starts[batch->window[i] + 2]++;
    for (int v = 1; v <= vocab + 1; v++)
        starts[v] += starts[v - 1];
    for (int i = 0; i < rows; i++) /* moves starts[v + 1] from the begin of v to its end */
        order[starts[batch->window[i] + 1]++] = i;
    CUdeviceptr device_order = upload(m, order, (size_t)rows, "token order");
    CUdeviceptr device_starts = upload(m, starts, (size_t)vocab + 1, "token starts");
    new_gradient(m, &m->embedding);
    m->backend->scatter(m->embedding.gradient, dx, device_order, device_starts, vocab, m->shape.hidden);
    driver_free(m->cu, &device_starts);
    driver_free(m->cu, &device_order);
    free(order);
    free(starts);
}

static void backward_hidden(struct model *m, const struct batch *batch, CUdeviceptr dout)
{
    const struct model_shape *s = &m->shape;
    for (int l = s->layers - 1; l > 0; l--) {
        CUdeviceptr dpre = backward_layer(m, l, m->out[l - 1], s->hidden, dout);
        m->backend->matmul(&(struct matmul){.out = dout, /* the skip's share is there: add the layer's */
                                            .a = dpre,
                                            .b = m->matrix[l].weight,
                                            .m = s->rows,
                                            .n = s->hidden,
                                            .k = s->hidden,
                                            .transpose_b = true,
                                            .add = true});
        driver_free(m->cu, &dpre);
        driver_free(m->cu, &m->out[l - 1]);
    }
    int wide = s->context * s->hidden;
    CUdeviceptr dpre = backward_layer(m, 0, m->x, wide, dout);
    driver_free(m->cu, &m->x);
    CUdeviceptr dx = driver_floats(m->cu, (size_t)s->rows * (size_t)wide, "gradient of the window");
    m->backend->matmul(&(struct matmul){.out = dx,
                                        .a = dpre,
                                        .b = m->matrix[0].weight,
                                        .m = s->rows,
                                        .n = wide,
                                        .k = s->hidden,
                                        .transpose_b = true});
    driver_free(m->cu, &dpre);
    backward_embedding(m, batch, dx);
    driver_free(m->cu, &dx);
}

static void backward(struct model *m, const struct batch *batch, struct loss_call *call)
{
    const struct model_shape *s = &m->shape;
    CUdeviceptr dout =
        driver_floats(m->cu, (size_t)s->rows * (size_t)s->hidden, "gradient of the last layer");
    new_gradient(m, &m->output);
    m->loss->backward(call, dout, m->output.gradient);
    driver_free(m->cu, &m->out[s->layers - 1]);
    driver_free(m->cu, &m->targets);
    backward_hidden(m, batch, dout);
    driver_free(m->cu, &dout);
}

static void update(struct model *m, struct parameter *p)
{
    if (!p->mean) { /* the first step of all makes the moments */
        p->mean = driver_floats(m->cu, p->count, "AdamW mean");
        p->variance = driver_floats(m->cu, p->count, "AdamW variance");
        driver_check(m->cu, m->cu->fill(p->mean, 0, p->count * sizeof(float)), "clearing AdamW's mean");
        driver_check(m->cu, m->cu->fill(p->variance, 0, p->count * sizeof(float)),
                     "clearing AdamW's variance");
    }
    m->backend->adamw(&(struct adamw){.weight = p->weight,
                                      .gradient = p->gradient,
                                      .mean = p->mean,
                                      .variance = p->variance,
                                      .count = p->count,
                                      .rate = m->rate,
                                      .decay = 0.01f,
                                      .step = m->step});
    driver_free(m->cu, &p->gradient);
}

double model_step(struct model *m, const struct batch *batch)
{
    m->step++;
    vramscope_range_push("forward");
    forward(m, batch);
    vramscope_range_pop();

    vramscope_range_push("logits");
    struct loss_call call = {.cu = m->cu,
                             .backend = m->backend,
                             .hidden = m->out[m->shape.layers - 1],
                             .weight = m->output.weight,
                             .targets = m->targets,
                             .rows = m->shape.rows,
                             .width = m->shape.hidden,
                             .vocab = m->shape.vocab};
    double loss = m->loss->forward(&call);
    vramscope_range_pop();

    vramscope_range_push("backward");
    backward(m, batch, &call);
    vramscope_range_pop();

    vramscope_range_push("optimizer");
    each_parameter(m, update);
    driver_check(m->cu, m->cu->synchronize(), "waiting for the step");
    vramscope_range_pop();
    vramscope_step();
    return loss;
}

size_t model_parameters(const struct model *m)
{
    size_t count = m->embedding.count + m->output.count;
    for (int l = 0; l < m->shape.layers; l++)
        count += m->matrix[l].count + m->bias[l].count;
    return count;
}

static void release(struct model *m, struct parameter *p)
{
    driver_free(m->cu, &p->weight);
    driver_free(m->cu, &p->mean);
    driver_free(m->cu, &p->variance);
}

void model_free(struct model *m)
{
    each_parameter(m, release);
}
