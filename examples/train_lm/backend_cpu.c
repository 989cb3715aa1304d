/*
 * backend_cpu.c - the model's arithmetic on the CPU, over device addresses that are host addresses.  Each
 * range of rows is computed by one thread in a fixed order: results do not depend on the number of cores.
 */
#include "backend_cpu.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#define MAX_THREADS 32

static float *floats(CUdeviceptr address)
{
    return (float *)(uintptr_t)address;
}

static const int32_t *integers(CUdeviceptr address)
{
    return (const int32_t *)(uintptr_t)address;
}

/* ---- ranges of rows on threads ---- */

struct share {
    cpu_rows *work;
    const void *call;
    int begin, end;
};

static void *run_share(void *argument)
{
    const struct share *s = argument;
    s->work(s->call, s->begin, s->end);
    return NULL;
}

void cpu_parallel(cpu_rows *work, const void *call, int rows, int grain)
{
    struct share share[MAX_THREADS];
    pthread_t thread[MAX_THREADS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int shares = cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (int)cores;
    if (shares > rows / grain)
        shares = rows / grain > 0 ? rows / grain : 1;
    int chunk = (rows / shares + grain - 1) / grain * grain, started = 0;
    for (int begin = 0; begin < rows; begin += chunk) {
        struct share *s = &share[started];
        *s = (struct share){work, call, begin, begin + chunk < rows ? begin + chunk : rows};
        if (s->end < rows && started < MAX_THREADS - 1 &&
            pthread_create(&thread[started], NULL, run_share, s) == 0)
            started++;
        else
            run_share(s); /* the last share, or no thread to be had: here */
    }
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
}

/* ---- embedding ---- */

struct rows_call {
    float *out;
    const float *in, *other;
    const int32_t *index, *starts;
    float *losses;
    int rows, width;
};

static void gather_rows(const void *call, int begin, int end)
{
    const struct rows_call *c = call;
    for (int r = begin; r < end; r++)
        for (int i = 0; i < c->width; i++)
            c->out[(size_t)r * c->width + i] = c->in[(size_t)c->index[r] * c->width + i];
}

static void cpu_gather(CUdeviceptr out, CUdeviceptr table, CUdeviceptr ids, int rows, int width)
{
    struct rows_call c = {.out = floats(out), .in = floats(table), .index = integers(ids), .width = width};
    cpu_parallel(gather_rows, &c, rows, 64);
}

static void scatter_rows(const void *call, int begin, int end)
{
    const struct rows_call *c = call;
    for (int v = begin; v < end; v++) {
        float *out = &c->out[(size_t)v * c->width];
        for (int i = 0; i < c->width; i++)
            out[i] = 0;
        for (int at = c->starts[v]; at < c->starts[v + 1]; at++) {
            const float *in = &c->in[(size_t)c->index[at] * c->width];
            for (int i = 0; i < c->width; i++)
                out[i] += in[i];
        }
    }
}

static void cpu_scatter(CUdeviceptr table, CUdeviceptr in, CUdeviceptr order, CUdeviceptr starts, int entries,
                        int width)
{
    struct rows_call c = {.out = floats(table),
                          .in = floats(in),
                          .index = integers(order),
                          .starts = integers(starts),
                          .width = width};
    cpu_parallel(scatter_rows, &c, entries, 64);
}

/* ---- layers ---- */

#define GELU_A 0.7978845608f /* sqrt(2 / pi) */
#define GELU_B 0.044715f

static void cpu_bias_gelu(CUdeviceptr out, CUdeviceptr pre, CUdeviceptr bias, CUdeviceptr skip, int rows,
                          int width)
{
    float *y = floats(out), *z = floats(pre);
    const float *b = floats(bias), *s = floats(skip);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < width; c++) {
            size_t i = (size_t)r * (size_t)width + (size_t)c;
            float x = z[i] += b[c];
            y[i] = 0.5f * x * (1 + tanhf(GELU_A * (x + GELU_B * x * x * x))) + (s ? s[i] : 0);
        }
}

static void cpu_gelu_backward(CUdeviceptr dpre, CUdeviceptr dout, CUdeviceptr pre, size_t count)
{
    float *dz = floats(dpre);
    const float *dy = floats(dout), *z = floats(pre);
    for (size_t i = 0; i < count; i++) {
        float x = z[i], t = tanhf(GELU_A * (x + GELU_B * x * x * x));
        float slope = 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * GELU_A * (1 + 3 * GELU_B * x * x);
        dz[i] = dy[i] * slope;
    }
}

static void cpu_column_sum(CUdeviceptr out, CUdeviceptr in, int rows, int width)
{
    float *sum = floats(out);
    const float *x = floats(in);
    for (int c = 0; c < width; c++)
        sum[c] = 0;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < width; c++)
            sum[c] += x[(size_t)r * (size_t)width + (size_t)c];
}

/* ---- loss ---- */

static void log_softmax_rows(const void *call, int begin, int end)
{
    const struct rows_call *c = call;
    for (int r = begin; r < end; r++) {
        const float *x = &c->in[(size_t)r * c->width];
        float *y = &c->out[(size_t)r * c->width];
        float top = x[0];
        for (int i = 1; i < c->width; i++)
            top = x[i] > top ? x[i] : top;
        double sum = 0;
        for (int i = 0; i < c->width; i++)
            sum += expf(x[i] - top);
        float shift = top + (float)log(sum);
        for (int i = 0; i < c->width; i++)
            y[i] = x[i] - shift;
        c->losses[r] = -y[c->index[r]];
    }
}

static void cpu_log_softmax(CUdeviceptr out, CUdeviceptr losses, CUdeviceptr in, CUdeviceptr targets,
                            int rows, int width)
{
    struct rows_call c = {.out = floats(out),
                          .in = floats(in),
                          .index = integers(targets),
                          .losses = floats(losses),
                          .width = width};
    cpu_parallel(log_softmax_rows, &c, rows, 4);
}

static void log_softmax_backward_rows(const void *call, int begin, int end)
{
    const struct rows_call *c = call;
    for (int r = begin; r < end; r++) {
        const float *x = &c->in[(size_t)r * c->width];
        float *y = &c->out[(size_t)r * c->width];
        for (int i = 0; i < c->width; i++)
            y[i] = expf(x[i]) / (float)c->rows;
        y[c->index[r]] -= 1 / (float)c->rows;
    }
}

static void cpu_log_softmax_backward(CUdeviceptr din, CUdeviceptr log_probability, CUdeviceptr targets,
                                     int rows, int width)
{
    struct rows_call c = {.out = floats(din),
                          .in = floats(log_probability),
                          .index = integers(targets),
                          .rows = rows,
                          .width = width};
    cpu_parallel(log_softmax_backward_rows, &c, rows, 4);
}

/* ---- optimizer ---- */

static void cpu_adamw(const struct adamw *c)
{
    float *w = floats(c->weight), *m = floats(c->mean), *v = floats(c->variance);
    const float *g = floats(c->gradient);
    float correct_mean = 1 - powf(ADAMW_BETA1, (float)c->step),
          correct = 1 - powf(ADAMW_BETA2, (float)c->step);
    for (size_t i = 0; i < c->count; i++) {
        m[i] = ADAMW_BETA1 * m[i] + (1 - ADAMW_BETA1) * g[i];
        v[i] = ADAMW_BETA2 * v[i] + (1 - ADAMW_BETA2) * g[i] * g[i];
        w[i] -= c->rate * (m[i] / correct_mean / (sqrtf(v[i] / correct) + ADAMW_EPSILON) + c->decay * w[i]);
    }
}

static void cpu_close(void) {}

const struct backend *backend_cpu(void)
{
    static const struct backend table = {
        .name = "cpu",
        .gather = cpu_gather,
        .scatter = cpu_scatter,
        .matmul = cpu_matmul,
        .bias_gelu = cpu_bias_gelu,
        .gelu_backward = cpu_gelu_backward,
        .column_sum = cpu_column_sum,
        .log_softmax = cpu_log_softmax,
        .log_softmax_backward = cpu_log_softmax_backward,
        .adamw = cpu_adamw,
        .close = cpu_close,
    };
    return &table;
}
