/*
 * machine.c - what a run stands on: the handle, the version that PyTorch was made for, the card.
 *
 * PyTorch refuses a cuDNN that is older than the one it was compiled with, and code paths follow from the
 * version.  It names it itself: the metadata beside its package says which nvidia-cudnn it requires.  Where
 * no metadata say so, the version is the newest that is known here, and that is told as a guess.
 */
#include "dnn.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

enum { NEWEST = 92600 };

/* ---- the version ---- */

static int found, found_cuda = 13; /* cuDNN's and CUDA's major */

/* "Requires-Dist: nvidia-cudnn-cu13==9.19.0.56; ..." or "... (==9.1.0.70) ; ..." */
static bool names_version(const char *line)
{
    int cuda, major, minor, patch;
    if (sscanf(line, "Requires-Dist: nvidia-cudnn-cu%d%*[ (=]%d.%d.%d", &cuda, &major, &minor, &patch) != 4)
        return false;
    found = major * 10000 + minor * 100 + patch;
    found_cuda = cuda;
    return true;
}

static void read_metadata(const char *metadata)
{
    FILE *file = fopen(metadata, "re");
    char line[512];
    while (file && fgets(line, sizeof line, file) && !names_version(line))
        ;
    if (file)
        fclose(file);
}

/* PACKAGES is the folder that torch/ lies in; its metadata in one beside it, torch-VERSION.dist-info. */
static void look_beside(const char *packages)
{
    DIR *folder = opendir(packages);
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        const char *end = strstr(entry->d_name, ".dist-info");
        char path[PATH_MAX];
        if (strncmp(entry->d_name, "torch-", 6) || !end ||
            snprintf(path, sizeof path, "%s/%s/METADATA", packages, entry->d_name) >= (int)sizeof path)
            continue;
        read_metadata(path);
    }
    if (folder)
        closedir(folder);
}

static int look_at(struct dl_phdr_info *object, size_t size, void *unused)
{
    (void)size, (void)unused;
    char path[PATH_MAX], *name = strrchr(object->dlpi_name, '/');
    if (!name || (strcmp(name, "/libtorch_cuda.so") && strcmp(name, "/libtorch_cpu.so")) ||
        !realpath(object->dlpi_name, path))
        return 0;
    for (int up = 0; up < 3; up++) { /* .../torch/lib/libtorch_cuda.so */
        char *slash = strrchr(path, '/');
        if (!slash)
            return 0;
        *slash = '\0';
    }
    look_beside(path);
    return found;
}

static void look_for(void)
{
    dl_iterate_phdr(look_at, NULL);
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
    enum { MULTIPROCESSORS = 16, THREADS = 39, MAJOR = 75, MINOR = 76 };
    int (*current)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, "cuCtxGetDevice");
    int (*name)(char *, int, int) = (int (*)(char *, int, int))dlsym(RTLD_DEFAULT, "cuDeviceGetName");
    int device = 0;
    if (!current || current(&device) || !name || name(card.name, (int)sizeof card.name, device))
        strcpy(card.name, "unknown");
    card.major = attribute(MAJOR, device);
    card.minor = attribute(MINOR, device);
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
    return dnn_version() == 91900 && strstr(dnn_card()->name, "H200");
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
