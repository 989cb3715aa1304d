/*
 * waste.h - how low a device's peak could have been, had blocks not held their bytes while they lay unused:
 * bounds, from the events of the recording themselves.
 *
 *      allocated   |     ____            a block     |_______|   from its allocation to its free
 *                  |  __|    |___        used            ^ ^     early: up to the first use
 *                  |_|           |_                          |-- freed late: from the last use on
 *
 * The bound is the greatest sum of a replay without the bytes that lie unused.  A peak cannot fall below it
 * by mending that waste, and need not fall so far, as it says nothing of what mending takes.  Of each
 * block's idle times only the longest is there, and nothing shorter than a millisecond: what else lay
 * unused counts as used.  A block that lies unused from a use on counts as needed at the event itself,
 * whatever the clock's grain.
 */
#ifndef VS_ANALYSIS_WASTE_H
#define VS_ANALYSIS_WASTE_H

#include "read/trace.h"
#include "read/curve.h"
#include "read/living.h"

struct waste_bound {
    int64_t at_peak; /* bytes that lay unused when the peak was reached */
    int64_t most;    /* ... at any time */
    int64_t mended;  /* the peak at the least without that waste */
    int64_t longest; /* ns that one block lay unused */
    int64_t count;   /* times that a block lay unused */
};

struct waste_group { /* what one line allocated in one layer and wasted in one way */
    enum trace_waste_kind kind;
    const char *line; /* NULL: no Python line; what it points to stays the trace's */
    char *layer;      /* a row of layers.h: "Llama.layers.*"; NULL: none */
    const char *role; /* of all of them; NULL: of none, or several */
    struct waste_bound bound;
    int64_t least; /* bound.mended, or less where waste_join knew of less */
};

struct waste_report {
    int64_t peak; /* of the replay */
    struct waste_bound all, kind[WASTE_KINDS];
    struct waste_group *groups; /* what lowers the peak most first, then what wastes the most at once */
    size_t count;
};

/* TOTALS in order of their seq; at least one.  ROWS, of one of the two views, are sorted anew. */
struct waste_report waste_of(const struct trace_total *totals, size_t n, struct trace_waste *rows,
                             size_t row_count);
/* The group of W of G's kind, line and layer, with workspaces apart; NULL: there is none. */
const struct waste_group *waste_group_like(const struct waste_report *w, const struct waste_group *g);
/* Each bound is worked out with all uses that were seen, and with the sure uses alone (view waste_at_most).
 * A use is not sure if the address stood in a structure that a kernel was given: an earlier call may have
 * left it there.  The peak can fall by what the second bound says and by no more; the first is what is to be
 * expected.
 *
 * Of one recording: the groups of SEEN get what SURE uses alone leave of the peak, and those that only SURE
 * has are added, without a waste that was seen. */
void waste_join(struct waste_report *seen, const struct waste_report *sure);
void waste_free(struct waste_report *w);

#endif
