/*
 * labels.h - what a program said of blocks of a snapshot, in words of its own.
 *
 * A program has two ways to do so.  torch.cuda.memory._set_memory_metadata sets a text, which each later
 * entry of the thread has (user_metadata).  _annotate_tensor makes an entry `annotate`, with a text for the
 * block that begins at its address.  The first text of a block is its label; what lived before the trace has
 * none.
 */
#ifndef VS_IMPORT_LABELS_H
#define VS_IMPORT_LABELS_H

#include "snapshot.h"
#include "trace/ledger/addresses.h"

struct labels {                   /* while a snapshot is read */
    struct vs_table texts, pairs; /* hashes: of labels, of them with a stack */
    struct vs_table last; /* by address: the entry that allocated there last, of the trace that is read */
};

/* E has TEXT (NULL: none) for a label, if it has no other. */
void labels_take(struct labels *l, struct snapshot *s, struct snapshot_event *e,
                 const struct pickle_value *text);
/* E of T allocates; and TEXT is said of what is at ADDRESS then. */
void labels_allocated(struct labels *l, const struct snapshot_trace *t, const struct snapshot_event *e);
void labels_annotate(struct labels *l, struct snapshot *s, struct snapshot_trace *t, uint64_t address,
                     const struct pickle_value *text);
void labels_end_trace(struct labels *l);
void labels_free(struct labels *l);

#endif
