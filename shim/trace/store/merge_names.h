/*
 * merge_names.h - the rows of string, module, frame, stack and tensor of several files, each content once.
 *
 *      what the file has      id 7: "train.py"          what is there      id 3: "train.py"
 *      --> 7 is 3 from now on, in this file; a row that is not there gets the next id
 *
 * Tables come in the order in which they refer to each other, and stacks in the order of their ids, in which
 * a caller stands before what it called.  A module without a build ID is the same where it also lay at the
 * same address; with one, wherever it lay.
 */
#ifndef VS_TRACE_STORE_MERGE_NAMES_H
#define VS_TRACE_STORE_MERGE_NAMES_H

#include <sqlite3.h>
#include <stdbool.h>

#include "intern.h"

enum vs_names { VS_NAMES_STRING, VS_NAMES_MODULE, VS_NAMES_FRAME, VS_NAMES_STACK, VS_NAMES_TENSOR, VS_NAMES };

struct vs_moved_id {
    int64_t was, is;
};

struct vs_merge_names {
    sqlite3 *db;
    struct vs_intern rows[VS_NAMES];     /* what is in main */
    int64_t last[VS_NAMES];              /* greatest id there */
    struct vs_moved_id *moved[VS_NAMES]; /* of the other file, by what it was */
    size_t moved_count[VS_NAMES];
};

/* Makes the SQL function moved_name(KIND, ID), of enum vs_names: the id in main of what the other file calls
 * ID; what is not above 0 stays, and what the other file lacks is 0.  Reads the names of main.  0, or -1 with
 * the error in DB. */
int vs_merge_names_open(struct vs_merge_names *n, sqlite3 *db);
/* Copies the names of the attached file `other` which main has not. */
int vs_merge_names_copy(struct vs_merge_names *n);
void vs_merge_names_close(struct vs_merge_names *n);
/* Whether TABLE is one of them. */
bool vs_merge_names_has(const char *table);

#endif
