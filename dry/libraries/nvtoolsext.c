/*
 * nvtoolsext.c - libnvToolsExt for PyTorch 2.4 and older programs: NVTX of its own headers reaches the
 * recorder.
 */
#define NVTX_EXPORT_API
#include <nvtx3/nvToolsExt.h>
