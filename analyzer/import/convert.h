/*
 * convert.h - the entries of a snapshot as events of a recording.
 *
 * At time 0 stands what the trace found: segments, then blocks, then RECORD_START. A phase's range is open as
 * long as call stacks show the phase (phases.h).  It ends with the last entry that is its own (lives.h), as
 * nobody knows what ran between that and the next phase; an optimizer's step that PyTorch marked ends where
 * the mark says.  A training step ends where an optimizer's phase does.
 */
#ifndef VS_IMPORT_CONVERT_H
#define VS_IMPORT_CONVERT_H

#include "roles.h"
#include "trace/event.h"
#include "trace/ledger/addresses.h"
#include "trace/journal/journal.h"

struct convert {
    struct snapshot *s;
    struct rewound *start; /* by device; changed on the way */
    const struct phases *phases;
    const struct pools *pools;
    struct vs_journal *journal;
    /* takes what the journal has; 0 or a negative errno */
    int (*drain)(void *context);
    void *context;

    uint32_t *stacks;                /* journal ids by snapshot stack - 1, 0 not made yet */
    uint32_t pool[SNAPSHOT_DEVICES]; /* that requests go to */
    uint32_t names[IMPORT_PHASES], range, appended;
    uint32_t sized; /* the journal's id of what blocks were asked for as: as many bytes as their sizes say */
    struct vs_table own; /* addresses of the driver's memory that no allocator of PyTorch's asked for: 0 */
    struct roles roles;
    bool driver_blocks;      /* some of that is told as blocks: the snapshot has no segments that fit to it */
    enum import_phase phase; /* that is open */
    int64_t first_ns, last_ns;
    bool timed, optimized;
    bool in_step;  /* that PyTorch marked */
    uint32_t told; /* the range of the recording's phase that is open; 0 none */
    size_t step;   /* the next of the recording's */
    bool over;     /* the phase's range has ended, with the last entry that was its own */
    uint32_t entry;
    size_t end; /* the next of the roles' */
    int rc;
};

#define DRAIN_EVERY 8192 /* events; the ring has twice as many slots */

/* What the journal needs room for.  Call before its creation. */
struct vs_journal_config convert_room(const struct snapshot *s);

/* The fields above the blank line are the caller's, the others zero.  0 or a negative errno. */
int convert_run(struct convert *c);

/* The journal's ids of a text, and of a stack of the snapshot's with a label around (0: none). */
uint32_t convert_string(const struct convert *c, const char *text, size_t n);
uint32_t convert_stack(struct convert *c, uint32_t stack, uint32_t label);
/* Of what the block of E, of an export of ours, was asked for as; 0: it does not say. */
uint32_t convert_asked(const struct convert *c, const struct snapshot_event *e);

#endif
