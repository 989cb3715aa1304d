/*
 * module.c - device code: modules and libraries can be loaded and cost device memory; nothing of them runs.
 *
 * An image is a cubin (ELF), a fat binary or PTX text; its bytes, rounded up to 2 MiB, are taken from the
 * device of the context that it is loaded in, and go back at the unload or with the context.  A library is
 * loaded into a context when its module is first asked for there (CUDA_MODULE_LOADING=EAGER: at once into the
 * current one).  What is asked for by name is refused with CUDA_ERROR_NOT_SUPPORTED, so that a program which
 * tries a kernel learns why nothing was computed, instead of reading memory that nobody wrote; but for
 * kernels of PTX that compute nothing by their names (kernel.c).
 */
#include "capture.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* How they begin, byte by byte: PTX may be shorter than what a binary image begins with. */
#define FATBIN_WRAPPER "\xb1\x43\x62\x46"
#define FATBIN         "\x50\xed\x55\xba"

struct library {
    struct sim_range range; /* start = handle */
    uint64_t bytes;
    char *text; /* PTX; NULL: an image of another kind */
};
struct module {
    struct sim_range range;  /* start = handle */
    struct library *library; /* NULL: loaded by itself */
    struct sim_context *owner;
    uint64_t cost;
    char *text; /* likewise, where it was loaded by itself */
};
static struct sim_map modules, libraries;

/* ---- images ---- */

static uint64_t elf_bytes(const void *image)
{
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof header);
    uint64_t sections = header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize;
    uint64_t segments = header.e_phoff + (uint64_t)header.e_phnum * header.e_phentsize;
    return sections > segments ? sections : segments;
}

struct fatbin {
    uint32_t magic;
    uint16_t version, header;
    uint64_t body; /* of the wrapper: where the fat binary is */
};

static bool begins(const void *image, const char *magic)
{
    return strncmp(image, magic, 4) == 0;
}

/* 0: no image. */
static uint64_t image_bytes(const void *image)
{
    struct fatbin head;
    const unsigned char *text = image;
    if (begins(image, ELFMAG))
        return elf_bytes(image);
    if (begins(image, FATBIN_WRAPPER)) {
        memcpy(&head, image, sizeof head);
        image = (const void *)head.body;
    }
    if (begins(image, FATBIN)) {
        memcpy(&head, image, sizeof head);
        return head.header + head.body;
    }
    return image == text && (*text == '\t' || *text == '\n' || (*text >= ' ' && *text < 127)) ? strlen(image)
                                                                                              : 0;
}

static CUresult file_bytes(const char *path, uint64_t *bytes)
{
    struct stat file;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
    int failed = fstat(fd, &file);
    close(fd);
    *bytes = failed ? 0 : (uint64_t)file.st_size;
    return *bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

/* ---- modules ---- */

static CUresult load(CUmodule *out, uint64_t bytes, struct library *library)
{
    struct sim_context *owner = sim_context_owner();
    uint64_t cost = sim_round(bytes, SIM_GRANULARITY);
    SIM_UNSAFE();
    if (!bytes)
        return CUDA_ERROR_INVALID_IMAGE;
    struct module *module = calloc(1, sizeof *module);
    if (!module || !sim_charge(owner->device, cost)) {
        free(module);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *module = (struct module){{.start = (uint64_t)module, .size = 1}, library, owner, cost, NULL};
    sim_map_insert(&modules, &module->range);
    *out = (CUmodule)(void *)module;
    return CUDA_SUCCESS;
}

static void drop(struct module *module)
{
    sim_kernels_gone(module->range.start);
    free(module->text);
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

/* PTX, which is text, for who looks for its kernels. */
static char *text_of(const void *image)
{
    return begins(image, ELFMAG) || begins(image, FATBIN_WRAPPER) || begins(image, FATBIN) ||
                   !image_bytes(image)
               ? NULL
               : strdup(image);
}

static CUresult load_image(CUmodule *out, const void *image)
{
    CUresult result = out && image ? load(out, image_bytes(image), NULL) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        ((struct module *)sim_map_at(&modules, (uint64_t)*out))->text = text_of(image);
    return result;
}

const char *sim_module_text(uint64_t handle)
{
    const struct module *module = (const struct module *)sim_map_at(&modules, handle);
    return module == NULL ? NULL : module->library != NULL ? module->library->text : module->text;
}

CUresult cuModuleLoad(CUmodule *out, const char *path)
{
    SIM_CALL(SIM_CONTEXT);
    uint64_t bytes;
    CUresult result = out ? file_bytes(path, &bytes) : CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS ? load(out, bytes, NULL) : result;
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
    return load(out, library->bytes, library);
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
    free(library->text);
    free(library);
}

static CUresult new_library(CUlibrary *out, uint64_t bytes)
{
    CUmodule module;
    CUresult result = CUDA_SUCCESS;
    if (!bytes)
        return CUDA_ERROR_INVALID_IMAGE;
    struct library *library = calloc(1, sizeof *library);
    if (!library)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *library = (struct library){{.start = (uint64_t)library, .size = 1}, bytes, NULL};
    sim_map_insert(&libraries, &library->range);
    if (eager() && sim_context_check() == CUDA_SUCCESS)
        result = module_of(&module, library);
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
    CUresult result = out && code ? new_library(out, image_bytes(code)) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        library_of(*out)->text = text_of(code);
    return result;
}

CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *options, void **values,
                               unsigned int count, CUlibraryOption *library_options, void **library_values,
                               unsigned int library_count)
{
    SIM_CALL(SIM_INITIALIZED);
    uint64_t bytes;
    CUresult result = out ? file_bytes(path, &bytes) : CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS ? new_library(out, bytes) : result;
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

/* ---- what would run ---- */

#define REFUSE(name, ...)                                                                                    \
    CUresult name(__VA_ARGS__)                                                                               \
    {                                                                                                        \
        SIM_CALL(SIM_CONTEXT);                                                                               \
        return CUDA_ERROR_NOT_SUPPORTED;                                                                     \
    }

REFUSE(cuModuleGetGlobal_v2, CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)

const char *sim_library_text(uint64_t handle)
{
    const struct library *library = (const struct library *)sim_map_at(&libraries, handle);
    return library != NULL ? library->text : NULL;
}

/* The library's module in the current context. */
CUresult sim_library_module(uint64_t handle, uint64_t *module)
{
    struct library *library = (struct library *)sim_map_at(&libraries, handle);
    CUmodule found;
    CUresult result = library != NULL ? module_of(&found, library) : CUDA_ERROR_INVALID_HANDLE;
    *module = result == CUDA_SUCCESS ? (uint64_t)found : 0;
    return result;
}
