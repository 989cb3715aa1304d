/* arena_torch.h - what the preloaded libvramscope.so exports for PyTorch, by name. */
#ifndef TESTS_GPU_ARENA_TORCH_H
#define TESTS_GPU_ARENA_TORCH_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <sys/types.h>

struct torch_allocator {
    void *(*allocate)(ssize_t size, int device, CUstream stream);
    void (*release)(void *p, ssize_t size, int device, CUstream stream);
    void (*record_stream)(void *p, CUstream stream);
};

static inline bool torch_allocator_find(struct torch_allocator *t)
{
    *(void **)&t->allocate = dlsym(RTLD_DEFAULT, "vramscope_torch_malloc");
    *(void **)&t->release = dlsym(RTLD_DEFAULT, "vramscope_torch_free");
    *(void **)&t->record_stream = dlsym(RTLD_DEFAULT, "vramscope_torch_record_stream");
    return t->allocate && t->release && t->record_stream;
}

#endif
