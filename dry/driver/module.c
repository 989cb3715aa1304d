/*
 * module.c - modules and libraries of device code, whose bytes, in units of 2 MiB, are taken from the device
 * until the unload or the context's end.
 *
 * A library is loaded into a context when its module is first asked for there (CUDA_MODULE_LOADING=EAGER: at
 * once).  In dry mode what is launched costs, not what is loaded, and an image needs code for the card.
 */
#include "capture.h"
#include "kernel.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct library {
    struct sim_range range; /* start = handle */
    struct sim_image image;
};
struct module {
    struct sim_range range;  /* start = handle */
    struct library *library; /* NULL: loaded by itself */
    struct sim_context *owner;
    uint64_t cost;
    struct sim_image image; /* where it was loaded by itself */
};
static struct sim_map modules, libraries;

/* ---- images ---- */

static CUresult look(struct sim_image *out, const void *image)
{
    uint64_t bytes = sim_image_bytes(image);
    *out = (struct sim_image){.bytes = bytes};
    if (!bytes)
        return CUDA_ERROR_INVALID_IMAGE;
    if (sim_dry() && !sim_image_code(image, sim_card()->capability, &out->code))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    out->text = sim_image_is_text(image) ? strdup(image) : NULL;
    return CUDA_SUCCESS;
}

/* Outside dry mode a file's size is all that is asked of it. */
static CUresult look_into(struct sim_image *out, const char *path)
{
    struct stat file;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
    uint64_t bytes = fstat(fd, &file) == 0 ? (uint64_t)file.st_size : 0;
    /* one byte more, so that text ends */
    char *image = bytes && sim_dry() ? calloc(1, bytes + 1) : NULL;
    bool whole = image && read(fd, image, bytes) == (ssize_t)bytes;
    CUresult result = whole                 ? look(out, image)
                      : bytes && !sim_dry() ? CUDA_SUCCESS
                                            : CUDA_ERROR_INVALID_IMAGE;
    if (!sim_dry())
        *out = (struct sim_image){.bytes = bytes};
    free(image);
    close(fd);
    return result;
}

/* ---- modules ---- */

static CUresult load(CUmodule *out, uint64_t bytes, struct library *library)
{
    struct sim_context *owner = sim_context_owner();
    /* in dry mode only what is launched of it is loaded (launch.c) */
    uint64_t cost = sim_dry() ? 0 : sim_round(bytes, SIM_GRANULARITY);
    SIM_UNSAFE();
    struct module *module = calloc(1, sizeof *module);
    if (!module || !sim_charge(owner->device, cost)) {
        free(module);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *module = (struct module){{.start = (uint64_t)module, .size = 1}, library, owner, cost, {0}};
    sim_map_insert(&modules, &module->range);
    *out = (CUmodule)(void *)module;
    return CUDA_SUCCESS;
}

static void drop(struct module *module)
{
    sim_kernels_gone(module->range.start);
    free(module->image.text);
    sim_uncharge(module->owner->device, module->cost);
    sim_map_remove(&modules, &module->range);
    free(module);
}

static struct module *next_module(const struct module *after)
{
    return (struct module *)sim_map_from(&modules, after ? after->range.start + 1 : 0);
}

void sim_modules_free_of(struct sim_context *owner)
{
    for (struct module *module = next_module(NULL), *next; module; module = next) {
        next = next_module(module);
        if (module->owner == owner)
            drop(module);
    }
}

static CUresult load_looked(CUmodule *out, CUresult looked, struct sim_image *image)
{
    CUresult result = looked == CUDA_SUCCESS ? load(out, image->bytes, NULL) : looked;
    if (result == CUDA_SUCCESS)
        ((struct module *)sim_map_at(&modules, (uint64_t)*out))->image = *image;
    else
        free(image->text);
    return result;
}

static CUresult load_image(CUmodule *out, const void *data)
{
    struct sim_image image = {0};
    return load_looked(out, out && data ? look(&image, data) : CUDA_ERROR_INVALID_VALUE, &image);
}

const struct sim_image *sim_module_image(uint64_t handle)
{
    const struct module *module = (const struct module *)sim_map_at(&modules, handle);
    return !module ? NULL : module->library ? &module->library->image : &module->image;
}

CUresult cuModuleLoad(CUmodule *out, const char *path)
{
    SIM_CALL(SIM_CONTEXT);
    struct sim_image image = {0};
    return load_looked(out, out ? look_into(&image, path) : CUDA_ERROR_INVALID_VALUE, &image);
}

CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    SIM_CALL(SIM_CONTEXT);
    return load_image(out, image);
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int count, CUjit_option *options,
                            void **values)
{
    SIM_CALL(SIM_CONTEXT);
    return load_image(out, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    SIM_CALL(SIM_CONTEXT);
    return load_image(out, image);
}

CUresult cuModuleUnload(CUmodule handle)
{
    SIM_CALL(SIM_CONTEXT);
    struct module *module = (struct module *)sim_map_at(&modules, (uint64_t)handle);
    SIM_UNSAFE();
    if (!module || module->library)
        return CUDA_ERROR_INVALID_HANDLE;
    drop(module);
    return CUDA_SUCCESS;
}

static bool eager(void)
{
    const char *mode = getenv("CUDA_MODULE_LOADING");
    return mode && strcmp(mode, "EAGER") == 0;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = eager() ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

/* ---- libraries ---- */

static struct library *library_of(CUlibrary handle)
{
    return (struct library *)sim_map_at(&libraries, (uint64_t)handle);
}

static CUresult module_of(CUmodule *out, struct library *library)
{
    for (struct module *m = next_module(NULL); m; m = next_module(m))
        if (m->library == library && m->owner == sim_context_owner()) {
            *out = (CUmodule)(void *)m;
            return CUDA_SUCCESS;
        }
    return load(out, library->image.bytes, library);
}

static void unload(struct library *library)
{
    for (struct module *module = next_module(NULL), *next; module; module = next) {
        next = next_module(module);
        if (module->library == library)
            drop(module);
    }
    sim_kernels_gone(library->range.start);
    sim_map_remove(&libraries, &library->range);
    free(library->image.text);
    free(library);
}

static CUresult new_library(CUlibrary *out, CUresult looked, struct sim_image *image)
{
    CUmodule module;
    struct library *library = looked == CUDA_SUCCESS ? calloc(1, sizeof *library) : NULL;
    if (!library) {
        free(image->text);
        return looked == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : looked;
    }
    *library = (struct library){{.start = (uint64_t)library, .size = 1}, *image};
    sim_map_insert(&libraries, &library->range);
    CUresult result =
        eager() && sim_context_check() == CUDA_SUCCESS ? module_of(&module, library) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        unload(library);
    else
        *out = (CUlibrary)(void *)library;
    return result;
}

CUresult cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *options, void **values,
                           unsigned int count, CUlibraryOption *library_options, void **library_values,
                           unsigned int library_count)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_image image = {0};
    return new_library(out, out && code ? look(&image, code) : CUDA_ERROR_INVALID_VALUE, &image);
}

CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *options, void **values,
                               unsigned int count, CUlibraryOption *library_options, void **library_values,
                               unsigned int library_count)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_image image = {0};
    return new_library(out, out ? look_into(&image, path) : CUDA_ERROR_INVALID_VALUE, &image);
}

CUresult cuLibraryUnload(CUlibrary handle)
{
    SIM_CALL(SIM_INITIALIZED);
    struct library *library = library_of(handle);
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    unload(library);
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *out, CUlibrary handle)
{
    SIM_CALL(SIM_CONTEXT);
    struct library *library = library_of(handle);
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    return out ? module_of(out, library) : CUDA_ERROR_INVALID_VALUE;
}

const struct sim_image *sim_library_image(uint64_t handle)
{
    const struct library *library = (const struct library *)sim_map_at(&libraries, handle);
    return library ? &library->image : NULL;
}

CUresult sim_library_module(uint64_t handle, uint64_t *module)
{
    struct library *library = (struct library *)sim_map_at(&libraries, handle);
    CUmodule found;
    CUresult result = library ? module_of(&found, library) : CUDA_ERROR_INVALID_HANDLE;
    *module = result == CUDA_SUCCESS ? (uint64_t)found : 0;
    return result;
}
