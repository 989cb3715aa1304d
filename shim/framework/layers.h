/*
 * layers.h - the layer of a thread: its place in the program's modules and ranges.
 *
 * A layer is a path: of nested modules, "Llama.layers.7.mlp" (python/vramscope/_layers.py), or of open marker
 * and NVTX ranges, "step/forward/attn"; ranges that open inside a module's call extend its path,
 * "Llama.layers.7/softmax".  Automatic phases are not layers.
 *
 * A thread's layer is a few words in thread-local memory.  A layer's number is valid in the whole process and
 * never changes.  Beyond 65536 layers, or 8 MiB of modules' paths, it is 0: no layer.
 */
#ifndef VS_FRAMEWORK_LAYERS_H
#define VS_FRAMEWORK_LAYERS_H

#include <stdbool.h>
#include <stdint.h>

#include "names.h"
#include "trace/journal/journal.h"

struct vs_layer_now {
    uint32_t module;    /* the innermost module whose call is open; written by Python */
    uint32_t ranges;    /* the path of the open ranges; 0: none is open */
    uint32_t ranges_in; /* `module` when the innermost of them opened */
    int task;           /* vs_autograd_task() then */
    uint32_t inside;    /* calls of known modules have nothing to do but their layer; written by Python, for
                           calls.c */
};
extern __thread struct vs_layer_now vs_layer_now;

/* The layer of range NAME inside layer OUTER (0: at the top).  Any thread, any signal handler; no lock. */
uint32_t vs_layer_of_range(uint32_t outer, const struct vs_name *name);
/* A new layer of a module; texts are copied.  0: there is no room. */
uint32_t vs_layer_of_module(const char *path, const char *type);

/* The number of the calling thread's layer; 0: none.  BACKWARD: an autograd node runs, and only modules and
 * ranges that opened during its run count.  Callable like vs_layer_of_range. */
uint32_t vs_layer_here(bool backward);
/* The frame in J that names layer NUMBER; 0: there is no room. */
uint32_t vs_layer_frame(struct vs_journal *j, uint32_t number);

#endif
