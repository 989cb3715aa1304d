/*
 * database.h - what writers and readers of a recording's database agree on: its version, the kinds of loss,
 * how it is made.
 */
#ifndef VS_TRACE_DATABASE_H
#define VS_TRACE_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Of schema.sql; each file has it in meta.schema_version.  It rises with each change that a reader of the
 * previous version would misread: a file of another version is refused.  schema.sql and vramscope(5) repeat
 * it. */
#define VS_SCHEMA_VERSION 14
/* What SQLite's header calls application_id (bytes 68 to 71), of every file and every schema: "vscp". */
#define VS_APPLICATION_ID 0x76736370

/* The kinds of row in table `loss`, which say what a recording lacks; programs compare their codes.  A code
 * is part of the format: it is never renamed or reused.  The text is for people and may change with any
 * version.  X(NAME, code, text); text NULL where each row has its own. */
#define VS_LOSSES(X)                                                                                         \
    X(RING_FULL, "ring_full", "the ring was full (VRAMSCOPE_RING_EVENTS)")                                   \
    X(RING_FULL_ENDS, "ring_full_ends",                                                                      \
      "the ring was full to the last slot: frees, or ends of ranges, so that totals may be too high from "   \
      "there on (VRAMSCOPE_RING_EVENTS)")                                                                    \
    X(DEAD_SLOT, "dead_slot", "a thread ended while it wrote an event")                                      \
    X(LATE_SLOT, "late_slot", "written too late into a slot that was given up")                              \
    X(TABLE_FULL, "table_full",                                                                              \
      "a table of names or stacks was full: later ones are missing, their events are not")                   \
    X(TENSORS_FULL, "tensors_full",                                                                          \
      "the table of tensors was full: blocks of later, new tensors have no shape, or it is not known what "  \
      "they were made for")                                                                                  \
    X(GRAPHS, "graphs",                                                                                      \
      "memory of CUDA graphs that was not followed: more executable graphs or nodes than there is room for") \
    X(RANGES, "ranges",                                                                                      \
      "ranges beyond 64 open on a thread, or on more than 1024 threads with ranges: what was allocated in "  \
      "them has the phase of the range around them, or none")                                                \
    X(USES, "uses",                                                                                          \
      "the ring was full of what the device was given (VRAMSCOPE_RING_EVENTS): the access ledger has not "   \
      "followed the blocks of that time all their life, and calls none of them idle")                        \
    X(BIRTHS, "births", NULL)                                                                                \
    X(PHASE_NAMES, "phase_names", "too many phase names: later ones are counted as phase 'other phases'")    \
    X(NO_MEMORY, "no_memory", "vramscope ran out of memory")                                                 \
    X(HELD_LOG, "held_log",                                                                                  \
      "a reader kept a transaction open: until it ended the log beside the database (-wal) grew, past "      \
      "VRAMSCOPE_MAX_BYTES if need be")                                                                      \
    /* not lost: left out on purpose, and counted */                                                         \
    X(THINNED, "thinned",                                                                                    \
      "thinned, not lost: counted in every total and peak, but there was no room for its row "               \
      "(VRAMSCOPE_MAX_BYTES)")                                                                               \
    /* no loss: it was made of another tool's trace, and the text says what such a trace does not have */    \
    X(IMPORTED, "imported", NULL)                                                                            \
    /* a gap: calls may have bypassed the recording, and it is not known which */                            \
    X(NOT_COVERED, "not_covered", NULL)                                                                      \
    X(JOURNAL_CUT, "journal_cut",                                                                            \
      "not covered: the journal was truncated by another program, and the recording ended there")

enum vs_loss {
#define X(NAME, code, text) VS_LOSS_##NAME,
    VS_LOSSES(X)
#undef X
        VS_LOSS_END
};

static inline const char *vs_loss_code(enum vs_loss loss)
{
    static const char *const codes[] = {
#define X(NAME, code, text) code,
        VS_LOSSES(X)
#undef X
    };
    return codes[loss];
}

static inline const char *vs_loss_text(enum vs_loss loss)
{
    static const char *const texts[] = {
#define X(NAME, code, text) text,
        VS_LOSSES(X)
#undef X
    };
    return texts[loss] ? texts[loss] : vs_loss_code(loss);
}

/* What is told of a run when its database is made or continued. */
struct vs_database {
    const char *path;    /* created where it is absent or empty, otherwise continued after its mark */
    uint64_t max_bytes;  /* VRAMSCOPE_MAX_BYTES; 0 = unbounded */
    const char *version; /* of the tool */
    /* the row of `process`; unknown numbers are INT32_MIN, unknown texts NULL */
    const char *host, *boot_id, *command;
    const char *labels; /* that a user gave the run (core/options.h); NULL: none */
    const char *limit;  /* VRAMSCOPE_LIMIT; NULL: none */
    int32_t pid, rank, local_rank, world_size;
    int simulated;            /* process.simulated */
    const char *journal_path; /* written to meta of a new database */
    /* Only for a recovery (else NULL): the file that PATH must lead to when it has been opened.  A database
     * that is not empty must name the journal and have all events that the journal handed back
     * (store/open.c). */
    const struct stat *recovered_file;
    bool network; /* as on a network file system: no shared memory, no readers while running */
};

#endif
