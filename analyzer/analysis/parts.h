/*
 * parts.h - what lived at a moment, in a few rows that add up to it: what it is for, by the layer that it
 * was made in.
 *
 *      activation        Llama.layers.* x32     3.10 GiB
 *      parameter                                2.00 GiB    made in no layer
 *      made in backward  Llama.lm_head          1.00 GiB    its role is not known: the phase of its birth
 *
 * A layer is its path down to the first number, which stands for every number there, or down to four names
 * where none of the first eight is one.
 */
#ifndef VS_ANALYSIS_PARTS_H
#define VS_ANALYSIS_PARTS_H

#include "read/trace.h"
#include "read/living.h"

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
