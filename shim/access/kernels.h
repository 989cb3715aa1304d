/*
 * kernels.h - where in a kernel's parameters there are words, by the kernel's handle.
 *
 * The driver says of each parameter where it lies and how long it is; asked once for each kernel (hooks/), it
 * is kept here until a module is unloaded: handles may come back as something else's, so all are asked again
 * then.  Any thread; no lock, no allocation but of pages.
 */
#ifndef VS_ACCESS_KERNELS_H
#define VS_ACCESS_KERNELS_H

#include "use.h"

#define VS_KERNEL_PARAMS 512u /* a kernel with more is one whose parameters are not known */

/* A stretch of words, of 8 bytes at multiples of 8 in the device's layout, in one parameter. */
struct vs_kernel_run {
    uint16_t param;  /* its number */
    uint16_t at;     /* bytes into the parameter */
    uint16_t packed; /* bytes into the buffer of all parameters */
    uint16_t words;
};

struct vs_kernel {
    uintptr_t handle;
    _Atomic uint32_t epoch; /* as of which it is right */
    uint32_t name;          /* string id */
    uint32_t packed;        /* bytes of the buffer of all parameters */
    uint16_t runs;
    bool known;   /* false: the driver does not say what its parameters are */
    bool reaches; /* finds addresses in memory */
    struct vs_kernel_run run[];
};

/* What the driver says of a kernel's parameters. */
struct vs_kernel_params {
    uint32_t count;
    bool known;
    struct {
        uint16_t offset, size;
    } at[VS_KERNEL_PARAMS];
};

/* What is known of the kernel HANDLE; NULL: nothing yet, or it has to be asked again. */
const struct vs_kernel *vs_kernel_find(const void *handle);
/* PARAMS are those of HANDLE, whose name is NAME; NULL where there is no room. */
const struct vs_kernel *vs_kernel_learn(const void *handle, uint32_t name, bool reaches,
                                        const struct vs_kernel_params *params);
/* A module was unloaded, or a context ended. */
void vs_kernels_doubt(void);
/* A recording begins: names have other numbers. */
void vs_kernels_reset(void);

/* The device is given the parameters of a launch of K: as PARAMS, a pointer to each one's value, or in a
 * BUFFER of SIZE bytes (one of the two is NULL).  Both NULL: it has none. */
void vs_kernel_given(const struct vs_kernel *k, struct vs_use *u, void *const *params, const void *buffer,
                     size_t size);
/* The same for somebody else than the living blocks: SEE is called for every word and tensor map's address.
 */
void vs_kernel_each(const struct vs_kernel *k, void *const *params, const void *buffer, size_t size,
                    void (*see)(void *context, uint64_t word, bool map), void *context);

#endif
