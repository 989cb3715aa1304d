/*
 * errors.c - what a call returns, and what the thread remembers of it.  Codes are the driver's numbers.  An
 * error that broke the context is not kept apart here: the driver repeats it.  "Not ready" is an answer, and
 * not remembered.
 */
#include "runtime.h"

static _Thread_local cudaError_t last;

static const struct {
    cudaError_t code;
    const char *name, *text;
} errors[] = {
#define E(name, text) {cuda##name, "cuda" #name, text},
#include "errors.def"
#undef E
};

cudaError_t rt_failed(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last = error;
    return error;
}

cudaError_t rt_done(CUresult result)
{
    return rt_failed((cudaError_t)result);
}

DRY_API cudaError_t CUDARTAPI cudaGetLastError(void)
{
    cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

DRY_API cudaError_t CUDARTAPI cudaPeekAtLastError(void)
{
    return last;
}

DRY_API const char *CUDARTAPI cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error)
            return errors[i].name;
    return "unrecognized error code";
}

DRY_API const char *CUDARTAPI cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error)
            return errors[i].text;
    return "unrecognized error code";
}
