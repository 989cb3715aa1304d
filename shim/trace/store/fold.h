/*
 * fold.h - the state of folding, shared by its files:
 *
 *      fold.c       which stretch is folded next, and which are joined
 *      fold_rows.c  which events of one stretch are deleted
 *      fold_sums.c  the sums that replace them: zones, ranges, samples
 *
 * All of it follows from the database.  A writer that continues a file, or had to roll a transaction back,
 * loads it again (vs_fold_load).
 */
#ifndef VS_TRACE_STORE_FOLD_H
#define VS_TRACE_STORE_FOLD_H

#include "internal.h"

struct vs_stretch { /* a complete one */
    uint64_t first_seq, last_seq, first_step, last_step, bytes;
    int64_t t_first, t_last;
    uint32_t folded; /* stretches in it, 0 = in full */
    uint32_t rows;   /* of zone, range_fold and sample that stand for it */
};

struct vs_pair { /* an end that was kept because its allocation is in full or lived at an out-of-memory */
    uint64_t alloc, end;
};

struct vs_node { /* a row that is deleted together with another */
    uint64_t seq;
    uint32_t next; /* node + 1, 0 none */
};

struct vs_fold {
    bool loaded, stuck; /* stuck: nothing is left to fold */
    VS_LIST(struct vs_stretch, at);
    uint64_t detail_bytes; /* of the stretches in full */
    uint64_t run_rows;     /* of the folded stretches */
    uint64_t kept;         /* rows of ev in folded stretches */

    /* rows that were kept of folded stretches, by what will end them */
    VS_LIST(struct vs_pair, pairs);
    VS_LIST(struct vs_node, nodes);
    uint32_t vacant;                    /* node + 1 */
    struct vs_table depends;            /* allocation -> node of the first row about it */
    struct vs_spans maps, reservations; /* -> node of the row */
    struct vs_table figures;            /* pool or arena -> node of the row with its last figure */

    /* about the stretch that is being folded */
    uint64_t first;
    bool skipped;               /* an older stretch is in full */
    uint64_t ooms[VS_OOMS_MAX]; /* out-of-memory events that the file describes */
    size_t oom_count;
    VS_LIST(uint8_t, keep);
    VS_LIST(uint64_t, gone);   /* older rows to be deleted */
    VS_LIST(uint64_t, pushed); /* ranges */
    VS_LIST(uint64_t, popped);
};

/* fold.c */
struct vs_stretch *vs_fold_stretch_of(struct vs_fold *f, uint64_t seq); /* NULL: none has SEQ */
bool vs_fold_in_full(struct vs_fold *f, uint64_t seq);
bool vs_fold_at(struct vs_fold *f, int64_t t); /* whether time T lies in a folded stretch */
/* A reading statement with its parameters bound; NULL: an error.  The caller resets it after the last row. */
sqlite3_stmt *vs_fold_query(struct vs_store *s, enum vs_statement which, int64_t a, int64_t b);

/* fold_rows.c */
int vs_fold_rows(struct vs_store *s, const struct vs_commit *c, const struct vs_stretch *stretch);
int vs_fold_pairs(struct vs_store *s); /* checks each kept pair again */
int vs_fold_load_rows(struct vs_store *s, const struct vs_stretch *stretch);
void vs_fold_forget_rows(struct vs_fold *f);

/* fold_sums.c: sums the rows from FIRST to LAST, which become stretch FIRST; *ROWS: how many rows that
 * leaves */
int vs_fold_sums(struct vs_store *s, uint64_t first, uint64_t last, uint32_t *rows);
int vs_fold_ranges(struct vs_store *s, const struct vs_commit *c, const struct vs_stretch *stretch);

#endif
