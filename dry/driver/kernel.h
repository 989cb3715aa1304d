/*
 * kernel.h - device code: what an image says of itself, what is loaded, and the kernels in it.
 */
#ifndef DRY_DRIVER_KERNEL_H
#define DRY_DRIVER_KERNEL_H

#include "sim.h"

/* ---- image.c: an image is a cubin (ELF), a fat binary, with or without its wrapper, or PTX ---- */

struct sim_code { /* compute capabilities: what the code was written for, and what it was compiled to */
    int ptx, binary;
};

uint64_t sim_image_bytes(const void *image); /* 0: no image */
bool sim_image_is_text(const void *image);
/* The code of IMAGE that a device of compute capability CAPABILITY runs; false: it has none. */
bool sim_image_code(const void *image, int capability, struct sim_code *code);

/* ---- module.c ---- */

struct sim_image {
    uint64_t bytes;
    struct sim_code code; /* in dry mode */
    char *text;           /* PTX; NULL: an image of another kind */
};
const struct sim_image *sim_module_image(uint64_t handle); /* NULL: no such module */
const struct sim_image *sim_library_image(uint64_t handle);
CUresult sim_library_module(uint64_t handle, uint64_t *module); /* in the current context */

/* ---- kernel.c, kernel_ptx.c ---- */

#define PARAMS 64

struct sim_parameters {
    size_t count;
    struct {
        size_t offset, size;
    } at[PARAMS];
};

struct sim_kernel {
    struct sim_range range;  /* start = handle */
    struct sim_kernel *next; /* of the same hash */
    uint64_t owner;          /* module, of a function; library, of a kernel */
    bool function;
    struct sim_code code;
    struct sim_parameters *parameters; /* NULL: not known, in dry mode */
    int dynamic_shared, carveout;
    char name[];
};

struct sim_kernel *sim_kernel_of(const void *handle); /* NULL: there is none */
size_t sim_parameters_end(const struct sim_kernel *kernel);

/* What PTX declares of kernel NAME: NULL where it has none of that name, or out of memory. */
struct sim_parameters *sim_ptx_parameters(const char *text, const char *name);

#endif
