/*
 * leftover.h - journals that killed processes left behind: finding them, merging them into their databases.
 *
 * A journal lives in VRAMSCOPE_JOURNAL_DIR, /dev/shm or beside its database, ends in .vsj and names its
 * database.
 */
#ifndef VS_LEFTOVER_H
#define VS_LEFTOVER_H

#include "base.h"

enum leftover_state {
    LEFTOVER_NONE,      /* no journal: the file is complete, or its process left nothing */
    LEFTOVER_RUNNING,   /* its process is alive */
    LEFTOVER_RECOVERED, /* merged */
    LEFTOVER_FAILED     /* why has the line */
};

/* Paths of every journal in the usual places; the caller frees each and the array. DIRECTORY: one more place,
 * or NULL */
char **leftover_scan(const char *directory, size_t *n);

/* The journal whose database is DATABASE, out of the usual places; NULL = none.  The caller frees it. */
char *leftover_find(const char *database);

/* Merges JOURNAL into DATABASE (NULL = as the journal says).  *EVENTS: how many came. */
enum leftover_state leftover_merge(const char *journal, const char *database, long *events, char *why,
                                   size_t why_size);

/* The database that JOURNAL belongs to and whether its process lives; NULL = not a journal. The caller frees
 * it. */
char *leftover_database(const char *journal, bool *alive);

#endif
