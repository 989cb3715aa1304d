/*
 * module.h - loaded device code (module.c), for who looks for kernels in it.
 */
#ifndef DRY_DRIVER_MODULE_H
#define DRY_DRIVER_MODULE_H

#include "image.h"
#include "sim.h"

struct sim_image {
    uint64_t bytes;
    struct sim_code code; /* in dry mode */
    char *text;           /* PTX; NULL: an image of another kind */
};
const struct sim_image *sim_module_image(uint64_t handle); /* NULL: no such module */
const struct sim_image *sim_library_image(uint64_t handle);
CUresult sim_library_module(uint64_t handle, uint64_t *module); /* in the current context */

#endif
