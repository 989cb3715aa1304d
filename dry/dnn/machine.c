/*
 * machine.c - what a run stands on: the handle, the version that PyTorch was made for (measured.h; it refuses
 * an older one), the card.  Where PyTorch names none, it is the newest that is known here, told as a guess.
 */
#include "dnn.h"
#include "measured.h"

#include <pthread.h>

enum { NEWEST = 92600 };

/* ---- the version ---- */

static int found, found_cuda = 13; /* cuDNN's and CUDA's major */

static void look_for(void)
{
    struct wanted wanted = dry_wanted("nvidia-cudnn-cu");
    found = wanted.version;
    found_cuda = wanted.cuda ? wanted.cuda : found_cuda;
    if (!found) {
        found = NEWEST;
        dry_fact("guess\tcudnn\twhich version this PyTorch was made for\t0");
    }
}

int dnn_version(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_for);
    return found;
}

DRY_API size_t cudnnGetVersion(void)
{
    return (size_t)dnn_version();
}

DRY_API size_t cudnnGetCudartVersion(void)
{
    dnn_version();
    return (size_t)found_cuda * 1000;
}

DRY_API int cudnnGetProperty(int which, int *value)
{
    if (!value)
        return DNN_NULL_POINTER;
    const int parts[] = {dnn_version() / 10000, dnn_version() / 100 % 100, dnn_version() % 100};
    if (which < 0 || which > 2)
        return DNN_BAD_PARAM;
    *value = parts[which];
    return DNN_SUCCESS;
}

/* ---- the card ---- */

static struct dnn_card card;

static int attribute(int which, int device)
{
    int (*ask)(int *, int, int) = (int (*)(int *, int, int))dlsym(RTLD_DEFAULT, "cuDeviceGetAttribute");
    int value = 0;
    return ask && ask(&value, which, device) == 0 ? value : 0;
}

static void ask_card(void)
{
    enum { MULTIPROCESSORS = 16, THREADS = 39 };
    int (*current)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, "cuCtxGetDevice");
    int device;
    if (!current || current(&device))
        device = 0;
    card.measured = dry_on_h200();
    card.multiprocessors = attribute(MULTIPROCESSORS, device);
    card.threads = attribute(THREADS, device);
}

const struct dnn_card *dnn_card(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_card);
    return &card;
}

bool dnn_measured_here(void)
{
    return dnn_version() == 91900 && dnn_card()->measured;
}

/* ---- the handle ---- */

struct handle {
    void *stream;
};

DRY_API int cudnnCreate(struct handle **out)
{
    if (!out)
        return DNN_NULL_POINTER;
    *out = calloc(1, sizeof **out);
    return *out ? DNN_SUCCESS : DNN_NO_MEMORY;
}

DRY_API int cudnnDestroy(struct handle *handle)
{
    free(handle);
    return DNN_SUCCESS;
}

DRY_API int cudnnSetStream(struct handle *handle, void *stream)
{
    if (!handle)
        return DNN_NULL_POINTER;
    handle->stream = stream;
    return DNN_SUCCESS;
}

DRY_API int cudnnGetStream(struct handle *handle, void **stream)
{
    if (!handle || !stream)
        return DNN_NULL_POINTER;
    *stream = handle->stream;
    return DNN_SUCCESS;
}

DRY_API const char *cudnnGetErrorString(int status)
{
    static const struct {
        int status;
        const char *name;
    } names[] = {
        {DNN_SUCCESS, "CUDNN_STATUS_SUCCESS"},
        {DNN_BAD_PARAM, "CUDNN_STATUS_BAD_PARAM"},
        {DNN_NULL_POINTER, "CUDNN_STATUS_BAD_PARAM_NULL_POINTER"},
        {DNN_OUT_OF_BOUND, "CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND"},
        {DNN_NOT_SUPPORTED, "CUDNN_STATUS_NOT_SUPPORTED"},
        {DNN_NO_MEMORY, "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].status == status)
            return names[i].name;
    return "CUDNN_STATUS_UNKNOWN";
}

DRY_API void cudnnGetLastErrorString(char *text, size_t size)
{
    if (text && size)
        *text = '\0';
}

/* No kernel runs, so none fails. */
DRY_API int cudnnQueryRuntimeError(void *handle, int *status, int mode, void *tag)
{
    (void)mode, (void)tag;
    if (!handle || !status)
        return DNN_NULL_POINTER;
    *status = DNN_SUCCESS;
    return DNN_SUCCESS;
}
