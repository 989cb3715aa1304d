/*
 * points.h - the points of a sweep, in the merged database of its recordings.
 *
 *      sweep_point      a row a point: how it ended, what was predicted
 *      sweep_value      the value of each axis at it
 *      sweep_process    which processes of the file are its recordings
 *      sweep            (view) a row a point, an axis a column: what its processes held at most.  An axis
 *                       that has the name of another column gets axis_ before it
 *      sweep_rank       (view) likewise a row a process
 */
#ifndef VS_TRACE_STORE_POINTS_H
#define VS_TRACE_STORE_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
struct sqlite3;
int vs_store_points_copy(struct sqlite3 *db, int64_t process, const char *sweep, size_t *left);
/* Whether TABLE is one of the points'. */
bool vs_store_points_has(const char *table);

#endif
