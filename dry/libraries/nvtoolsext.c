/*
 * nvtoolsext.c - libnvToolsExt, which PyTorch 2.4 and older programs are linked with: NVTX as its own headers
 * have it, so that ranges reach the recorder as they would.
 */
#define NVTX_EXPORT_API
#include <nvtx3/nvToolsExt.h>
