/* files.h - what is done with databases beside recording into them. */
#ifndef VS_TRACE_STORE_FILES_H
#define VS_TRACE_STORE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sqlite3;

/* ---- schema.sql, embedded, and what a file that somebody else may have changed is held to ---- */

extern const char vs_schema_sql[];

/* For each connection that writes: what the file itself would have run (triggers, functions in its schema) is
 * not run. */
void vs_schema_guard(struct sqlite3 *db);
/* Whether the tables of DB are those of the schema, column by column; others beside them are somebody's. */
bool vs_schema_is_ours(struct sqlite3 *db);

/* ---- names of frames: they are looked up later than in the recording process (analyzer/read) ---- */

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

/* ---- the recording of one file put into another one, as a process of its own ----
 *
 * As schema.sql says: numbers of events and ranges move up by 2^40 a process; ids of kinds move behind those
 * that are there; names (strings, stacks, frames, modules) that are there already are not written a second
 * time, and phases are matched by theirs.  Both files must be complete, and of this schema.  Nothing that
 * FROM defines is run: its tables are copied, the points of a sweep among them. */

/* The user_version of a file that vs_store_merge_begin made: it stands for the files of a job (bytes 60 to 63
 * of SQLite's header). */
#define VS_MERGED 0x4a4f42

/* Creates INTO, which must not be there or be empty, for vs_store_merge_add, with the fixed names of the file
 * LIKE. 0, or -1 with a line in WHY. */
int vs_store_merge_begin(const char *into, const char *like, char *why, size_t why_size);

/* A merged file that is being written: the names that it has are known once. */
struct vs_merge;
/* Opens INTO, which vs_store_merge_begin made or a recording is.  0, or -1 with a line in WHY. */
int vs_store_merge_open(struct vs_merge **out, const char *into, char *why, size_t why_size);
/* Copies the processes of the file FROM, the first as process PROCESS: the file has no process of that number
 * or a higher one.  In one transaction.  STEPS: of SQLite's virtual machine that it may take, 0 as many as it
 * takes.  0, or -1 with a line in WHY: then nothing was copied, and the merge can only be closed. */
int vs_store_merge_add(struct vs_merge *m, const char *from, int64_t process, int64_t steps, char *why,
                       size_t why_size);
/* How many axes of the points that were copied have no column in the views; their values are in table
 * sweep_value alone. */
size_t vs_store_merge_axes_left(const struct vs_merge *m);
/* From here on the points of a sweep that a file has get the value SWEEP of an axis of that name (below);
 * NULL, as at first: no such axis.  SWEEP lives on. */
void vs_store_merge_sweep(struct vs_merge *m, const char *sweep);
/* NULL does nothing. */
void vs_store_merge_close(struct vs_merge *m);

/* ---- the points of a sweep, in the merged database of its recordings ----
 *
 *      sweep_point      a row a point: how it ended, what was predicted
 *      sweep_value      the value of each axis at it
 *      sweep_process    which processes of the file are its recordings
 *      sweep            (view) a row a point, an axis a column: what its processes held at most
 *      sweep_rank       (view) likewise a row a process
 *
 * In the views an axis that has the name of another column gets axis_ before it.
 */

struct vs_point { /* INT64_MIN: unknown, NULL in the database */
    const char *name, *outcome, *status;
    const char *const *values; /* of each axis */
    int64_t ns, expected_processes, refused_bytes;
    int64_t predicted_allocated, predicted_reserved, predicted_rank;
    bool fitted;
    const struct vs_point_process {
        int64_t process;
        double rate; /* steps a second; NAN */
    } * processes;
    size_t process_count;
};

/* Writes them into the database INTO, which has the processes.  0, or -1 with a line in WHY. */
int vs_store_points(const char *into, const char *const *axes, size_t axis_count,
                    const struct vs_point *points, size_t n, char *why, size_t why_size);

/* What stands before an axis' name where a column of the views or of a sweep's table is called so: "axis_"
 * where another column is, "" else. */
const char *vs_store_axis_prefix(const char *axis);

/* As an attached database OTHER of DB has them, whose first process is process PROCESS here: into DB, behind
 * what is there, inside of a transaction.  SWEEP: the value of an axis of that name that the points get, so
 * that those of several sweeps are told apart; NULL: none.  *LEFT: how many axes the views have no column
 * for, which stays as it is where OTHER has no points.  0, also where OTHER has no points, or -1, and DB has
 * the error. */
int vs_store_points_copy(struct sqlite3 *db, int64_t process, const char *sweep, size_t *left);
/* Whether TABLE is one of the points'. */
bool vs_store_points_has(const char *table);

#endif
