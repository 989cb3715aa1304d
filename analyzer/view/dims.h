/*
 * dims.h - who held the memory, by role, layer, line, phase and tensor: which names get an area of their own
 * in the picture, and how many bytes each had in a state.
 *
 * State I is what is there after the first I changes.  In each state the slots of a dimension add up to
 * `allocated`. Slot 0 has what no block accounts for (held before the recording, or from stretches that were
 * folded), the last slot all names that never held most.
 */
#ifndef VS_VIEW_DIMS_H
#define VS_VIEW_DIMS_H

#include "read/asked.h"
#include "read/lives.h"

enum view_dim { VIEW_ROLE, VIEW_LAYER, VIEW_LINE, VIEW_PHASE, VIEW_TENSOR, VIEW_DIMS };
#define VIEW_SLOTS 18
#define VIEW_NAMED (VIEW_SLOTS - 2) /* slots 1 to VIEW_NAMED */
#define VIEW_REST  (VIEW_SLOTS - 1)

struct view_names {     /* of one dimension; index 0 is what has none */
    const char **texts; /* of others */
    size_t count;
    uint8_t *slot;              /* of each name */
    uint32_t named[VIEW_SLOTS]; /* slot to name; of 1 to named_count */
    size_t named_count;
    int64_t rest_names; /* names without a slot that held something */
};

/* The name of a block in each dimension: line and layer by its stack, a row of STACKS.  Equal layers are one
 * name, as in analysis/layers.h: "Llama.layers.*", and of one layer alone its own path. */
struct view_tags {
    uint32_t *stack_line, *stack_layer; /* name index of each row of the stack table */
    struct texts lines, layers, folds, owns;
    uint32_t *layer_fold, *layer_own; /* of each layer: its index in folds, and in owns, which folds join */
};
/* Blocks' stacks become indices of rows of S, from 1. */
struct view_tags view_tags(const struct trace_stacks *s);
void view_free_tags(struct view_tags *g);
void view_index_stacks(struct trace_block *blocks, size_t n, const struct trace_stacks *s);

struct view_dims {
    struct view_names names[VIEW_DIMS];
    uint8_t (*slots)[VIEW_DIMS]; /* of each block */
    const struct trace_change *changes;
    const struct trace_block *blocks;
    size_t change_count;
};

/* What the blocks of a process were asked for as (tensors.c). */
struct view_asked {
    struct asked_table table;
    uint32_t *name;     /* of each row, [0] is not known: index into names */
    struct texts names; /* [0] "no tensor is known" */
    uint32_t *number;   /* of each row in the page; 0: it has none yet */
    uint32_t *used;     /* rows by their numbers in the page, from 1 */
    uint32_t used_count;
};
/* 0, or -1 with the reason in T's why. */
int view_read_asked(struct trace *t, struct view_asked *a);
void view_free_asked(struct view_asked *a);
/* Blocks' tensors become indices of A's rows, 0: none. */
void view_index_asked(struct trace_block *blocks, size_t n, const struct view_asked *a);
/* No row has a number in the page any more. */
void view_forget_asked(struct view_asked *a);
/* The number in the page of ROW, from 1; 0 of 0. */
uint32_t view_use_asked(struct view_asked *a, uint32_t row);

/* PHASES: the texts of phases by their indices, as view_names of the others. */
struct view_dims view_dims(const struct trace_lives *l, const char *const *phases, size_t phase_count,
                           const struct view_tags *g, const struct view_asked *a);
void view_free_dims(struct view_dims *d);

/* Goes through the states in order. */
struct view_state {
    size_t at;
    int64_t bytes[VIEW_DIMS][VIEW_SLOTS];
};
void view_state_forward(const struct view_dims *d, struct view_state *s, size_t at);

#endif
