/*
 * layers.h - where in the program's modules and ranges a thread is.
 *
 * A layer is a path: of modules as they lie in each other, "Llama.layers.7.mlp", as the Python hook says them
 * (framework/python/vramscope_layers.py), or of marker and NVTX ranges that are open, "step/forward/attn";
 * ranges that opened inside of a module's call go on from it, "Llama.layers.7/softmax".  Automatic phases are
 * no layers.
 *
 * What a thread is in are three words of its own, which cost a store where they change; what they mean is
 * looked up at an allocation.  A layer's number is the process's, and stays.
 *
 * Bounds: 65536 layers, 8 MiB of modules' paths; later ones have number 0: no layer.
 */
#ifndef VS_FRAMEWORK_LAYERS_H
#define VS_FRAMEWORK_LAYERS_H

#include <stdbool.h>
#include <stdint.h>

#include "names.h"
#include "trace/journal/journal.h"

struct vs_layer_now {
    uint32_t module;    /* whose call is open, innermost; written by Python */
    uint32_t ranges;    /* path of the open ranges; 0: none is open */
    uint32_t ranges_in; /* `module` when the innermost of them opened */
    int task;           /* vs_autograd_task() then */
};
extern __thread struct vs_layer_now vs_layer_now;

/* The layer of range NAME inside of layer OUTER (0: of none).  Any thread, any signal handler; no lock. */
uint32_t vs_layer_of_range(uint32_t outer, const struct vs_name *name);
/* A new layer of a module; texts are copied.  0: there is no room. */
uint32_t vs_layer_of_module(const char *path, const char *type);

/* The number of the layer that the calling thread is in; 0: it is in none.  BACKWARD: an autograd node runs,
 * and only what opened inside of its run counts.  As vs_layer_of_range. */
uint32_t vs_layer_here(bool backward);
/* The frame in J that names layer NUMBER; 0: there is no room. */
uint32_t vs_layer_frame(struct vs_journal *j, uint32_t number);

#endif
