/*
 * store.h - the only writer of the database: batches of finished rows in, one transaction each, the mark
 * included.
 *
 * So a kill at any moment leaves whole batches.  A commit that fails is rolled back and can be repeated with
 * the same batch.
 *
 * Errors are negative errno: -ENOSPC, -EROFS, -EACCES, -EIO, -EBUSY (another writer), -EPROTO (newer schema),
 * -EINVAL (not our file), -ESTALE (not this journal's).  Not thread-safe.
 */
#ifndef VS_TRACE_STORE_STORE_H
#define VS_TRACE_STORE_STORE_H

#include "trace/database.h"
#include "trace/journal/journal.h"
#include "trace/ledger/ledger.h"

struct vs_store;

/* Creates or continues the database.  A database of another run is -EINVAL.  WHY gets one line. */
int vs_store_open(struct vs_store **out, const struct vs_database *config, struct vs_journal *journal,
                  char *why, size_t why_size);

/* Loads what the database holds into a fresh ledger (nothing where it is new). */
int vs_store_load(struct vs_store *s, struct vs_ledger *l);

/* The phase id of a name of the journal, made at its first use. */
uint32_t vs_store_phase(struct vs_store *s, uint32_t name);

/* The library that made the request of the journal's stack ID; NULL: it is not known. */
const char *vs_store_owner(const struct vs_store *s, uint32_t id);

/* How many events a batch should have: few if max_bytes is small, because a batch is written as a whole. */
size_t vs_store_batch(const struct vs_store *s);

/* Bytes of the write-ahead log if a reader's open transaction keeps it from being checkpointed, else 0. */
uint64_t vs_store_log_held(struct vs_store *s);

/* How many events a stretch has at most (ledger/stretch.c). */
uint32_t vs_store_stretch(const struct vs_store *s);
/* Whether the file says that its journal has been merged to its end. */
bool vs_store_merged(struct vs_store *s);

/* The level of thinning: which rows there is room for now (vs_ledger_set_thinning). */
int vs_store_level(struct vs_store *s);

/* A row of table loss, with the next batch.  WHY is copied; NULL: the kind's own text. */
void vs_store_loss(struct vs_store *s, int64_t t, uint64_t events, enum vs_loss what, const char *why);
uint64_t vs_store_lost(struct vs_store *s, enum vs_loss what); /* events in its loss rows so far */
/* A row of table meta, at once. */
int vs_store_fact(struct vs_store *s, const char *key, const char *value);
void vs_store_set_simulated(struct vs_store *s, int simulated);

struct vs_commit {
    struct vs_output *out;
    const struct vs_ledger *ledger;
    uint64_t seq, ring_seq;
    bool live;                /* write table live anew */
    bool peak_live;           /* and what lived at the peaks */
    bool merged;              /* nothing will follow: a killed process's journal is at its end */
    const char *came_to_exit; /* with MERGED: the journal's fact of that name, NULL unknown */
    int level;                /* of thinning that the rows were made with */
};
int vs_store_commit(struct vs_store *s, const struct vs_commit *c);

/* END_NS: since the start; -1 = the process did not end regularly.  Frees S in every case. */
int vs_store_close(struct vs_store *s, int64_t end_ns);

#endif
