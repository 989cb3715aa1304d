/*
 * guard.h - reads files that are not trusted: without waiting for ever, without running anything that they
 * define, and with memory and time bounded by their size.
 */
#ifndef VS_READ_GUARD_H
#define VS_READ_GUARD_H

#include <stdbool.h>
#include <stdint.h>

struct sqlite3;

/* PATH opened for reading if it is a regular file, -1 with errno if not (EINVAL: something else).  Its type
 * is checked before it is opened, because opening a device may have an effect, and opening a FIFO would
 * wait. */
int guard_open(const char *path);

/* Before the first connection: SQLite does not add up what it allocates, for which each allocation would take
 * a lock; the limit of memory is the process's. */
void guard_begin(void);

/* Forbids DB to run triggers, views and functions that its file defines, and values longer than any that
 * vramscope writes. */
void guard_connection(struct sqlite3 *db);

/* The number of steps of SQLite's virtual machine that reading the database at PATH, with its log, may take;
 * also sets the limit
 * of memory. */
int64_t guard_budget(const char *path);
/* Allows *STEPS more steps on DB; after them a query ends with SQLITE_INTERRUPT.  STEPS must outlive DB. */
void guard_steps(struct sqlite3 *db, int64_t *steps);

/* Removes the limit of memory, for a program that is about to be started. */
void guard_memory_end(void);

#endif
