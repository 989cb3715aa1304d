/*
 * updates.h - which blocks of an optimizer's step belong to the same parameter.
 *
 * An optimizer whose step makes its states anew, as in m = b * m + ..., makes and frees the same for each
 * parameter.  With gradients freed in backward that happens as soon as a parameter's gradient is there, so
 * what is recorded of the whole step is dealt to the parameters, in the order of their gradients.
 */
#ifndef VS_EDIT_UPDATES_H
#define VS_EDIT_UPDATES_H

#include "build.h"

struct update_event {
    uint64_t size;       /* of the parameter's gradient, bytes */
    uint32_t step, turn; /* TURN: it is the turn-th gradient of this size in its step */
    uint32_t event;      /* index into the program's events */
};

struct updates {
    struct update_event *at; /* sorted as its members are */
    size_t n;
    bool *moved;    /* by event of the program: it is one of these */
    uint32_t *step; /* by event of the program: steps that ended before it */
};

/* A step whose blocks cannot be dealt evenly, or that did not end, has no events here.  updates_free it. */
struct updates updates_find(const struct program *p);
void updates_free(struct updates *u);
/* What the step in which EVENT is does for the TURN-th gradient of SIZE bytes; *N of them, 0: not known. */
const struct update_event *updates_of(const struct updates *u, size_t event, uint64_t size, uint32_t turn,
                                      size_t *n);

#endif
