/*
 * kernels.h - caches, by a kernel's handle, where the words in its parameters are.
 *
 * The driver gives offset and size of each parameter.  It is queried once for each kernel (hooks/), and the
 * result is kept until a module is unloaded; then all kernels are queried again, because handles may be
 * reused.  Any thread; no lock, and only pages are allocated.
 */
#ifndef VS_ACCESS_KERNELS_H
#define VS_ACCESS_KERNELS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "by_value.h"
#include "use.h"

#define VS_KERNEL_PARAMS 512u /* the parameters of a kernel with more count as unknown */

/* A run of words (8 bytes at multiples of 8 in the device's layout) in one parameter. */
struct vs_kernel_run {
    uint16_t param;  /* its number */
    uint16_t at;     /* bytes into the parameter */
    uint16_t packed; /* bytes into the buffer of all parameters */
    uint16_t words : 15;
    uint16_t own : 1; /* each of them is an address on purpose, not what was left in a structure */
};

struct vs_kernel {
    _Atomic uint32_t epoch; /* the epoch in which it is valid */
    uint32_t name;          /* string id */
    uint16_t runs;
    bool known;                /* false: the driver does not give its parameters */
    bool reaches;              /* finds addresses in memory */
    uint16_t apart;            /* 1 + the number of a parameter that is one of these two; 0: none is */
    struct vs_foreach list;    /* it has lists of tensors */
    struct vs_strided strided; /* it has numbers for offsets beside addresses */
    struct vs_kernel_run run[];
};

/* A kernel's parameters as the driver gives them. */
struct vs_kernel_params {
    uint32_t count;
    bool known;
    uint32_t array; /* 1 + the number of a parameter that is an array of addresses; 0: none is known to be */
    struct vs_foreach list;
    struct vs_strided strided;
    struct {
        uint16_t offset, size;
    } at[VS_KERNEL_PARAMS];
};

/* To be called when a recording with the access ledger begins. */
void vs_kernels_begin(void);
/* The layout of the kernel HANDLE; NULL: it must be queried. */
const struct vs_kernel *vs_kernel_find(const void *handle);
/* Stores PARAMS of HANDLE, whose name is NAME; NULL: there is no room. */
const struct vs_kernel *vs_kernel_learn(const void *handle, uint32_t name, bool reaches,
                                        const struct vs_kernel_params *params);
/* To be called when a module was unloaded or a context ended. */
void vs_kernels_doubt(void);
/* To be called when a recording begins, because names have other ids then. */
void vs_kernels_reset(void);

/* Records the parameters of a launch of K over GRID as uses: from PARAMS, pointers to their values, or from a
 * BUFFER of SIZE bytes (one of the two is NULL); of lists of tensors only what is in use, of tensors' strides
 * none.  Both NULL: there are none. */
void vs_kernel_given(const struct vs_kernel *k, const struct vs_use *u, struct vs_grid grid,
                     void *const *params, const void *buffer, size_t size);
/* Calls SEE for each of these words (SURE: as in struct vs_use) and for every tensor map's address, instead
 * of recording uses. */
void vs_kernel_each(const struct vs_kernel *k, struct vs_grid grid, void *const *params, const void *buffer,
                    size_t size, void (*see)(void *context, uint64_t word, bool map, bool sure),
                    void *context);

/* ---- tensor maps (TMA descriptors): the address that a map of these 128 bytes was made for ----
 *
 * A program makes a map once, by a call of the driver, and passes copies of it to many launches.  The
 * position of the address in it is not documented, so a copy is recognised by its contents.  Any thread; no
 * lock. */

#define VS_MAP_BYTES 128u
#define VS_MAP_ALIGN 64u

/* Whether any was ever made. */
extern _Atomic bool vs_maps_any;

/* Stores that the 128 bytes at MAP were made for ADDRESS. */
void vs_map_made(const void *map, uint64_t address);
/* The address that these 128 bytes were made for; 0: unknown. */
uint64_t vs_map_address(const void *map);

#endif
