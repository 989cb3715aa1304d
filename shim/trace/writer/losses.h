/*
 * losses.h - turns what the journal counted as lost into rows of table `loss`, and into doubts of the ledger.
 */
#ifndef VS_TRACE_WRITER_LOSSES_H
#define VS_TRACE_WRITER_LOSSES_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/journal/journal.h"
#include "trace/ledger/ledger.h"
#include "trace/store/store.h"

#define VS_LOSSES_KINDS 10 /* counters; losses.c has their names */

struct vs_losses {
    uint64_t lost[VS_LOSSES_KINDS], lost_seen; /* in rows; last seen */
    uint64_t ends_seen, dead_seen, gaps_seen;  /* losses that the ledger knows of: ends, dead slots, any */
    int64_t loss_t[VS_LOSSES_KINDS];
    int uncovered; /* how many facts of that kind have their rows */
};

/* A database that is continued has rows for earlier losses. */
void vs_losses_load(struct vs_losses *l, struct vs_store *store);

/* Writes rows for losses since the last call, with the time T; at most one row a second of each kind unless
 * NOW.  Returns whether anything was lost. */
bool vs_losses_note(struct vs_losses *l, struct vs_journal *journal, struct vs_store *store, int64_t t,
                    bool now);

/* Reports to the ledger what is missing among the events behind FED and up to LAST, which it is fed next. */
void vs_losses_report(struct vs_losses *l, struct vs_journal *journal, struct vs_ledger *ledger, uint64_t fed,
                      uint64_t last);

#endif
