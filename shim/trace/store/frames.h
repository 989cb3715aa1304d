/*
 * frames.h - writes names of frames into a finished database.  Symbols are looked up later and elsewhere
 * than in the recording process (analyzer/read), but only this folder writes databases.
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

/* Opens the database PATH, which must exist, for vs_frames_name.  An SQLite code; the caller closes *DB in
 * any case.  The file is not trusted: nothing that it defines is run. */
int vs_frames_open(struct sqlite3 **db, const char *path);

/* Writes the COUNT NAMES in one transaction; with ALL, also marks every other frame as looked up without
 * success.  Returns the number of frames that have a function now; 0 if the database can't be written, which
 * then keeps its offsets. */
int vs_frames_name(struct sqlite3 *db, const struct vs_frame_name *names, size_t count, bool all);

#endif
