/*
 * layers.h - the layers that held bytes, as a tree in which equal layers are one row.
 *
 *      Llama                    20.1 GiB
 *        layers.* x32           18.0 GiB   576.0 MiB each     layers.0 to layers.31 and all layers in them
 *          mlp x32              12.0 GiB   384.0 MiB each     layers.0.mlp to layers.31.mlp
 *        lm_head                 1.0 GiB
 */
#ifndef VS_ANALYSIS_LAYERS_H
#define VS_ANALYSIS_LAYERS_H

#include "read/trace.h"
#include "read/living.h"

struct layer_row {
    char *name;          /* the path from the row's parent on; "*" for a number */
    char *type;          /* the class of all its layers; NULL: unknown, or several */
    int depth;           /* 0: outermost */
    int64_t bytes;       /* including its children's */
    int64_t count;       /* allocations */
    int64_t layers;      /* how many layers the row stands for */
    int64_t least, most; /* bytes of one of them */
};

/* Siblings whose names are numbers are one row if they are of one class or have no children.  So are more
 * than four siblings whose names differ only in a number at the end ("layer 7").  A node that holds nothing
 * by itself and has one child is one row with that child.
 *
 * The rows of all memory that has a layer, parents before their children, children by size.  If a layer with
 * children also holds memory by itself, that is a row "itself".  Rows below LEAST bytes are left out, and
 * beyond ROWS rows (0: all) the deepest.  *REST gets the bytes without a layer. */
struct layer_row *layers_tree(const struct trace_live *live, size_t n, int64_t least, size_t rows,
                              size_t *count, int64_t *rest);
void layers_free(struct layer_row *rows, size_t n);

/* ---- a few rows ---- */

/* What lived at a moment, in a few rows that add up to it: what it is for, by the layer that it
 * was made in.
 *
 *      activation        Llama.layers.* x32     3.10 GiB
 *      parameter                                2.00 GiB    made in no layer
 *      made in backward  Llama.lm_head          1.00 GiB    its role is not known: the phase of its birth
 *
 * A layer is its path down to the first number, which stands for every number there, or down to four names
 * where none of the first eight is one. */
struct part {
    char *what;     /* the role; where none is known "made in backward", "made outside any phase" */
    char *layer;    /* "Llama.layers.*", of one layer alone its path; NULL: in no layer */
    int64_t layers; /* that are one row; 0: in no layer */
    int64_t bytes, count;
};

/* Of N rows, the greatest first; for parts_free. */
struct part *parts_of(const struct trace_live *live, size_t n, size_t *count);
void parts_free(struct part *parts, size_t n);

/* The text of struct part's WHAT for one row; the caller frees it. */
char *part_what(const struct trace_live *l);
/* Its layer; NULL: none, or nothing but the marker that names its phase. */
const char *part_layer_of(const struct trace_live *l);
/* The path of the row that has LAYER, "Llama.layers.*"; NULL where LAYER is.  The caller frees it.  *OWN,
 * where OWN is not NULL, gets the length of the part of LAYER that tells it from the row's other layers. */
char *part_layer(const char *layer, size_t *own);

/* Whether a role, a layer is known of any row. */
bool parts_have_roles(const struct trace_live *live, size_t n);
bool parts_have_layers(const struct trace_live *live, size_t n);

#endif
