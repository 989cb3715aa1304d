/*
 * nvml.h - the handful of NVML's functions that vramscope uses.  For the sampler's thread alone.
 */
#ifndef VS_SAMPLE_NVML_H
#define VS_SAMPLE_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler.h"

typedef void *vs_nvml_device;

/* Loads and initialises NVML; false where it is of no use. */
bool vs_nvml_load(void);

/* The handle of the device, or of the MIG instance, with this UUID; NULL: NVML knows none. */
vs_nvml_device vs_nvml_find(const uint8_t uuid[16]);

/* What is used of DEVICE (NULL: the result is unknown).  *LISTED, which the caller keeps for the device, is
 * whether NVML has ever listed this process there: where it has and does not any more, the process's last
 * context is gone, and it uses 0 bytes. */
struct vs_used vs_nvml_used(vs_nvml_device device, bool *listed);

/* Whether NVML lists another process on DEVICE, or may not list all. */
bool vs_nvml_others(vs_nvml_device device);

#endif
