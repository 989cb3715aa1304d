/*
 * database.h - what is told of a run when its database is made or continued (writer, store).
 */
#ifndef VS_TRACE_DATABASE_H
#define VS_TRACE_DATABASE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct vs_database {
    const char *path;    /* created where it is absent or empty, otherwise continued after its mark */
    uint64_t max_bytes;  /* VRAMSCOPE_MAX_BYTES; 0 = unbounded */
    const char *version; /* of the tool */
    /* the row of `process`; unknown numbers are INT32_MIN, unknown texts NULL */
    const char *host, *boot_id, *command;
    const char *labels; /* that a user gave the run (core/options.h); NULL: none */
    int32_t pid, rank, local_rank, world_size;
    int simulated;            /* process.simulated */
    const char *journal_path; /* written to meta of a new database */
    /* Only for a recovery (else NULL): the file that PATH must lead to when it has been opened.  A database
     * that is not empty must name the journal and have all events that the journal handed back
     * (store/join.c). */
    const struct stat *recovered_file;
    bool network; /* as on a network file system: no shared memory, no readers while running */
};

#endif
