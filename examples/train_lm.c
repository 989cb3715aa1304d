/*
 * train_lm.c - trains a small language model through the CUDA driver API, its phases marked for vramscope.
 *
 *      train_lm [--steps N] [--batch N] [--vocab N] ... [TEXT]
 *      vramscope run -o run.db -- train_lm
 *
 * It is the workload of the quickstart: no framework, every byte a cuMemAlloc of its own, so that what
 * vramscope shows can be checked by hand (what an iteration allocates: train_lm/model.h and loss.c).  A real
 * GPU runs train_lm/kernels.cu; on the simulated driver, whose device memory is host memory, the CPU computes
 * the same.
 */
#include <stdio.h>
#include <time.h>

#include "train_lm/model.h"
#include "train_lm/options.h"
#include "vramscope.h"

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The mean losses of the first and of the last tenth of the run. */
struct trend {
    double first, last;
    int window;
};

static void trend_add(struct trend *t, int step, int steps, double loss)
{
    if (step <= t->window)
        t->first += loss / t->window;
    if (step > steps - t->window)
        t->last += loss / t->window;
}

static struct trend train(struct model *model, const struct options *o, const struct text *text,
                          uint64_t *random)
{
    struct trend trend = {.window = o->steps < 10 ? 1 : o->steps / 10};
    struct batch batch;
    batch_init(&batch, o->shape.rows, o->shape.context);
    for (int step = 1; step <= o->steps; step++) {
        batch_next(&batch, text, random);
        double loss = model_step(model, &batch);
        trend_add(&trend, step, o->steps, loss);
        if (step == 1 || step % o->report == 0 || step == o->steps) {
            printf("step %4d  loss %.4f\n", step, loss);
            fflush(stdout);
        }
    }
    batch_free(&batch);
    return trend;
}

static int verdict(struct trend trend, double duration, int steps)
{
    int fell = trend.last < 0.9 * trend.first;
    printf("%s: loss %.3f -> %.3f in %d steps, %.2f s\n", fell ? "ok" : "fail: the loss did not fall",
           trend.first, trend.last, steps, duration);
    return fell ? 0 : 1;
}

static int run(const struct driver *driver, const struct backend *backend, const struct options *o,
               const struct text *text)
{
    uint64_t random = (uint64_t)o->seed;
    struct model model = {
        .shape = o->shape, .cu = driver, .backend = backend, .loss = o->loss, .rate = (float)o->rate};
    model_init(&model, &random);
    printf("%s, computing with %s; %s: %d tokens, %d of %d in use; %.2f M parameters; %s loss\n",
           driver->name, backend->name, o->text, text->count, text->used, o->shape.vocab,
           (double)model_parameters(&model) / 1e6, o->loss->name);
    double begin = seconds();
    struct trend trend = train(&model, o, text, &random);
    int status = verdict(trend, seconds() - begin, o->steps);
    model_free(&model);
    return status;
}

int main(int argc, char **argv)
{
    struct options options;
    options_parse(&options, argc, argv);
    struct text text = {0};
    if (!options.device_only)
        text_read(&text, options.text, options.shape.vocab, options.shape.context);
    struct driver driver;
    if (!driver_open(&driver))
        return 1;
    const struct backend *backend = driver.simulated ? backend_cpu() : backend_cuda(&driver);
    if (!backend)
        return 1;
    if (options.loss->usable && !options.loss->usable(&driver))
        return 1;
    int status = 0;
    if (options.device_only)
        puts(driver.name);
    else
        status = run(&driver, backend, &options, &text);
    text_free(&text);
    backend->close();
    driver_close(&driver);
    return status;
}
