/*
 * guard.h - files that somebody else made, read without waiting for ever, running what they define, or
 * taking more memory and time than a file of their size can be worth.
 */
#ifndef VS_READ_GUARD_H
#define VS_READ_GUARD_H

#include <stdbool.h>
#include <stdint.h>

struct sqlite3;

/* PATH opened for reading if it is a regular file, -1 with errno if not (EINVAL: something else).  It is
 * looked at before it is opened: opening a device may do something, and a FIFO would be waited for. */
int guard_open(const char *path);

/* DB runs no trigger, no view and no function that its file brings along, and no value is longer than any
 * that vramscope writes. */
void guard_connection(struct sqlite3 *db);

/* How many steps of SQLite's machine the database at PATH, with its log, can be worth; memory is granted too.
 */
int64_t guard_budget(const char *path);
/* Lets *STEPS more steps be run on DB; then a query ends with SQLITE_INTERRUPT.  STEPS outlives DB. */
void guard_steps(struct sqlite3 *db, int64_t *steps);

/* Takes the limit of memory back, for a program that is about to be started. */
void guard_memory_end(void);

#endif
