/* dropped.h - see dropped.c. */
#ifndef VS_TRACE_JOURNAL_DROPPED_H
#define VS_TRACE_JOURNAL_DROPPED_H

#include <stdatomic.h>
#include <stdbool.h>

#include "trace/event.h"

#define VS_DROPPED_KEYS 65536u

struct vs_dropped {
    _Atomic uint64_t *key;  /* VS_DROPPED_KEYS of them; 0: empty */
    _Atomic uint32_t count; /* all that is read where nothing was dropped */
};

/* The allocation EVENT was dropped: remembers it, where there is room and it is one that succeeded. */
void vs_dropped_add(struct vs_dropped *u, const struct vs_event *event);

/* EVENT is about to be recorded: whether it frees an allocation that was dropped.  Either way the address is
 * forgotten: a free ends it, and an allocation that is recorded takes its place. */
bool vs_dropped_take(struct vs_dropped *u, const struct vs_event *event);

#endif
