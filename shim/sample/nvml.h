/*
 * nvml.h - the few functions of NVML that vramscope uses.  Only the sampler's thread calls them.
 */
#ifndef VS_SAMPLE_NVML_H
#define VS_SAMPLE_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler.h"

typedef void *vs_nvml_device;

/* Loads and initialises NVML; false: it is not usable. */
bool vs_nvml_load(void);

/* The handle of the device, or of the MIG instance, with this UUID; NULL: there is none. */
vs_nvml_device vs_nvml_find(const uint8_t uuid[16]);

/* The used memory of DEVICE (NULL: unknown).  *LISTED, which the caller keeps for the device, is whether
 * NVML has ever listed this process there: if it has, and does not any more, the process's last context has
 * ended, and it uses 0 bytes. */
struct vs_used vs_nvml_used(vs_nvml_device device, bool *listed);

/* Whether NVML lists another process on DEVICE, or perhaps does not list all. */
bool vs_nvml_others(vs_nvml_device device);

#endif
