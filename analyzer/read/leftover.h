/*
 * leftover.h - journals that killed processes left behind: finding them, merging them into their databases.
 *
 * A journal lives in VRAMSCOPE_JOURNAL_DIR, /dev/shm or beside its database, ends in .vsj and names its
 * database.
 */
#ifndef VS_READ_LEFTOVER_H
#define VS_READ_LEFTOVER_H

#include "base/base.h"

enum leftover_state {
    LEFTOVER_NONE,      /* there is no such journal, or it is another run's */
    LEFTOVER_RUNNING,   /* its process is alive */
    LEFTOVER_DEAD,      /* its process is not, so that it can be merged */
    LEFTOVER_RECOVERED, /* merged to its end */
    LEFTOVER_REMOVED,   /* its process was killed before it recorded anything */
    LEFTOVER_OTHERS,    /* another user's; why has a line for him */
    LEFTOVER_FAILED     /* why has the line */
};

/* Paths of every journal in the usual places; the caller frees each and the array. DIRECTORY: one more place,
 * or NULL */
char **leftover_scan(const char *directory, size_t *n);

/* The journal whose database is DATABASE, out of the usual places; NULL = none.  The caller frees it. */
char *leftover_find(const char *database);

/* What is to be done about JOURNAL, if it is of the run that began at START_REALTIME_NS. */
enum leftover_state leftover_look(const char *journal, int64_t start_realtime_ns, char *why, size_t why_size);

/* Removes PATH if it is a journal that its process was killed over while it made it (unborn.c). */
bool leftover_remove_unborn(const char *path);

/* Whether PATH is another user's; then WHY says who he is and what he can do. */
bool leftover_others(const char *path, char *why, size_t why_size);

/* Merges JOURNAL into DATABASE (NULL = as the journal says).  *EVENTS: how many came. */
enum leftover_state leftover_merge(const char *journal, const char *database, long *events, char *why,
                                   size_t why_size);

/* What JOURNAL is: running, dead, another user's, failed (no journal), none (not there), removed (it held
 * nothing, and never will); of the first two
 * *DATABASE gets the file that it names, which the caller frees. */
enum leftover_state leftover_database(const char *journal, char **database, char *why, size_t why_size);

#endif
