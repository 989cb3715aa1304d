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

/* Whether the process has called into the driver through a hook: before that, asking the driver anything is
 * out of the question.  One load. */
bool vs_cuda_seen(void);

/* The real address of the driver's exported NAME (exact symbol), never one of our wrappers; NULL where the
 * driver is not loaded or lacks it.  Takes the loader's lock: not for the hot path. */
void *vs_cuda_real(const char *name);

/* What is used of DEVICE, by other processes too, asked on a thread of ours: in the host's primary context,
 * which is held and made current for the moment.  At the end of a process only. */
bool vs_cuda_used_bytes(int device, uint64_t *bytes);

#endif
