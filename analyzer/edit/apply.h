/* apply.h - the edits, one function each; see edits.h.  HIGH: the program with the most memory that it can
 * mean. */
#ifndef VS_EDIT_APPLY_H
#define VS_EDIT_APPLY_H

#include "build.h"
#include "edits.h"

/* A program, or one without events and R->why. */
struct program apply_loss(const struct program *from, const struct edit *e, struct edit_result *r, bool high);
struct program apply_foreach(const struct program *from, const struct edit *e, struct edit_result *r,
                             bool high);
struct program apply_optimizer(const struct program *from, const struct edit *e, struct edit_result *r,
                               bool high);
struct program apply_states(const struct program *from, const struct edit *e, struct edit_result *r,
                            bool high);
struct program apply_gradients(const struct program *from, const struct edit *e, struct edit_result *r,
                               bool high);
struct program apply_set_to_none(const struct program *from, const struct edit *e, struct edit_result *r,
                                 bool high);
struct program apply_accumulate(const struct program *from, const struct edit *e, struct edit_result *r,
                                bool high);
struct program apply_checkpoint(const struct program *from, const struct edit *e, struct edit_result *r,
                                bool high);
struct program apply_batch(const struct program *from, const struct edit *e, struct edit_result *r,
                           bool high);
struct program apply_sequence(const struct program *from, const struct edit *e, struct edit_result *r,
                              bool high);
struct program apply_types(const struct program *from, const struct edit *e, struct edit_result *r,
                           bool high);
struct program apply_zero(const struct program *from, const struct edit *e, struct edit_result *r, bool high);

/* R->why; returns a program without events. */
struct program refuse(struct edit_result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Likewise, as there is nothing to change. */
struct program refuse_nothing(struct edit_result *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What most edits need; false with R->why. */
bool needs_steps(const struct program *p, struct edit_result *r);
bool needs_roles(const struct program *p, struct edit_result *r);
bool needs_layers(const struct program *p, struct edit_result *r);

#endif
