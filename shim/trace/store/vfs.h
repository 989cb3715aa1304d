/*
 * vfs.h - the system calls and the memory of SQLite, made safe inside somebody else's process.
 *
 * Host programs close descriptors that they did not open (daemons: all of them) and open their own under the
 * same numbers.  So SQLite's sit high and close-on-exec, and before each use device and inode are compared
 * with those of the file that was opened.  Locks are open file description locks (OFD): POSIX locks would all
 * be lost as soon as the host's own SQLite closed the same file.  The drain's thread needs none of that where
 * it has a descriptor table of its own (core/own_threads.h) and all signals blocked.
 */
#ifndef VS_TRACE_STORE_VFS_H
#define VS_TRACE_STORE_VFS_H

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

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

/* ---- vfs.c's own: the files behind the numbers that SQLite knows them by (descriptors.c), its memory
 * (heap.c) ----
 *
 * SQLite keeps the number that open() gave it (the logical one).  The number that the file has now (the
 * actual one) is another one where the host closed our descriptor: then the file is opened and locked again,
 * and SQLite is not told. Between the check and the call the host could still close it, a window of
 * nanoseconds that cannot be closed here. */

#define VS_FILE_LOCKS 16
#define VS_LOG_FRAME  24 /* bytes of a frame's header in SQLite's log */

struct vs_file_lock {
    off_t start, end;
    short type; /* F_RDLCK (which is 0), F_WRLCK; `end` 0: no lock */
};

struct vs_descriptor {
    bool used;
    int logical, actual, flags;
    dev_t dev;
    ino_t ino;
    char path[PATH_MAX]; /* an array, because leak checkers would not find a pointer here */
    struct vs_file_lock lock[VS_FILE_LOCKS];
    bool log;                          /* the file is SQLite's log */
    off_t end;                         /* of the last write to it */
    bool waits;                        /* a frame's header is kept back, to be written at `end` */
    unsigned char frame[VS_LOG_FRAME]; /* that header */
};

/* Makes the table; 0 or -ENOMEM. */
int vs_descriptors_prepare(void);

/* Whether the calling thread has said that it is alone (vs_vfs_alone). */
bool vs_descriptors_alone(void);

/* open, close and fcntl's locks, by SQLite's number. */
int vs_descriptor_open(const char *path, int flags, int mode);
int vs_descriptor_close(int fd);
int vs_descriptor_lock(int fd, int command, struct flock *lock);

/* The descriptor behind SQLite's number, or -1 with errno: the file is gone.  A frame's header that waits is
 * written first. */
int vs_descriptor(int fd);
/* Likewise; EIO after the shared memory was truncated, until SQLite has closed its files. */
int vs_descriptor_unless_gone(int fd);

/* Locks the table and gives the row of SQLite's number, NULL: it is no file of the table. */
struct vs_descriptor *vs_descriptor_enter(int fd);
void vs_descriptor_leave(void);

/* Called when the shared memory was truncated (core/guard.h), in a signal handler. */
void vs_descriptors_cut_short(void *unused);

/* Gives SQLite the heap, if it has not begun to use another. */
void vs_heap_install(void);

#endif
