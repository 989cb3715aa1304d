/*
 * kernel.h - kernels between kernel.c (handles), kernel_ptx.c (what PTX declares), launch.c and occupancy.c.
 */
#ifndef DRY_DRIVER_KERNEL_H
#define DRY_DRIVER_KERNEL_H

#include "image.h"
#include "sim.h"

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
