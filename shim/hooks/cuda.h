/*
 * cuda.h - what the rest of the shim may ask of the hooks.
 *
 * The driver is reached only through the libcuda.so that the host itself loaded: nothing here ever loads it.
 */
#ifndef VS_HOOKS_CUDA_H
#define VS_HOOKS_CUDA_H

#include <stdbool.h>
#include <stdint.h>

/* Called once by the library's constructor, before any other code of the process runs (the library is linked
 * -z initfirst): references that bound to our exports and would not have found the driver go back to what
 * they would have been.  Safe before the C library is initialised. */
void vs_hooks_init(void);

/* Whether the library was loaded behind the C library, by dlopen: then nothing is hooked. */
bool vs_hooks_late(void);

/* Whether the process has called into the driver through a hook: before that, asking the driver anything is
 * out of the question.  One load. */
bool vs_cuda_seen(void);

/* The real address of the driver's exported NAME (exact symbol), never one of our wrappers; NULL where the
 * driver is not loaded or lacks it.  Takes the loader's lock: not for the hot path. */
void *vs_cuda_real(const char *name);

/* The context that is current on the calling thread; 0: none.  Takes no lock. */
uint64_t vs_cuda_current(void);

/* What is used of the device that CONTEXT lies on, by other processes too, asked on a thread of ours; CONTEXT
 * is current on a thread of the host that waits meanwhile, so it stays alive without our holding it. */
bool vs_cuda_used_bytes(uint64_t context, int *device, uint64_t *bytes);

#endif
