/* losses.c - rows about what was lost, and what the ledger is told of it. */
#include "losses.h"

#include <stdio.h>

#define LOSS_NS 1000000000

enum {
    LOST_FULL,
    LOST_DEAD,
    LOST_TABLE,
    LOST_LATE,
    LOST_GRAPHS,
    LOST_ENDS,
    LOST_RANGES,
    LOST_BIRTHS,
    LOST_TENSORS,
    LOST_USES,
    LOSSES
};
_Static_assert(LOSSES == VS_LOSSES_KINDS, "one of each");

static const enum vs_loss loss_of[LOSSES] = {
    [LOST_FULL] = VS_LOSS_RING_FULL, [LOST_DEAD] = VS_LOSS_DEAD_SLOT, [LOST_TABLE] = VS_LOSS_TABLE_FULL,
    [LOST_LATE] = VS_LOSS_LATE_SLOT, [LOST_GRAPHS] = VS_LOSS_GRAPHS,  [LOST_ENDS] = VS_LOSS_RING_FULL_ENDS,
    [LOST_RANGES] = VS_LOSS_RANGES,  [LOST_BIRTHS] = VS_LOSS_BIRTHS,  [LOST_TENSORS] = VS_LOSS_TENSORS_FULL,
    [LOST_USES] = VS_LOSS_USES,
};

void vs_losses_load(struct vs_losses *l, struct vs_store *store)
{
    for (size_t i = 0; i < LOSSES; i++)
        l->lost[i] = vs_store_lost(store, loss_of[i]);
    l->ends_seen = l->lost[LOST_ENDS];
    l->dead_seen = l->lost[LOST_DEAD] + l->lost[LOST_LATE];
    l->gaps_seen = l->lost[LOST_FULL] + l->ends_seen + l->dead_seen;
}

/* Notes what bypassed the recording, each thing once; how many calls is not known.  (A database that is
 * continued gets the same rows again, which readers show as one.) */
static void note_uncovered(struct vs_losses *l, struct vs_journal *journal, struct vs_store *store, int64_t t)
{
    char key[24];
    while (l->uncovered < VS_UNCOVERED_FACTS) {
        snprintf(key, sizeof key, VS_UNCOVERED_FACT, l->uncovered);
        const char *why = vs_journal_fact(journal, key);
        if (why == NULL)
            break;
        vs_store_loss(store, t, 0, VS_LOSS_NOT_COVERED, why);
        l->uncovered++;
    }
}

/* Names are missing, and no events. */
static void note_births(struct vs_store *store, int64_t t, uint64_t n)
{
    char why[200];
    snprintf(why, sizeof why,
             "%llu births in backward whose node was made too many nodes of its thread before to know where: "
             "they have the node's name and no line",
             (unsigned long long)n);
    vs_store_loss(store, t, 0, VS_LOSS_BIRTHS, why);
}

bool vs_losses_note(struct vs_losses *l, struct vs_journal *journal, struct vs_store *store, int64_t t,
                    bool now)
{
    struct vs_journal_stats s;
    vs_journal_stats(journal, &s);
    const uint64_t total[LOSSES] = {[LOST_FULL] = s.lost - s.lost_ends, [LOST_DEAD] = s.dead,
                                    [LOST_TABLE] = s.table_full,        [LOST_LATE] = s.late,
                                    [LOST_GRAPHS] = s.untracked,        [LOST_ENDS] = s.lost_ends,
                                    [LOST_RANGES] = s.lost_ranges,      [LOST_BIRTHS] = s.lost_births,
                                    [LOST_TENSORS] = s.tensors_full,    [LOST_USES] = s.lost_uses};
    bool any = s.lost > l->lost_seen;
    note_uncovered(l, journal, store, t);
    l->lost_seen = s.lost;
    for (size_t i = 0; i < LOSSES; i++) {
        if (total[i] <= l->lost[i] || (!now && t - l->loss_t[i] < LOSS_NS && l->loss_t[i]))
            continue;
        /* these count requests, possibly for one name again and again, or launches, not events */
        bool table = i == LOST_TABLE || i == LOST_TENSORS || i == LOST_USES;
        if (i == LOST_BIRTHS)
            note_births(store, t, total[i] - l->lost[i]);
        else if (!table || !l->lost[i])
            vs_store_loss(store, t, table ? 0 : total[i] - l->lost[i], loss_of[i], NULL);
        l->lost[i] = total[i];
        l->loss_t[i] = t;
        any = true;
    }
    return any;
}

/* The kind of an event that was claimed and never published is unknown, so it may have been an end. */
void vs_losses_report(struct vs_losses *l, struct vs_journal *journal, struct vs_ledger *ledger, uint64_t fed,
                      uint64_t last)
{
    struct vs_journal_stats s;
    uint64_t from, to;
    if (vs_journal_lost_ends(journal, &l->ends_seen, &from, &to))
        vs_ledger_lost_ends(ledger, from ? from : fed + 1, to);
    vs_journal_stats(journal, &s);
    if (s.dead + s.late > l->dead_seen)
        vs_ledger_lost_ends(ledger, fed + 1, last);
    l->dead_seen = s.dead + s.late;
    if (s.lost + l->dead_seen > l->gaps_seen)
        vs_ledger_lost(ledger, last);
    l->gaps_seen = s.lost + l->dead_seen;
}
