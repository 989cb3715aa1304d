/*
 * leftover.h - finds journals that killed processes left, and merges them into their databases.
 *
 * A journal ends in .vsj, names its database, and lies in VRAMSCOPE_JOURNAL_DIR, in /dev/shm or beside it.
 */
#ifndef VS_READ_LEFTOVER_H
#define VS_READ_LEFTOVER_H

#include "base/base.h"

enum leftover_state {
    LEFTOVER_NONE,      /* there is no such journal, or it belongs to another run */
    LEFTOVER_RUNNING,   /* its process is alive */
    LEFTOVER_DEAD,      /* its process is dead, so it can be merged */
    LEFTOVER_RECOVERED, /* merged to its end */
    LEFTOVER_REMOVED,   /* its process was killed before it recorded anything */
    LEFTOVER_OTHERS,    /* it belongs to another user; `why` has a line about it */
    LEFTOVER_FAILED     /* why has the line */
};

/* Paths of every journal in the usual places; the caller frees each and the array. DIRECTORY: one more place,
 * or NULL */
char **leftover_scan(const char *directory, size_t *n);

/* The journal in the usual places whose database is DATABASE; NULL = none.  The caller frees it. */
char *leftover_find(const char *database);

/* The state of JOURNAL, if it belongs to the run that began at START_REALTIME_NS. */
enum leftover_state leftover_look(const char *journal, int64_t start_realtime_ns, char *why, size_t why_size);

/* Whether PATH belongs to another user; if so WHY names the user and what that user can do. */
bool leftover_others(const char *path, char *why, size_t why_size);

/* Merges JOURNAL into DATABASE (NULL = as the journal says).  *EVENTS: how many were merged. */
enum leftover_state leftover_merge(const char *journal, const char *database, long *events, char *why,
                                   size_t why_size);

/* The state of JOURNAL: running, dead, others, failed (not a journal), none (not there), removed (it was
 * empty, and its process is dead).  In the first two cases *DATABASE gets the file that it names, which the
 * caller frees. */
enum leftover_state leftover_database(const char *journal, char **database, char *why, size_t why_size);

#endif
