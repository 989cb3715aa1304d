/*
 * remedies.h - what a person could do about a run's memory, with what it gains: PyTorch's settings and
 * changes of the program, the greatest gain first.
 *
 * After a refused request that is what would have let it pass, and how much would be left then; of any other
 * run what lowers the peak of what PyTorch reserves.  A gain by luck of packing is none: what can be luck
 * must hold with other sizes, too (edit/refusal.h).
 *
 * Bytes.  Not thread-safe; the threads that it starts have ended when it returns.
 */
#ifndef VS_WHATIF_REMEDIES_H
#define VS_WHATIF_REMEDIES_H

#include "edit/edits.h"
#include "read/ooms.h"
#include "replay/replay.h"

struct remedy {
    char *name;       /* an edit's, "checkpoint=1"; of a setting how a run gets it; owned */
    struct edit edit; /* of the program; edit.text is NULL: a setting */
    struct edit and;  /* of two edits the second; its text is NULL: there is one */
    bool not_made;    /* the request is not made any more: nothing is known to be left */
    int64_t then;     /* refused: the largest request that passes next; else reserved, at the most */
};

struct remedies {
    struct remedy *rows;
    size_t count;
    char *why; /* of changes of the program nothing is known, and why; NULL; owned */
    int64_t
        now; /* not refused: what the gains are from: the most that the allocator reserved as recorded, or */
    bool replayed; /* as replayed from an empty cache, where that is less */
    size_t events; /* that were replayed */
};

/* A recording of more than MOST events is not replayed: why.  0, or -1 with t->why.
 * Of the refusal O, a framework's, after which no step ended. */
int remedies_of_refusal(struct trace *t, const struct trace_oom_kept *o, int64_t most, struct remedies *out);
/* Of the blocks of a framework's on DEVICE. */
int remedies_of_peak(struct trace *t, int64_t device, int64_t most, struct remedies *out);
/* What changes cost, in two or three words each, as they are written, "states=8bit checkpoint=2"; owned. */
char *remedy_costs(const char *names);
void remedies_free(struct remedies *r);

#endif
