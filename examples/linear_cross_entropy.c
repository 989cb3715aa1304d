/*
 * linear_cross_entropy.c - a whole program that uses linear_cross_entropy.h: trains an output layer on one
 * batch.
 *
 *     cc linear_cross_entropy.c $(pkg-config --cflags --libs linear_cross_entropy)
 *
 * It runs on the CPU.  For a GPU make a context current, open LCE_CUDA, allocate buffers and workspace on the
 * device, give your stream, and wait for it before you read the loss.
 */
#include <linear_cross_entropy.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 6, HIDDEN = 4, VOCAB = 10, STEPS = 50 };

static _Alignas(16) float input[TOKENS][HIDDEN];
static _Alignas(16) float weight[VOCAB][HIDDEN];
static _Alignas(16) float grad_weight[VOCAB][HIDDEN];
static const int64_t labels[TOKENS] = {3, 1, 4, 1, -100, 9}; /* -100: this token does not count */

static void check(int status)
{
    if (status == LCE_OK)
        return;
    fprintf(stderr, "%s: %s\n", lce_status_name(status), lce_message());
    exit(1);
}

static struct lce_plan *make_plan(struct lce *library)
{
    struct lce_problem problem;
    struct lce_plan *plan;
    lce_problem_init(&problem); /* bf16, int64 labels, mean, ignore_index -100, no options */
    problem.tokens = TOKENS;
    problem.hidden = HIDDEN;
    problem.vocab = VOCAB;
    problem.dtype = LCE_F32;
    problem.wants = LCE_WANT_LOSS | LCE_WANT_GRAD_WEIGHT;
    check(lce_plan_create(library, &problem, LCE_AUTO, 0, &plan));
    return plan;
}

int main(void)
{
    struct lce *library;
    float loss = 0;
    int32_t error_flag = 0;
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        input[i / HIDDEN][i % HIDDEN] = (float)(i * 7 % 11) / 5 - 1;

    check(lce_open(LCE_CPU, &library));
    struct lce_plan *plan = make_plan(library);
    size_t size = lce_plan_info(plan)->workspace_size;
    struct lce_buffers buffers = {.input = input,
                                  .weight = weight,
                                  .labels = labels,
                                  .loss = &loss,
                                  .grad_weight = grad_weight,
                                  .error_flag = &error_flag,
                                  .workspace = aligned_alloc(64, (size + 63) / 64 * 64),
                                  .workspace_size = size};
    for (int step = 0; step < STEPS; step++) {
        check(lce_run(plan, &buffers, NULL));
        if (step == 0 || step == STEPS - 1)
            printf("step %2d: loss %.4f\n", step, (double)loss);
        for (int i = 0; i < VOCAB * HIDDEN; i++)
            weight[i / HIDDEN][i % HIDDEN] -= 2 * grad_weight[i / HIDDEN][i % HIDDEN];
    }
    if (error_flag & LCE_DEVICE_LABEL)
        fprintf(stderr, "a label is out of range\n");
    free(buffers.workspace);
    lce_plan_destroy(plan);
    lce_close(library);
    return error_flag != 0;
}
