/*
 * place.h - which file a recovery writes to, and whether it may.
 */
#ifndef VS_TRACE_WRITER_PLACE_H
#define VS_TRACE_WRITER_PLACE_H

#include <limits.h>
#include <sys/stat.h>

#include "trace/journal/journal.h"

struct recover_place {
    char path[PATH_MAX]; /* without symbolic links */
    struct stat file;    /* the file that the path led to */
};

/* The database that journal J, which lies at JOURNAL, is merged into: DATABASE, or NULL: the one that the
 * journal names; made where it is not there.  0, or a negative errno with the reason in WHY. */
int recover_place(struct recover_place *place, const struct vs_journal *j, const char *journal,
                  const char *database, char *why, size_t why_size);

#endif
