/*
 * vfs.c - see vfs.h.
 *
 * SQLite keeps the number that open() gave it (the logical number).  `struct tracked` remembers which file
 * that is and the number that it has now (the actual one).  The two are equal until the host closes our
 * descriptor.  Between the check and the call the host could still close it: a window of nanoseconds that
 * cannot be closed from here.  SQLite would call fsync directly, but with synchronous=OFF it never does.
 *
 * All this is needed on the host's threads, and where the kernel or a filter refuses the better way: the
 * drain's thread has a descriptor table of its own (core/own_descriptors.h), which no host can touch, and
 * all signals blocked.  Once it has called vs_vfs_alone, its calls check neither the descriptor nor the
 * limit on file sizes.
 *
 * SQLite writes each frame of its log in two calls, 24 bytes and then the page behind them.  The 24 bytes
 * are kept back here until the page comes, and both are written in one call; any other call on the file
 * writes them first.
 */
#define _GNU_SOURCE
#include "vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "core/guard.h"
#include "core/rlimits.h"
#include "heap.h"
#include "core/fork.h"

#define FILES 64
#define LOCKS 16
#define FRAME 24 /* bytes of a frame's header in SQLite's log */

struct lock {
    off_t start, end;
    short type; /* F_RDLCK (which is 0), F_WRLCK; `end` 0: no lock */
};

struct tracked {
    bool used;
    int logical, actual, flags;
    dev_t dev;
    ino_t ino;
    char path[PATH_MAX]; /* an array, because leak checkers would not find a pointer here */
    struct lock lock[LOCKS];
    bool log;                   /* the file is SQLite's log */
    off_t end;                  /* of the last write to it */
    bool waits;                 /* a frame's header is kept back, to be written at `end` */
    unsigned char frame[FRAME]; /* that header */
};

/* Wiped in a fork child, which must not use its parent's files. */
static struct state {
    /* Held for look-ups only.  One thread writes databases; the analyzer may have several readers. */
    atomic_flag busy;
    _Atomic bool gone; /* the shared memory was truncated: nothing more is read or written */
    struct tracked file[FILES];
} * state;

static __thread bool alone __attribute__((tls_model("initial-exec")));

void vs_vfs_alone(void)
{
    alone = true;
}

static void wipe(void)
{
    memset(state, 0, sizeof *state);
}

static void enter(void)
{
    /* acquire: sees the table as the last holder left it */
    while (atomic_flag_test_and_set_explicit(&state->busy, memory_order_acquire)) {
    }
}

static void leave(void)
{
    atomic_flag_clear_explicit(&state->busy, memory_order_release); /* pairs with enter */
}

static struct tracked *tracked_of(int fd)
{
    for (int i = 0; i < FILES; i++)
        if (state->file[i].used && state->file[i].logical == fd)
            return &state->file[i];
    return NULL;
}

static bool still_ours(const struct tracked *s)
{
    struct stat st;
    return alone || (fstat(s->actual, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino);
}

/* ---- opening ---- */

static int lowest_number(void)
{
    uint64_t half = vs_limit(VS_LIMIT_FILES) / 2;
    return half < 1000 ? (int)half : 1000;
}

static int open_high(const char *path, int flags, int mode)
{
    int low = open(path, flags | O_CLOEXEC, mode);
    if (low < 0)
        return low;
    int from = lowest_number();
    int high = fcntl(low, F_DUPFD_CLOEXEC, from);
    while (high >= 0 && tracked_of(high)) { /* SQLite knows the number as another file */
        int next = fcntl(low, F_DUPFD_CLOEXEC, high + 1);
        close(high);
        high = next;
    }
    if (high < 0)
        return low;
    close(low);
    return high;
}

static bool is_log(const char *path)
{
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, "-wal") == 0;
}

static void remember(int fd, const char *path, int flags)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    for (int i = 0; i < FILES; i++) {
        if (state->file[i].used)
            continue;
        struct tracked *s = &state->file[i];
        *s = (struct tracked){.used = true,
                              .logical = fd,
                              .actual = fd,
                              .flags = flags & ~(O_CREAT | O_EXCL | O_TRUNC),
                              .dev = st.st_dev,
                              .ino = st.st_ino,
                              .log = is_log(path),
                              .end = -1};
        snprintf(s->path, sizeof s->path, "%s", path);
        return;
    }
}

bool vs_vfs_holds(const struct stat *file)
{
    bool held = false;
    enter();
    for (int i = 0; i < FILES; i++)
        held |=
            state->file[i].used && state->file[i].dev == file->st_dev && state->file[i].ino == file->st_ino;
    leave();
    return held;
}

static int vfs_open(const char *path, int flags, int mode)
{
    enter();
    int fd = open_high(path, flags, mode);
    int error = errno;
    if (fd >= 0)
        remember(fd, path, flags);
    leave();
    errno = error;
    return fd;
}

/* ---- locks ---- */

static int set_lock(int fd, int command, short type, off_t start, off_t end)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = end - start};
    return fcntl(fd, command, &lock);
}

static void add_lock(struct tracked *s, struct lock lock)
{
    for (int i = 0; i < LOCKS && lock.start < lock.end; i++) {
        if (s->lock[i].end == 0) {
            s->lock[i] = lock;
            return;
        }
    }
}

/* Keeps the list of locked ranges, so that they can be locked again on a new descriptor. */
static void note_lock(struct tracked *s, const struct flock *f)
{
    struct lock now = {f->l_start, f->l_start + f->l_len, f->l_type};
    for (int i = 0; i < LOCKS; i++) {
        struct lock old = s->lock[i];
        if (old.end <= now.start || old.start >= now.end)
            continue;
        s->lock[i].end = 0;
        add_lock(s, (struct lock){old.start, now.start, old.type});
        add_lock(s, (struct lock){now.end, old.end, old.type});
    }
    if (f->l_type != F_UNLCK)
        add_lock(s, now);
}

static bool lock_again(const struct tracked *s, int fd)
{
    for (int i = 0; i < LOCKS; i++)
        if (s->lock[i].end &&
            set_lock(fd, F_OFD_SETLK, s->lock[i].type, s->lock[i].start, s->lock[i].end) < 0)
            return false;
    return true;
}

/* ---- the actual number ---- */

static int open_again(struct tracked *s)
{
    struct stat st;
    int fd = open_high(s->path, s->flags, 0);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || st.st_dev != s->dev || st.st_ino != s->ino || !lock_again(s, fd)) {
        close(fd);
        errno = EIO;
        return -1;
    }
    s->actual = fd;
    return fd;
}

/* Writes a frame's header that was kept back and whose page has not come. */
static bool write_waiting(struct tracked *s, int actual)
{
    bool waited = s->waits;
    s->waits = false;
    return !waited || pwrite(actual, s->frame, FRAME, s->end) == FRAME;
}

/* The descriptor behind SQLite's number, or -1 with errno: the file is gone. */
static int real(int fd)
{
    enter();
    struct tracked *s = tracked_of(fd);
    int actual = !s ? fd : still_ours(s) ? s->actual : open_again(s);
    if (s && actual >= 0 && !write_waiting(s, actual))
        actual = -1;
    leave();
    return actual;
}

static bool any_used(void)
{
    bool any = false;
    for (int i = 0; i < FILES; i++)
        any |= state->file[i].used;
    return any;
}

bool vs_vfs_gone(void)
{
    return state != NULL && atomic_load(&state->gone);
}

/* Fails every read and write after the shared memory was truncated, until SQLite has closed its files. */
static int real_unless_gone(int fd)
{
    if (!vs_vfs_gone())
        return real(fd);
    errno = EIO;
    return -1;
}

static int vfs_close(int fd)
{
    enter();
    struct tracked *s = tracked_of(fd);
    int actual = !s ? fd : still_ours(s) ? s->actual : -1;
    if (s) {
        if (actual >= 0)
            write_waiting(s, actual);
        s->used = false;
        if (!any_used())
            atomic_store(&state->gone, false);
    }
    leave();
    return actual < 0 ? 0 : close(actual);
}

static int vfs_lock(int fd, int command, struct flock *lock)
{
    int actual = real(fd);
    if (actual < 0)
        return -1;
    lock->l_pid = 0; /* OFD locks require it */
    int rc = fcntl(actual, command == F_GETLK ? F_OFD_GETLK : F_OFD_SETLK, lock);
    if (rc == 0 && command != F_GETLK) {
        enter();
        struct tracked *s = tracked_of(fd);
        if (s)
            note_lock(s, lock);
        leave();
    }
    return rc;
}

static int vfs_fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (command == F_SETLK || command == F_SETLKW || command == F_GETLK)
        return vfs_lock(fd, command, argument);
    int actual = real(fd);
    return actual < 0 ? -1 : fcntl(actual, command, argument);
}

/* ---- calls that only translate the number ---- */

#define WITH_REAL(call)                                                                                      \
    int actual = real(fd);                                                                                   \
    return actual < 0 ? -1 : call

static int vfs_fstat(int fd, struct stat *st)
{
    WITH_REAL(fstat(actual, st));
}

/* A write beyond `ulimit -f` raises a signal.  On a thread of the host's it would stay pending for the host,
 * so such a write is not tried.  On our own thread it is blocked and removed again (limited). */
static bool beyond_limit(off_t end)
{
    if (alone || (uint64_t)end <= vs_limit(VS_LIMIT_FILE_SIZE))
        return false;
    errno = EFBIG;
    return true;
}

/* Removes the pending signal of a write beyond the limit, and returns RESULT.  The signal is directed at the
 * thread, and such signals are taken before those of the process. */
static ssize_t limited(ssize_t result)
{
    if (!alone || result >= 0 || errno != EFBIG)
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
    int actual = real(fd);
    if (actual < 0 || (fstat(actual, &st) == 0 && size > st.st_size && beyond_limit(size)))
        return -1;
    return (int)limited(ftruncate(actual, size));
}

static ssize_t vfs_read(int fd, void *to, size_t n)
{
    WITH_REAL(read(actual, to, n));
}

static ssize_t vfs_pread(int fd, void *to, size_t n, off_t offset)
{
    int actual = real_unless_gone(fd);
    return actual < 0 ? -1 : pread(actual, to, n, offset);
}

static ssize_t vfs_write(int fd, const void *from, size_t n)
{
    int actual = real(fd);
    if (actual < 0 || beyond_limit(lseek(actual, 0, SEEK_CUR) + (off_t)n))
        return -1;
    return limited(write(actual, from, n));
}

/* Keeps the header of a frame that is appended to the log, to be written with its page.  (A header that is
 * rewritten nearer to the front is not followed by its page.) */
static bool keep_header(struct tracked *s, const void *from, size_t n, off_t offset)
{
    if (!s->log || s->waits || n != FRAME || offset != s->end)
        return false;
    memcpy(s->frame, from, FRAME);
    s->waits = true;
    return true;
}

enum frame_step { PLAIN, KEPT, JOINED };

/* Decides what becomes of a write: it is made as it is (PLAIN), kept back as a frame's header (KEPT), or made
 * together with the header that was kept back, which is copied to HEADER (JOINED). */
static enum frame_step frame_step(int fd, const void *from, size_t n, off_t offset, unsigned char *header)
{
    enum frame_step step = PLAIN;
    enter();
    struct tracked *s = tracked_of(fd);
    if (s && keep_header(s, from, n, offset)) {
        step = KEPT;
    } else if (s && s->waits && offset == s->end + FRAME) {
        memcpy(header, s->frame, FRAME);
        s->waits = false;
        step = JOINED;
    }
    if (s && step != KEPT)
        s->end = offset + (off_t)n;
    leave();
    return step;
}

static ssize_t write_frame(int actual, unsigned char *header, const void *page, size_t n, off_t offset)
{
    struct iovec parts[2] = {{header, FRAME}, {(void *)(uintptr_t)page, n}};
    ssize_t got = pwritev(actual, parts, 2, offset - FRAME);
    return got < 0 ? got : got > FRAME ? got - FRAME : 0; /* SQLite takes 0 for a full disk */
}

static ssize_t vfs_pwrite(int fd, const void *from, size_t n, off_t offset)
{
    unsigned char header[FRAME];
    if (beyond_limit(offset + (off_t)n))
        return -1;
    enum frame_step step = frame_step(fd, from, n, offset, header);
    int actual = step == KEPT ? -1 : real_unless_gone(fd);
    if (step == KEPT)
        return (ssize_t)n;
    if (actual < 0)
        return -1;
    return limited(step == JOINED ? write_frame(actual, header, from, n, offset)
                                  : pwrite(actual, from, n, offset));
}

static int vfs_fchmod(int fd, mode_t mode)
{
    WITH_REAL(fchmod(actual, mode));
}

static int vfs_fchown(int fd, uid_t user, gid_t group)
{
    WITH_REAL(fchown(actual, user, group));
}

/* In a signal handler. */
static void cut_short(void *unused)
{
    atomic_store(&state->gone, true);
}

static void *vfs_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    int actual = fd < 0 ? fd : real(fd);
    if (fd >= 0 && actual < 0)
        return MAP_FAILED;
    void *m = mmap(at, n, protection, flags, actual, offset);
    if (m != MAP_FAILED && (flags & MAP_SHARED))
        vs_guard_add(m, n, cut_short, NULL);
    return m;
}

static int vfs_munmap(void *at, size_t n)
{
    vs_guard_remove(at);
    return munmap(at, n);
}

int vs_vfs_install(void)
{
    static const struct {
        const char *name;
        sqlite3_syscall_ptr call;
    } calls[] = {
#define CALL(name, function) {name, (sqlite3_syscall_ptr)function}
        CALL("open", vfs_open),     CALL("close", vfs_close),         CALL("fcntl", vfs_fcntl),
        CALL("fstat", vfs_fstat),   CALL("ftruncate", vfs_ftruncate), CALL("read", vfs_read),
        CALL("pread", vfs_pread),   CALL("pread64", vfs_pread),       CALL("write", vfs_write),
        CALL("pwrite", vfs_pwrite), CALL("pwrite64", vfs_pwrite),     CALL("fchmod", vfs_fchmod),
        CALL("fchown", vfs_fchown), CALL("mmap", vfs_mmap),           CALL("munmap", vfs_munmap),
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
    if (state == NULL && (state = vs_fork_wiped_memory(sizeof *state, wipe)) == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        vfs->xSetSystemCall(vfs, calls[i].name, calls[i].call); /* SQLITE_NOTFOUND: built without it */
    return 0;
}
