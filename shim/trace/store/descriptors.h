/*
 * descriptors.h - the files behind the numbers that SQLite knows them by.
 *
 * SQLite keeps the number that open() gave it (the logical number).  `struct vs_descriptor` remembers which
 * file that is and the number that it has now (the actual one).  The two are equal until the host closes our
 * descriptor: then the file is opened and locked again, and SQLite is not told.  Between the check and the
 * call the host could still close it: a window of nanoseconds that cannot be closed from here.
 *
 * All this is needed on the host's threads, and where the kernel or a filter refuses the better way: the
 * drain's thread has a descriptor table of its own (core/own_threads.h), which no host can touch, and
 * all signals blocked.  Once it has called vs_vfs_alone, its calls check neither the descriptor nor the
 * limit on file sizes.
 *
 * Only descriptors.c and vfs.c include this header.  What the rest asks (vs_vfs_alone, vs_vfs_gone,
 * vs_vfs_holds) is declared in vfs.h.
 */
#ifndef VS_TRACE_STORE_DESCRIPTORS_H
#define VS_TRACE_STORE_DESCRIPTORS_H

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

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

#endif
