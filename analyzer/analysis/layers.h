/*
 * layers.h - the layers that held bytes, as a tree in which equal ones are one row.
 *
 * A layer is a path, "Llama.layers.7.mlp" or "step/forward/attn".  Of the tree of all paths rows are made
 * from the root on:
 *
 *      Llama                    20.1 GiB
 *        layers.* x32           18.0 GiB   576.0 MiB each     layers.0 to layers.31 and all layers in them
 *          mlp x32              12.0 GiB   384.0 MiB each     layers.0.mlp to layers.31.mlp
 *        lm_head                 1.0 GiB
 *
 * Siblings that are called by numbers are one row where they are of one kind: of one class, if nothing lies
 * in them.  So are more than four that are called alike but for a number at the end ("layer 7").  A node that
 * has nothing of its own and one thing in it is one row with that.
 */
#ifndef VS_ANALYSIS_LAYERS_H
#define VS_ANALYSIS_LAYERS_H

#include "read/trace.h"

struct layer_row {
    char *name;          /* from the row's parent on; "*" for a number */
    char *type;          /* the class that all of them are of; NULL: none is known, or several */
    int depth;           /* 0: outermost */
    int64_t bytes;       /* with all that lies in it */
    int64_t count;       /* allocations */
    int64_t layers;      /* that are one row */
    int64_t least, most; /* bytes of one of them */
};

/* The rows of what has a layer, parents before what lies in them and that by size; what a layer holds by
 * itself where others lie in it is a row "itself".  Rows below LEAST bytes are left out, and beyond ROWS rows
 * (0: all) the deepest. *REST gets the bytes without a layer. */
struct layer_row *layers_tree(const struct trace_live *live, size_t n, int64_t least, size_t rows,
                              size_t *count, int64_t *rest);
void layers_free(struct layer_row *rows, size_t n);

#endif
