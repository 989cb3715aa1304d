/*
 * api.c - the functions of linear_cross_entropy.h that are the same for every back end: checks, then the
 * table.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

static _Thread_local char message[320];

int lce_fail(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return status;
}

const char *lce_message(void)
{
    return message;
}

const char *lce_status_name(int status)
{
    static const char *const names[] = {
        [LCE_OK] = "ok",
        [LCE_BAD_ARGUMENT] = "bad argument",
        [LCE_BAD_DTYPE] = "unsupported type",
        [LCE_MISALIGNED] = "misaligned address",
        [LCE_WORKSPACE_TOO_SMALL] = "workspace too small",
        [LCE_BUDGET_TOO_SMALL] = "budget too small",
        [LCE_TOO_LARGE] = "too large",
        [LCE_BACKEND_MISSING] = "back end missing",
        [LCE_OUT_OF_MEMORY] = "out of host memory",
        [LCE_DEVICE_ERROR] = "device error",
        [LCE_GEMM_ERROR] = "matrix product error",
        [LCE_EXCHANGE_FAILED] = "exchange failed",
    };
    return status >= 0 && (size_t)status < sizeof names / sizeof *names ? names[status] : "unknown status";
}

int lce_tell(const struct lce_plan *plan, const struct lce_buffers *b, int step, int64_t first, int64_t count,
             void *stream)
{
    static const char *const names[] = {"START", "FINISH", "INPUT"};
    if (step == LCE_EXCHANGE_INPUT && !(plan->problem.wants & LCE_WANT_GRAD_INPUT))
        return LCE_OK;
    const int answer = count > 0 ? b->exchange(b->exchange_context, step, first, count, stream) : 0;
    return answer ? lce_fail(LCE_EXCHANGE_FAILED,
                             "lce_run: the caller's exchange returned %d for LCE_EXCHANGE_%s of %lld rows "
                             "from %lld on",
                             answer, names[step], (long long)count, (long long)first)
                  : LCE_OK;
}

int lce_open(int backend, struct lce **library)
{
    if (!library)
        return lce_fail(LCE_BAD_ARGUMENT, "lce_open: no place for the library is given");
    *library = NULL;
    switch (backend) {
    case LCE_CPU:
        return lce_cpu_open(library);
    case LCE_CUDA:
        return lce_cuda_open(library);
    }
    return lce_fail(LCE_BAD_ARGUMENT, "lce_open: back end %d is unknown; use LCE_CPU or LCE_CUDA", backend);
}

void lce_close(struct lce *library)
{
    if (library)
        library->operations->close(library);
}

/* Makes the plan of MODE, or of LCE_LEAN where the budget is too small for LCE_FAST's. */
static int plan_within(struct lce *library, const struct lce_problem *problem, int mode, int64_t chunk,
                       uint64_t budget, struct lce_plan **plan)
{
    const int wanted = mode == LCE_AUTO ? LCE_FAST : mode;
    const int status = library->operations->plan_create(library, problem, wanted, chunk, plan);
    if (status)
        return status;
    const uint64_t size = (*plan)->info.workspace_size;
    if (!budget || size <= budget)
        return LCE_OK;
    lce_plan_destroy(*plan);
    *plan = NULL;
    if (wanted == LCE_FAST)
        return plan_within(library, problem, LCE_LEAN, chunk, budget, plan);
    return lce_fail(LCE_BUDGET_TOO_SMALL, "lce_plan_create: a budget of %llu bytes; LCE_LEAN needs %llu",
                    (unsigned long long)budget, (unsigned long long)size);
}

int lce_plan_create_chunk(struct lce *library, const struct lce_problem *problem, int mode, int64_t chunk,
                          uint64_t budget, struct lce_plan **plan)
{
    if (!library || !problem || !plan)
        return lce_fail(LCE_BAD_ARGUMENT, "lce_plan_create: library, problem or plan is NULL");
    *plan = NULL;
    if (mode < LCE_AUTO || mode > LCE_LEAN)
        return lce_fail(LCE_BAD_ARGUMENT, "lce_plan_create: mode %d is %s", mode,
                        mode == 3 ? "that of LCE_NAIVE, which is gone; use LCE_FAST"
                                  : "unknown; use one of enum lce_mode");
    if (chunk < 0)
        return lce_fail(LCE_BAD_ARGUMENT,
                        "lce_plan_create: a chunk of %lld tokens; give 1 or more, or 0 to have it chosen",
                        (long long)chunk);
    struct lce_problem complete;
    const int status = lce_problem_check(problem, &complete);
    return status ? status : plan_within(library, &complete, mode, chunk, budget, plan);
}

int lce_plan_create(struct lce *library, const struct lce_problem *problem, int mode, uint64_t budget,
                    struct lce_plan **plan)
{
    return lce_plan_create_chunk(library, problem, mode, 0, budget, plan);
}

void lce_plan_destroy(struct lce_plan *plan)
{
    if (plan)
        plan->library->operations->plan_destroy(plan);
}

const struct lce_plan_info *lce_plan_info(const struct lce_plan *plan)
{
    return plan ? &plan->info : NULL;
}

int lce_scale(struct lce *library, void *matrix, uint64_t count, int dtype, const float *factor, void *stream)
{
    if (!library || (count && !matrix) || !factor)
        return lce_fail(LCE_BAD_ARGUMENT, "lce_scale: library, matrix or factor is NULL");
    if (dtype < LCE_F32 || dtype > LCE_BF16)
        return lce_fail(LCE_BAD_DTYPE, "lce_scale: dtype %d is not supported; use one of enum lce_dtype",
                        dtype);
    if ((uintptr_t)matrix % 16)
        return lce_fail(LCE_MISALIGNED, "lce_scale: matrix is at %p; align it to 16 bytes", matrix);
    if (count > INT64_MAX)
        return lce_fail(LCE_TOO_LARGE, "lce_scale: a count of %llu; at most %lld", (unsigned long long)count,
                        (long long)INT64_MAX);
    return count ? library->operations->scale(library, matrix, count, dtype, factor, stream) : LCE_OK;
}

int lce_run(const struct lce_plan *plan, const struct lce_buffers *buffers, void *stream)
{
    if (!plan || !buffers)
        return lce_fail(LCE_BAD_ARGUMENT, "lce_run: plan or buffers is NULL");
    int status = lce_buffers_check(plan, buffers);
    return status ? status : plan->library->operations->run(plan, buffers, stream);
}

#ifdef LCE_NO_CUDA
int lce_cuda_open(struct lce **library)
{
    return lce_fail(LCE_BACKEND_MISSING,
                    "lce_open: this library was built without nvcc, so it has no LCE_CUDA; build it "
                    "where nvcc is, or use LCE_CPU");
}
#endif
