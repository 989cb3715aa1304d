/*
 * vfs.h - the system calls that SQLite makes, made safe inside somebody else's process.
 *
 * Host programs close descriptors that they did not open (daemons: all of them) and open their own under the
 * same numbers.  So SQLite's sit high and close-on-exec; before each use device and inode are compared with
 * what was opened, and a stranger under the number makes us open our file again, under another one.  Locks
 * are those of the open file (OFD): POSIX locks would all be gone as soon as the host's own SQLite closed the
 * same file.
 */
#ifndef VS_TRACE_STORE_VFS_H
#define VS_TRACE_STORE_VFS_H

#include <stdbool.h>
#include <sys/stat.h>

/* Installs the calls into this copy of SQLite.  Idempotent.  0 or -ENOSYS. */
int vs_vfs_install(void);

/* The calling thread has descriptors of its own, which nobody else opens or closes, and all signals blocked,
 * for good: what the calls ask the kernel elsewhere before each one is not asked there. */
void vs_vfs_alone(void);

/* Whether the shared memory beside a database was cut short: every read and write fails until SQLite has
 * closed all its files, and a database that is opened then begins with new shared memory. */
bool vs_vfs_gone(void);

/* Whether SQLite has FILE open. */
bool vs_vfs_holds(const struct stat *file);

#endif
