/*
 * internal.h - shared by the back ends: the table through which api.c calls them, errors, sizes.
 *
 * A library and a plan begin with the structs here; each back end appends its own fields.
 */
#ifndef LCE_INTERNAL_H
#define LCE_INTERNAL_H

#include <stdbool.h>
#include "linear_cross_entropy.h"

struct lce_operations {
    void (*close)(struct lce *library);
    /* fills plan->info; MODE is not LCE_AUTO; CHUNK 0: the back end chooses */
    int (*plan_create)(struct lce *library, const struct lce_problem *problem, int mode, int64_t chunk,
                       struct lce_plan **plan);
    void (*plan_destroy)(struct lce_plan *plan);
    int (*run)(const struct lce_plan *plan, const struct lce_buffers *buffers, void *stream);
    size_t workspace_alignment;
    int (*scale)(const struct lce *library, void *matrix, uint64_t count, int dtype, const float *factor,
                 void *stream);
};

struct lce {
    const struct lce_operations *operations;
};

struct lce_plan {
    struct lce *library;
    struct lce_problem problem; /* strides, dtypes, temperature and vocab_total filled in */
    struct lce_plan_info info;
};

int lce_cpu_open(struct lce **library);
int lce_cuda_open(struct lce **library); /* in cuda/, or in api.c if there was no nvcc */

/* Writes the line of lce_message() and returns STATUS. */
int lce_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* problem.c */
int lce_problem_check(const struct lce_problem *problem, struct lce_problem *complete);
int lce_buffers_check(const struct lce_plan *plan, const struct lce_buffers *buffers);
bool lce_wants_gradients(const struct lce_problem *problem);
/* Whether the problem is one rank's share: its first run or its second. */
bool lce_in_parts(const struct lce_problem *problem);
size_t lce_dtype_size(int dtype);
/* api.c: calls the caller's exchange, where there is something to tell. */
int lce_tell(const struct lce_plan *plan, const struct lce_buffers *buffers, int step, int64_t first,
             int64_t count, void *stream);

/* Reserves COUNT * SIZE bytes of the workspace at *TOTAL and moves *TOTAL to the next multiple of 256.
 * Returns where the part begins. */
size_t lce_part(size_t *total, size_t count, size_t size);

#endif
