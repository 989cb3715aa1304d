/* dropped.h - see dropped.c. */
#ifndef VS_TRACE_JOURNAL_DROPPED_H
#define VS_TRACE_JOURNAL_DROPPED_H

#include <stdatomic.h>
#include <stdbool.h>

#include "trace/event.h"

#define VS_DROPPED_KEYS 65536u

struct vs_dropped {
    _Atomic uint64_t *key;  /* VS_DROPPED_KEYS of them; 0: empty */
    _Atomic uint32_t count; /* of remembered addresses; 0 in the usual case, in which nothing else is read */
};

/* Remembers the dropped allocation EVENT, if there is room and the allocation succeeded. */
void vs_dropped_add(struct vs_dropped *u, const struct vs_event *event);

/* Called before EVENT is recorded: whether it frees an allocation that was dropped.  Either way its address
 * is forgotten, because a free ends the dropped allocation and a recorded allocation replaces it. */
bool vs_dropped_take(struct vs_dropped *u, const struct vs_event *event);

#endif
