/*
 * vfs.c - SQLite's system calls, each on the descriptor that is the file now.
 *
 * SQLite writes each frame of its log in two calls, 24 bytes and then the page behind them.  The 24 bytes are
 * kept back until the page comes, and both are written in one call; any other call on the file writes them
 * first. fsync is SQLite's own: with synchronous=OFF it never calls it.
 */
#define _GNU_SOURCE
#include "vfs.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "core/guard.h"
#include "core/procstat.h"
#include "core/walk.h"

/* ---- calls that only translate the number ---- */

static int vfs_fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (command == F_SETLK || command == F_SETLKW || command == F_GETLK)
        return vs_descriptor_lock(fd, command, argument);
    int actual = vs_descriptor(fd);
    return actual < 0 ? -1 : fcntl(actual, command, argument);
}

#define WITH_REAL(call)                                                                                      \
    int actual = vs_descriptor(fd);                                                                          \
    return actual < 0 ? -1 : call

static int vfs_fstat(int fd, struct stat *st)
{
    WITH_REAL(fstat(actual, st));
}

static ssize_t vfs_read(int fd, void *to, size_t n)
{
    WITH_REAL(read(actual, to, n));
}

static ssize_t vfs_pread(int fd, void *to, size_t n, off_t offset)
{
    int actual = vs_descriptor_unless_gone(fd);
    return actual < 0 ? -1 : pread(actual, to, n, offset);
}

static int vfs_fchmod(int fd, mode_t mode)
{
    WITH_REAL(fchmod(actual, mode));
}

static int vfs_fchown(int fd, uid_t user, gid_t group)
{
    WITH_REAL(fchown(actual, user, group));
}

/* ---- writes, and the limit on file sizes ---- */

/* A write beyond `ulimit -f` raises a signal.  On a thread of the host's it would stay pending for the host,
 * so such a write is not tried.  On our own thread it is blocked and removed again (limited). */
static bool beyond_limit(off_t end)
{
    if (vs_descriptors_alone() || (uint64_t)end <= vs_limit(VS_LIMIT_FILE_SIZE))
        return false;
    errno = EFBIG;
    return true;
}

/* Removes the pending signal of a write beyond the limit, and returns RESULT.  The signal is directed at the
 * thread, and such signals are taken before those of the process. */
static ssize_t limited(ssize_t result)
{
    if (!vs_descriptors_alone() || result >= 0 || errno != EFBIG)
        return result;
    sigset_t size;
    struct timespec now = {0, 0};
    sigemptyset(&size);
    sigaddset(&size, SIGXFSZ);
    sigtimedwait(&size, NULL, &now);
    errno = EFBIG;
    return result;
}

static int vfs_ftruncate(int fd, off_t size)
{
    struct stat st;
    int actual = vs_descriptor(fd);
    if (actual < 0 || (fstat(actual, &st) == 0 && size > st.st_size && beyond_limit(size)))
        return -1;
    return (int)limited(ftruncate(actual, size));
}

static ssize_t vfs_write(int fd, const void *from, size_t n)
{
    int actual = vs_descriptor(fd);
    if (actual < 0 || beyond_limit(lseek(actual, 0, SEEK_CUR) + (off_t)n))
        return -1;
    return limited(write(actual, from, n));
}

/* ---- frames of the log ---- */

/* Keeps the header of a frame that is appended to the log, to be written with its page.  (A header that is
 * rewritten nearer to the front is not followed by its page.) */
static bool keep_header(struct vs_descriptor *s, const void *from, size_t n, off_t offset)
{
    if (!s->log || s->waits || n != VS_LOG_FRAME || offset != s->end)
        return false;
    memcpy(s->frame, from, VS_LOG_FRAME);
    s->waits = true;
    return true;
}

enum frame_step { PLAIN, KEPT, JOINED };

/* Decides what becomes of a write: it is made as it is (PLAIN), kept back as a frame's header (KEPT), or made
 * together with the header that was kept back, which is copied to HEADER (JOINED). */
static enum frame_step frame_step(int fd, const void *from, size_t n, off_t offset, unsigned char *header)
{
    enum frame_step step = PLAIN;
    struct vs_descriptor *s = vs_descriptor_enter(fd);
    if (s && keep_header(s, from, n, offset)) {
        step = KEPT;
    } else if (s && s->waits && offset == s->end + VS_LOG_FRAME) {
        memcpy(header, s->frame, VS_LOG_FRAME);
        s->waits = false;
        step = JOINED;
    }
    if (s && step != KEPT)
        s->end = offset + (off_t)n;
    vs_descriptor_leave();
    return step;
}

static ssize_t write_frame(int actual, unsigned char *header, const void *page, size_t n, off_t offset)
{
    struct iovec parts[2] = {{header, VS_LOG_FRAME}, {(void *)(uintptr_t)page, n}};
    ssize_t got = pwritev(actual, parts, 2, offset - VS_LOG_FRAME);
    return got < 0 ? got : got > VS_LOG_FRAME ? got - VS_LOG_FRAME : 0; /* SQLite takes 0 for a full disk */
}

static ssize_t vfs_pwrite(int fd, const void *from, size_t n, off_t offset)
{
    unsigned char header[VS_LOG_FRAME];
    if (beyond_limit(offset + (off_t)n))
        return -1;
    enum frame_step step = frame_step(fd, from, n, offset, header);
    int actual = step == KEPT ? -1 : vs_descriptor_unless_gone(fd);
    if (step == KEPT)
        return (ssize_t)n;
    if (actual < 0)
        return -1;
    return limited(step == JOINED ? write_frame(actual, header, from, n, offset)
                                  : pwrite(actual, from, n, offset));
}

/* ---- shared memory ---- */

static void *vfs_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    int actual = fd < 0 ? fd : vs_descriptor(fd);
    if (fd >= 0 && actual < 0)
        return MAP_FAILED;
    void *m = mmap(at, n, protection, flags, actual, offset);
    if (m != MAP_FAILED && (flags & MAP_SHARED))
        vs_guard_add(m, n, vs_descriptors_cut_short, NULL);
    return m;
}

static int vfs_munmap(void *at, size_t n)
{
    vs_guard_remove(at);
    return munmap(at, n);
}

static int install(void)
{
    static const struct {
        const char *name;
        sqlite3_syscall_ptr call;
    } calls[] = {
#define CALL(name, function) {name, (sqlite3_syscall_ptr)function}
        CALL("open", vs_descriptor_open), CALL("close", vs_descriptor_close),
        CALL("fcntl", vfs_fcntl),         CALL("fstat", vfs_fstat),
        CALL("ftruncate", vfs_ftruncate), CALL("read", vfs_read),
        CALL("pread", vfs_pread),         CALL("pread64", vfs_pread),
        CALL("write", vfs_write),         CALL("pwrite", vfs_pwrite),
        CALL("pwrite64", vfs_pwrite),     CALL("fchmod", vfs_fchmod),
        CALL("fchown", vfs_fchown),       CALL("mmap", vfs_mmap),
        CALL("munmap", vfs_munmap),
#undef CALL
    };
    /* Only one thread uses this copy of SQLite, so it needs no mutexes, and a fork cannot leave the child a
     * locked one.  Refused, and not needed, if SQLite was in use before (the analyzer, tests). */
    sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    vs_heap_install();
    sqlite3_vfs *vfs = sqlite3_vfs_find("unix");
    if (!vfs || vfs->iVersion < 3)
        return -ENOSYS;
    int rc = vs_descriptors_prepare();
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        vfs->xSetSystemCall(vfs, calls[i].name, calls[i].call); /* SQLITE_NOTFOUND: built without it */
    return 0;
}

/* A child of a fork in the midst of this would have an SQLite that is being initialised for ever. */
int vs_vfs_install(void)
{
    return vs_walk_apart(install);
}
