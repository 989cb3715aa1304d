/*
 * image.h - device code as it is given to the driver: a cubin (ELF), a fat binary, with or without its
 * wrapper, or PTX.
 */
#ifndef DRY_DRIVER_IMAGE_H
#define DRY_DRIVER_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

struct sim_code { /* compute capabilities: what the code was written for, and what it was compiled to */
    int ptx, binary;
};

uint64_t sim_image_bytes(const void *image); /* 0: no image */
bool sim_image_is_text(const void *image);
/* The code of IMAGE that a device of compute capability CAPABILITY runs; false: it has none. */
bool sim_image_code(const void *image, int capability, struct sim_code *code);

#endif
