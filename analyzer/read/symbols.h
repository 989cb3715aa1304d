/*
 * symbols.h - names the frames of a recording: turns module and offset into function, file and line.
 *
 * This is done once, after the recording, on the machine that made it.  The module files must be unchanged:
 * of the same build-id or, without one, not modified since the process started.  A frame that no symbol
 * contains keeps function NULL and is shown as "libfoo.so+0x1234": a neighbour's name would be wrong.
 */
#ifndef VS_READ_SYMBOLS_H
#define VS_READ_SYMBOLS_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

struct sqlite3;

/* Fills frame.function, frame.file and frame.line of DB where they are NULL, in one transaction, taking at
 * most SECONDS.  Returns the number of frames that got a name; Frames that can't be named are not an error.
 * Negative: DB could not be read.  Does nothing while the recording process still writes DB, or if DB can't
 * be written. */
int vs_symbols_fill_db(struct sqlite3 *db, double seconds);

/* The same for the database file PATH, in at most 10 seconds.  Negative with one line in WHY. */
int vs_symbols_fill(const char *path, char *why, size_t why_size);

/* The version of SQLite that is built in. */
const char *vs_sqlite_version(void);

/* ---- the names of one file ---- */

struct name_query {
    uint64_t offset; /* virtual address in the file */
    int64_t frame;   /* the frame's id */
    char *function;  /* out, malloc'd; NULL = no symbol contains it */
    char *file;      /* out, malloc'd; NULL = no line information */
    int line;
    uint64_t best; /* start of the symbol found so far */
    int rank;
};

/* Answers QUERIES (sorted here by offset) from the ELF file PATH.  BUILD_ID: hexadecimal, must be the file's;
 * NULL = the file must not be younger than NOT_AFTER (CLOCK_REALTIME, ns).  Stops at DEADLINE
 * (CLOCK_MONOTONIC, ns).  False where the file is missing, no ELF, or another one. */
bool elf_names(const char *path, const char *build_id, int64_t not_after, int64_t deadline,
               struct name_query *queries, size_t count);

/* A demangled copy of NAME, or a plain copy where it is not mangled. */
char *elf_demangle(const char *name);

int64_t elf_monotonic_ns(void);

#endif
