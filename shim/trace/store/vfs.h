/*
 * vfs.h - the system calls that SQLite makes, made safe inside somebody else's process.
 *
 * Host programs close descriptors that they did not open (daemons: all of them) and open their own under the
 * same numbers.  So SQLite's sit high and close-on-exec; before each use device and inode are compared with
 * those of the file that was opened, and if the number now belongs to another file, ours is opened again
 * under another number.  Locks are open file description locks (OFD): POSIX locks would all be lost as soon
 * as the host's own SQLite closed the same file.
 */
#ifndef VS_TRACE_STORE_VFS_H
#define VS_TRACE_STORE_VFS_H

#include <stdbool.h>
#include <sys/stat.h>

/* Installs the calls into this copy of SQLite.  Idempotent.  0 or -ENOSYS. */
int vs_vfs_install(void);

/* Declares that the calling thread has, for good, a descriptor table of its own and all signals blocked: its
 * calls need no checks. */
void vs_vfs_alone(void);

/* Whether the shared memory beside a database was truncated.  Then every read and write fails until SQLite
 * has closed all its files; a database that is opened after that gets new shared memory. */
bool vs_vfs_gone(void);

/* Whether SQLite has FILE open. */
bool vs_vfs_holds(const struct stat *file);

#endif
