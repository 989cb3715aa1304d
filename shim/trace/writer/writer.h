/*
 * writer.h - ledger and store together: takes events out of a journal and makes database rows of them.
 *
 * The drain thread of a recording process and `vramscope recover` run this code, so a recovered file cannot
 * differ from one that ended well.  An event is handed back to the ring only after its row is committed, and
 * the commit carries the ring's sequence (table mark): a kill between the two repeats nothing and loses
 * nothing.
 *
 * Not thread-safe: one thread drives a writer.
 */
#ifndef VS_TRACE_WRITER_WRITER_H
#define VS_TRACE_WRITER_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/control.h"
#include "trace/database.h"
#include "trace/journal/journal.h"

struct vs_writer;

/* 0 or a negative errno (-EROFS, -ENOSPC, -EPROTO for a database of a newer schema, -EINVAL for a foreign
 * file); WHY gets one line. */
int vs_writer_open(struct vs_writer **out, const struct vs_database *config, struct vs_journal *journal,
                   char *why, size_t why_size);

/* Moves events from the journal to the database: at most one batch (a few thousand events, one transaction).
 * FINAL: no producer is left, so there is nothing to wait for.  Returns the events taken, 0 = nothing there,
 * or a negative errno (the batch was rolled back and stays in the journal: calling again later repeats
 * it). */
long vs_writer_drain(struct vs_writer *w, bool final);

/* Whether the writer can no longer write and must be closed and opened again: see vs_vfs_gone.  Events that
 * it has not committed are still in the journal. */
bool vs_writer_broken(void);

/* Declares that the calling thread has, for good, a descriptor table of its own and all signals blocked: its
 * writes need no further system calls. */
void vs_writer_alone(void);

/* The events taken since it was opened. */
long vs_writer_taken(const struct vs_writer *w);

/* Something was lost or went wrong: a row in `loss`, written with the next batch.  WHY is copied; NULL: the
 * kind's own text. */
void vs_writer_loss(struct vs_writer *w, uint64_t events, enum vs_loss what, const char *why);

/* Sets which driver the process runs on, as process.simulated has it (known only after a query of the
 * driver); DRY, where it is a dry run: what of (VRAMSCOPE_DRY_SETUP), or NULL. */
void vs_writer_set_simulated(struct vs_writer *w, int simulated, const char *dry);

/* See vs_ledger_blocks. */
size_t vs_writer_blocks(const struct vs_writer *w, const struct vs_control_request *request,
                        struct vs_control_block *blocks, size_t most, size_t *named);

/* What others than the arena hold of the devices: their bytes, and in TEXT who they are and what each has. */
uint64_t vs_writer_beside(const struct vs_writer *w, char *text, size_t size);

/* Declares that the journal is drained for good; the transaction of vs_writer_close records it
 * (meta.journal_merged). */
void vs_writer_merged(struct vs_writer *w);

/* CLEAN: the process ended regularly and the journal is empty (process.end_ns, meta.clean_end).  In that
 * case, and after vs_writer_merged, open ranges and refusals are written as ended there.  Otherwise more
 * events may come: the file is left as after a kill, for the writer that continues with the journal.  In
 * every case a checkpoint, back to journal_mode=DELETE: one file; and W is freed. */
int vs_writer_close(struct vs_writer *w, bool clean);

/* The same, of a process that ended in good order END_NS after its start: a trace that is imported ended long
 * ago. */
int vs_writer_close_at(struct vs_writer *w, int64_t end_ns);

/* A row of table meta, written at once.  0 or a negative errno. */
int vs_writer_fact(struct vs_writer *w, const char *key, const char *value);

/* Completes a database from the journal that a killed process left: opens both, drains, closes, removes the
 * journal file when it is empty.  DATABASE NULL = as the journal says.  Returns the number of events
 * recovered or a negative errno, WHY as above; among them
 *   -EBUSY, the recording process lives;
 *   -EAGAIN, another recovery holds the journal's lock, for seconds;
 *   -ENOENT, there is no such journal (any more);
 *   -EPERM, journal or database belong to another user;
 *   -ESTALE, journal and database do not belong together;
 *   -ENODATA, no event was ever in it, and its database is gone: the journal has been removed.
 * It may be killed at any moment, or meet a full disk, and be repeated: the database names its journal from
 * its first transaction on, and says that it is merged to its end in the last one. */
long vs_recover(const char *journal_path, const char *database, char *why, size_t why_size);

#endif
