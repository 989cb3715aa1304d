/*
 * frames.h - names for the frames of a finished database: whoever looks symbols up, later and elsewhere than
 * in the recording process, has them written here, so that all that writes a database is in this folder.
 */
#ifndef VS_TRACE_STORE_FRAMES_H
#define VS_TRACE_STORE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sqlite3;

struct vs_frame_name {
    int64_t frame;               /* frame.id */
    const char *function, *file; /* NULL: not known */
    int line;                    /* of FILE */
};

/* Opens the database PATH, which must exist, for vs_frames_name.  An SQLite code; *DB is to be closed in any
 * case.  The file may be somebody else's: nothing that it defines is run. */
int vs_frames_open(struct sqlite3 **db, const char *path);

/* Writes the COUNT NAMES in one transaction; with ALL, that every other frame has been looked up in vain. The
 * number of frames that have a function now; 0 where the database can't be written: it keeps its offsets. */
int vs_frames_name(struct sqlite3 *db, const struct vs_frame_name *names, size_t count, bool all);

#endif
