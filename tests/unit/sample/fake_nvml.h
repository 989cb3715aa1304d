/* fake_nvml.h - what a test sets of the stand-in for NVML (fake_nvml.c): the list of a device's processes. */
#ifndef TESTS_UNIT_SAMPLE_FAKE_NVML_H
#define TESTS_UNIT_SAMPLE_FAKE_NVML_H

#include <stddef.h>

struct fake_nvml {
    size_t entry; /* bytes of an entry, 24 or 32 */
    unsigned count;
    unsigned pid[8];
    unsigned long long used[8];
};
typedef struct fake_nvml *fake_nvml_fn(void);

#endif
