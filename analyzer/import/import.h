/*
 * import.h - a PyTorch memory snapshot becomes a recording.
 *
 *      pickle --unpickle.h--> values --snapshot.h--> entries, end state --rewind.h--> start state
 *             --convert.h--> events in a journal --the writer of recordings--> database
 *
 * The events go through the same ledger and store as a recording's, so every command reads the database as
 * any other.  What a snapshot does not have is left unknown: devices' names, the driver's own figures, what
 * ran before its first entry.
 */
#ifndef VS_IMPORT_IMPORT_H
#define VS_IMPORT_IMPORT_H

#include <stddef.h>
#include <stdint.h>

struct import_job {
    const char *snapshot; /* path */
    const char *database; /* path; may not exist */
    const char *version;  /* of the tool */
};

struct import_result {
    uint64_t entries; /* of its traces */
    uint64_t blocks;  /* alive before the first one */
    uint64_t before;  /* bytes of the devices that were reserved before it */
    uint64_t misfits;
    int devices; /* that have memory or a trace */
    int64_t ns;  /* from the first entry to the last */
};

/* 0, or -1 with one line in WHY, which names the file; then there may be a part of a database. */
int import_snapshot(const struct import_job *job, struct import_result *result, char *why, size_t why_size);

/* The rank in a file's name ("snapshot_rank3.pickle"); INT32_MIN where there is none. */
int32_t import_rank(const char *path);

#endif
